"""Several runs, compared.

- `measured_run`: a run with all that it measured, read to its end; its settings, and the key by which runs form a
  group; why two runs may differ: settings, text, packages, devices
- `quantities`: the metric that is compared, and the registry of the numbers of a run
- `comparison_table`: runs and groups of runs as rows with their differences from one of them, for people, as CSV and as
  JSON
- `curves`: what is drawn of several runs: curves, means of groups with their bands, axes, readings of devices
"""
