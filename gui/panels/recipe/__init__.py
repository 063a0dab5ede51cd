"""The form for recipes.

- `recipe_setup`: framework, strategy, workload and settings
- `recipe_picker`, `recipe_form`: choose a recipe; its own settings
- `run_form`, `training_form`, `checkpoint_form`: the settings that all recipes share
- `distribution_form`: the settings that only some strategies have
"""
