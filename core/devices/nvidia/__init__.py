"""NVIDIA GPUs, read through the driver's library in a helper process.

- `reader`: the reader of this device kind; which GPUs the inherited environment hides
- `card`: one GPU or MIG device, and its readings; whether a GPU sleeps, found out without waking it up
- `nvml`: the questions to the driver about one device, and its errors in words
- `health`: what the driver says about the health of a GPU, with what helps; its Xid errors
- `preflight`, `ask_cuda`: which GPUs the CUDA driver will show to a worker
"""
