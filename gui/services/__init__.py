"""Work in the background of the window: `QObject`s without widgets.

- `services`: all services of one window, made once
- `jobs`: run work on threads, and take the results in the window's thread
- `step_queue`: do work of the window's thread in steps
- `exports`: write files that the user asked for
- `setup`: check what is to be trained, and find what it needs
- `run`: the shown run
- `runs`: all runs
- `devices`: devices, and processes on them
- `window`: the timer, the settings and the garbage of a window
"""
