"""A run, seen through its directory.

- `directory`: create a run directory, start its supervisor, read its output
- `run`: one run: start it, follow it, send it requests, resume it
- `facts`, `fold`: what the events of a run say about it; fold events into it
- `failures`, `failure_evidence`: the cause of a failure in words; what a failed run recorded, taken apart
- `tracebacks`: the exception in what a Python program printed
- `unread_lines`: the lines with numbers of a program without any measurement
- `start_phases`: what a run does before its first step, in words: at the moment, and afterwards
- `timeline`, `epoch_numbers`: what happened in a run, one line a thing; the numbers of each epoch
- `model_parts`: which part of the model is on which device
- `workload_text`: the text of the recipe or script that a run trains
- `software`: the Python, the packages and the commit that a run was trained with
- `ownership`: whether a run or a preset belongs to another user
- `states`: the states of a run and their transitions
- `verdicts`, `remedies`: the findings of the memory watch; what can be tried about them
- `requests`: the request files below `control`
- `lock`: the lock that keeps a run from being started or resumed twice
- `stopped`: name the processes of a run that are stopped (state T), and continue them
- `checkpoints`: list and choose checkpoints
- `outputs`: list the files that functions of a recipe have written
- `run_loss`: the one loss by which runs are compared
- `setting_values`: what was asked of a run, as named values
- `marks`: star, tags, notes and archiving, which users give to runs
- `search`: find runs by words and conditions, and sort them
- `index`: list the runs below a folder, and find one by name
- `device_use`: find the runs and other programs that use each device
- `removal`, `rename`: delete a run, give it another name
- `leftovers`: find processes that runs have left behind
"""
