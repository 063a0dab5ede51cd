"""Work in the background of the window: `QObject`s without widgets.

- `services`: all services of one window, made once
- `poll_timer`: the one timer
- `step_queue`: do work of the window's thread in steps
- `background_task`: run work on a thread of its own
- `run_session`, `run_memory`, `run_list`: the shown run; the runs shown before; all runs
- `queue_service`: the queued runs, and the devices that are set aside
- `scaling_tables`: the scaling tables among them
- `comparison_reader`: the runs of a comparison, and their table
- `output_reader`: the files that functions of the shown run's recipe have written
- `exports`: write files that the user asked for
- `device_monitor`, `process_scanner`, `process_terminator`, `leftover_scanner`: devices, and processes on them
- `start_checker`, `python_finder`, `expression_tester`: check choices, find Pythons, try an expression
- `rule_teacher`: try and keep what the user says about a number of the log
- `notification_tester`: send a test message
- `garbage_collector`: collects cyclic garbage in the window's thread only
- `settings_file`, `preferences`: the settings that the window saves
"""
