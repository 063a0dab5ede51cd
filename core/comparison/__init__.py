"""Several runs, compared.

- `measured_run`: a run with all that it measured, read to its end
- `named_settings`: the settings of a run; the key by which runs form a group
- `metric`: the metric by which runs are compared, and whether lower is better
- `results`: the numbers of one run that a table shows
- `quantities`: the registry of these numbers: how each is called, written and compared
- `table`: runs and groups of runs as rows, with their differences from one of them
- `table_text`: that table as cells for people, as Markdown and as CSV
- `axes`: the axes over which several runs are drawn together
- `curves`: curves in the columns of a plot; the mean of a group with its band
- `readings`: the readings of all devices of a run as one curve
- `reasons`: why two runs may differ: settings, text, packages, devices
"""
