"""The scaling table: the same training on 1, 2, 4, ... devices.

- `record`: how many of the devices each training uses, and the spec of each; what was asked for and which runs were
  made for it, in a file beside the runs, so that it can be continued
- `scaling_command`: start the command that makes the runs, and stop it; delete a table, alone or with its runs
- `scaling_table`: throughput, speed-up, efficiency, memory and curves of the runs, for people, as CSV and as JSON
- `scaling_report`: that table as a page of HTML, with the report on its runs
"""
