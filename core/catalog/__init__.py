"""What can be trained, and how.

- `frameworks`: one row per framework
- `installed`: which Python runs a framework, and what it has installed
- `strategies`: one row per strategy of a framework, and the ways to launch a script
- `recipes`: recipe files, parsed and never imported; the parameters of their functions; copies for the user
- `recipe_use`: whether a framework and a strategy can train a recipe
"""
