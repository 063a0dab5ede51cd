"""The form for recipes.

- `recipe_setup`: framework, strategy, workload and settings
- `recipe_picker`, `recipe_form`: choose a recipe; its own settings
- `run_form`, `training_form`: the settings that all recipes share
- `strategy_box`, `strategy_delegate`: the box of strategies, also for the launch modes and the Pythons of scripts
"""
