"""Did the memory come back after a run, and who holds it?

- `watch`: follow the devices from before the run to the verdict
- `evidence`: what is known about one device when it is judged
- `verdict`: judge the evidence and word the sentence
- `gpu_processes`: which processes hold a GPU
- `machine`: the access to processes that the watch needs
"""
