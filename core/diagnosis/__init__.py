"""What happened in a run, and why it failed, in words.

- `timeline`, `epoch_numbers`: what happened in a run, one line a thing; the numbers of each epoch
- `start_phases`: what a run does before its first step: at the moment, and afterwards
- `failures`, `failure_evidence`: the cause of a failure; what a failed run recorded, taken apart
- `program_output`: the exception in what a Python program printed; lines with numbers that gave no measurement
- `remedies`: what can be tried about a finding of the memory watch
"""
