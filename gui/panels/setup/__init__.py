"""The training card: what to train, how, and whether it can start.

- `setup_panel`: the card
- `workload_switch`, `presets_button`: recipe or script; saved presets
- `script_form`, `device_forms`: the form for scripts; fields that recipes and scripts share
- `start_status`: whether the run can start, and why not
"""
