"""The shown run: its header, the card about its failure, and the tabs below the plots.

- `header`, `run_buttons`, `state_pill`, `progress`: name, buttons, state and progress
- `reading_bar`: how much of it was read
- `failure_card`: why it failed, over the plots
- `details`: the tabs; `log` and `memory` have others of them
- `event_list`, `settings_view`, `outputs_tab`: the tabs Events, Settings and Outputs
"""
