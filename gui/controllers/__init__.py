"""Controllers connect panels, services and the core. Each serves one use case.

- `start_controller`, `start_request`: check choices; start, queue, start again and resume runs
- `queue_controller`: move, hold, release and remove queued runs
- `run_controller`: show the attached run and pass on what its buttons ask for
- `first_steps_controller`: do what the guidance for a first run offers
- `reuse_controller`: start from an earlier run or a preset
- `recipe_copy_controller`: copy a built-in workload to a file of the user's
- `history_controller`: search in the list of runs, star, tags, notes and archive
- `comparison_controller`, `comparison_view`, `comparison_export`: compare the ticked runs, and export that
- `removal_controller`: delete runs
- `teach_controller`: mark the numbers of the log, and teach what they are
- `export_controller`: export measurements, models, pictures and tables; rename runs
- `scaling_controller`: measure scaling tables and show them
- `output_controller`: show and open the files that functions of a recipe have written
- `device_controller`, `memory_controller`: show devices, memory and processes
- `preferences_controller`: apply the preferences
- `menu_controller`, `help_controller`: connect the menu bar; documents, keys, About and the report
- `card_navigation`: Tab, F6 and Ctrl+F
- `dock_layout`, `window_state`: place the panels; save and restore them
- `view_place`: what a window shows while its parts are made again
"""
