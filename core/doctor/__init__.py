"""Why a run hangs: where each of its processes is, and which worker holds the others up.

- `watch`: examine a run when it stalls, and before its stop is forced, in the process of `__main__`
- `stacks`: the Python stacks of a process, as it prints them on a signal, or as py-spy reads them
- `snapshot`: what each worker of a run does at one moment, and where
- `sources`: what is looked at beside: NCCL's own report, and the kernel's log
- `examination`: two snapshots of each worker, and the diagnosis in sentences
"""
