"""What runs came to: several runs compared, the same training on 1, 2, 4, ... devices, and reports as HTML.

- `measured_run`: a run with all that it measured, read to its end; its settings, its numbers (the registry of them),
  and why two runs may differ
- `comparison`: runs and groups of runs as rows with their differences from one of them, for people, as CSV and as JSON
- `curves`: what is drawn of several runs: curves, means of groups with their bands, axes
- `scaling_record`: the spec of each training of a scaling table, and which runs were made for it, in a file beside the
  runs
- `scaling_command`: start the command that makes these runs, and stop it; delete a table, alone or with its runs
- `scaling_table`: throughput, speed-up, efficiency, memory and curves of these runs, for people, as CSV and as JSON
- `page`: the head of a report, its colours in light and dark, its elements, in which all texts are escaped
- `chart`: curves as drawings in SVG, in a page or as files of their own, SVG or PNG
- `report`: a report on runs, or on a scaling table
"""
