"""Prove this machine: look at the driver and the frameworks, compute, train, kill, and see that the memory comes back.

- `outcome`: what a check comes to unless it passes
- `check`: what a check and its result are; run checks one after the other
- `scope`: make the scope of a check
- `table`: all checks, one row each; their results as text for people, for an issue, and for a file
- `machine`: the checks without work on a GPU
- `driver`: ask the driver, and go on if it hangs
- `questions`: the process that calls NVML for it
- `gpu_work`, `gpu_probe`: the checks that compute on GPUs, and the program that does it in a framework's Python
- `trainings`, `keeper`: the checks that train, and the process that ends and removes their runs in any case
"""
