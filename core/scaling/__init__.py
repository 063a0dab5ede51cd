"""The scaling table: the same training on 1, 2, 4, ... devices.

- `plan`: how many of the devices each training uses, and the spec of each
- `record`: what was asked for and which runs were made for it, in a file beside the runs, so that it can be continued
- `same_curve`: whether two runs walked the same curve
- `table`: throughput, speed-up, efficiency and memory of the runs, as rows and JSON
- `table_text`: that table as cells for people, as Markdown and as CSV
- `scaling_report`: that table as a page of HTML, with the report on its runs
- `deletion`: delete a table, alone or with its runs
- `measuring`: start the command that makes the runs, so that it goes on without its window, and stop it
"""
