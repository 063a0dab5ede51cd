"""Why a run hangs: where each of its processes is, and which of them holds the others up.

- `stacks`: the Python stacks of a process, as it prints them on a signal, or as py-spy reads them
- `look`: one look at the processes of a run: state, processor time, stack
- `verdict`: what two looks say, in a sentence
"""
