"""NVIDIA GPUs, read through the driver's library in a helper process.

- `reader`: the reader of this device kind
- `nvml`: the questions to the driver, their units and errors
- `card`: one GPU, or one MIG part of it, and what it can answer
- `describe`: name, memory, UUID and MIG layout of a GPU
- `power`: whether a GPU sleeps, read from sysfs without waking it
- `visibility`: which GPUs the inherited environment hides
- `preflight`, `ask_cuda`: which GPUs the CUDA driver will show to a worker
"""
