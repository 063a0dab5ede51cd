"""The devices of this machine and their readings.

- `sampler`: the devices and readings of all kinds, for the supervisor and the window; one kind is read in this process
  or in a helper process
- `helper`: the helper process, and what it exchanges with its client
- `device`, `reader`: what a device, a sample and the reader of a kind are; names in the language in use
- `kinds`: one row per device kind
- `host_names`: names of devices on hosts (`HOST/cpu:0`)
- `cpu`: CPU devices: their cores, and the memory of processes on them
- `nvidia`: NVIDIA GPUs
"""
