"""The devices of this machine and their readings.

- `sampler`: the devices and readings of all kinds, for the supervisor and the window
- `source`: read one kind, in this process or in a helper process
- `helper`: the helper process, and what it exchanges with its client
- `device`, `reader`: what a device, a sample and the reader of a kind are
- `kinds`: one row per device kind
- `names`, `host_names`: the names of devices in the language in use; on hosts (`HOST/cpu:0`)
- `cpu`, `cores`, `process_memory`: CPU devices
- `nvidia`: NVIDIA GPUs
"""
