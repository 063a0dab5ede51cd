"""What the window shows about runs.

- `run_header`, `pause_button`, `progress`: name, state, buttons and progress of the shown run
- `state_words`: how the state of a run reads, in the header and in the list
- `run_messages`, `memory_verdicts`: its message, and the verdicts on memory
- `failure_view`: the card about a failure
- `empty_states`: what stands where there is nothing to show
- `event_rows`: the tab Events
- `run_rows`, `run_actions`: the list of runs, and what can be done with one
- `queue_rows`: the queued runs in that list
- `scaling_rows`: scaling tables in that list, and what their view says
- `log_numbers`: the numbers of a log that became values of a metric
- `settings_rows`: what a run was trained with
"""
