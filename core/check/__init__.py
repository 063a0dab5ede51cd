"""Prove this machine: look at the driver and the frameworks, compute, train, kill, and see that the memory comes back.

- `check`: what checks, their results and their scope are; ask the driver; run checks one after the other
- `table`: all checks, one row each; their results as text for people, for an issue, and for a file
- `machine`, `questions`: the checks without work on a GPU, and the process that calls NVML for them
- `gpu_health`: the health of one GPU in words
- `gpu_work`, `gpu_probe`: the checks that compute on GPUs, and the program that does it in a framework's Python
- `trainings`, `keeper`: the checks that train, and the process that ends and removes their runs in any case
"""
