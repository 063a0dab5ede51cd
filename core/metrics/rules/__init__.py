"""Rules by which the user teaches what the numbers of a program's lines are.

- `rule`: one rule: the shape of a line, and what each of its numbers is
- `rule_set`: apply rules to the lines of a log, together with the dialects
- `rule_file`: keep rules in a file beside the script
- `teaching`: make a rule from a line and a number in it, and show the curve it gives
- `lessons`: teach a run: try a rule on its log, keep it, read its curves again
"""
