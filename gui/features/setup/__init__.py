"""What is trained, and its start.

- `panel`: the training card; `recipe_setup`, `recipe_fields`, `strategy_box`: its form for recipes
- `script_form`, `script_search`: its form for scripts; what scripts need
- `settings_sheet`, `first_steps`: all settings and presets; three buttons for a first run
- `start`: check the choices and start; `reuse`: fill the form from a run or a preset
"""
