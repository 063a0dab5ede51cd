"""Trainyard without a window: runs, devices, strategies, the command line.

- `errors`, `text`: the errors of a run; names joined in a sentence, sizes
- `table`: tables as text, Markdown, CSV and JSON
- `arrays`: numpy, loaded when it is first used
- `palette`: the colours of curves and devices
- `language`: sentences in the language of the user
- `companions`: what the rooms add to a run
- the packages, from top to bottom: see docs/architecture.md
"""
