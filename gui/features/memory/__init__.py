"""Memory of devices, the processes that hold it, and verdicts after runs.

- `controller`, `scanner`: follow memory; list and terminate processes
- `tab`, `table`: the tab Memory; `processes`: the tab Processes
- `leftovers`: processes that outlived their runs
"""
