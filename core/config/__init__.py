"""From the user's choices to a checked run spec.

- `choices`: the choices of the window's form or of the command line
- `build_spec`: turn the choices for a recipe, or a preset, into a `RunSpec`
- `script_check`: build the spec of a script, analyse it, and check whether it can start
- `strategy_settings`: settings that only some strategies have
- `validation`: what keeps a spec from starting on this machine
- `examination`: what the machine that trains says about choices; it also travels from another machine
- `host_abilities`: what the agent of a host can be asked for to start runs there
- `part_abilities`: what it can be asked for to train some ranks of a run of another machine
- `visible_gpus`: ask the CUDA driver before a start whether it would show a run its GPUs
- `smaller_batch`: halve the batch of a spec that ran out of memory
- `presets`: specs saved under a name
- `shell_command`: the shell command that starts the same training
"""
