"""The devices of this machine and their readings.

- `sampler`: the devices and readings of all kinds, for the supervisor and the window; one kind is read in this process
  or in a helper process
- `helper`: the helper process, and what it exchanges with its client
- `device`: what a device, a device kind and a sample are; ids of devices, also of those on hosts (`HOST/cpu:0`)
- `names`: names of devices in sentences and tables
- `reader`: the interface of the reader of a kind
- `cpu`: CPU devices: their cores, and the memory of processes on them
- `nvidia`: NVIDIA GPUs
"""
