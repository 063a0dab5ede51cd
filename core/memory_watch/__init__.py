"""Watch whether the memory of devices comes back after a run, and find the processes that hold it.

- `watch`: follow the devices from before the run to the verdict
- `evidence`: what is known of a device after a run, compared with before
- `verdict`: judge one device and word the sentence; while there is no verdict, what the watch waits for
- `gpu_processes`: find the processes that hold a GPU
"""
