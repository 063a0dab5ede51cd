"""The training card: what to train, how, and whether it can start.

- `setup_panel`: the card
- `workload_switch`, `presets_button`: recipe or script; saved presets
- `settings_sheet`: all other settings, in a sheet over the plots
- `script_form`: the form for scripts
- `start_status`: whether the run can start, and why not
- `first_steps`: the guidance for a first run, over the plots
"""
