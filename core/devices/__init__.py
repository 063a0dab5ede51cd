"""The devices of this machine: what they are, and what they read at a moment.

- `device`, `reader`: what a device, a sample and a reader of a device kind are
- `kinds`: one row per device kind
- `cpu`, `cores`, `process_memory`: CPU devices
- `nvidia`: NVIDIA GPUs
- `sampler`: readings of all devices, for the supervisor and the window
- `source`, `helper_source`, `helper`, `protocol`, `readings_store`: read a kind here, or in a helper process
"""
