"""A run, seen through its directory.

- `directory`: create a run directory, start its supervisor; the text of the recipe or script; which ranks train here
  for a run of another machine
- `requests`: the request files below `control`
- `run`: one run: start it, follow it, send it requests, resume it
- `facts`, `fold`: the states of a run; what its events say about it
- `foreign`: runs of other machines, copied here
- `owners`: whether a run or a preset belongs to another user; what its start would execute
- `lock`: the lock that keeps a run from being started or resumed twice
- `stopped`: which runs have a supervisor; name the processes of a run that are stopped (state T), and continue them
- `outputs`: list the checkpoints and choose one; list the files that functions of a recipe have written
"""
