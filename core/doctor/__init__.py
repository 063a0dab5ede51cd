"""Why a run hangs: where each of its processes is, and which worker holds the others up.

- `stacks`: the Python stacks of a process, as it prints them on a signal, or as py-spy reads them
- `snapshot`: what each worker of a run does at one moment, and where
- `sources`: what is looked at beside: NCCL's own report, and the kernel's log
- `examination`: two snapshots of each worker, and the diagnosis in sentences
"""
