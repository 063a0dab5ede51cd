"""From a person's choices to a checked run spec.

- `choices`: the choices of the window's form or of the command line
- `build_spec`: turn choices into a `RunSpec`
- `script_check`: find out what a script is and whether it can start
- `validation`: what keeps a spec from running on these devices
- `requirements`: what a recipe needs that its Python lacks
- `presets`: choices saved under a name
- `shell_command`: the shell command that starts the same training
"""
