"""From the user's choices to a checked run spec.

- `choices`: the choices of the window's form or of the command line; turn those for a recipe into a `RunSpec`
- `sweep`: several values in one field, and the choices of the runs that they make
- `script_check`: build the spec of a script, analyse it, and check whether it can start
- `validation`: what keeps a spec from starting on this machine; settings that only some strategies have; halve a batch
  that ran out of memory
- `builds`, `fit`: whether the build of the framework can use the chosen GPUs, and whether their memory is enough
- `finding`: a row of what is known before a start, with what a click can do about it
- `moving`: resume a run on other devices, or with another strategy
- `examination`: what the machine that trains says about choices, and the CUDA driver about GPUs; it also travels from
  another machine
- `abilities`: what the agent of a host can be asked for to start runs there, or to train some ranks of a run of another
  machine
- `presets`: specs saved under a name; the shell command that starts the same training
"""
