"""What is trained, and its start.

- `panel`: the training card, with its form for recipes
- `recipe_fields`: the fields of that form
- `script_form`: its form for scripts, and what scripts need
- `status`: what is known before the start
- `start`: check the choices and start
- `fit`: measure whether they fit into memory
- `reuse`: fill the form from a run or a preset, or for a first run
"""
