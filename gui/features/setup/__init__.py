"""What is trained, and its start.

- `panel`: the training card, and the sheet with all settings
- `recipe_setup`, `recipe_fields`: its form for recipes
- `script_form`: its form for scripts, and what scripts need
- `start`: check the choices and start
- `reuse`: fill the form from a run or a preset, or for a first run
"""
