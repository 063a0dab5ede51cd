"""What the window shows about one run.

- `run_header`, `pause_button`, `progress`: its name, state, buttons and progress; the question before a stop
- `state_words`: how its state reads, here and in the list of runs
- `run_messages`, `memory_verdicts`: its message, and the verdicts on memory
- `failure_view`: the card about a failure
- `empty_states`: what stands where there is nothing to show
- `event_rows`: the tab Events
- `log_numbers`: the numbers of a log that became values of a metric
- `settings_rows`: what a run was trained with
"""
