"""Memory of devices, the processes that hold it, and verdicts after runs.

- `processes`: the tab Processes, and the controller of the feature
- `tab`: the tab Memory
- `scanner`: list and terminate processes, also those that outlived their runs
"""
