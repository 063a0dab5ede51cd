"""Memory of devices, the processes that hold it, and verdicts after runs.

- `controller`, `scanner`: follow memory; list and terminate processes, also those that outlived their runs
- `tab`: the tab Memory; `processes`: the tab Processes
"""
