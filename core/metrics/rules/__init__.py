"""Rules by which the user teaches what the numbers of a program's lines are.

- `rule`: one rule: the shape of a line, and what each of its numbers is
- `rule_set`: apply rules to the lines of a log, together with the dialects
- `rule_file`: keep rules in a file beside the script
"""
