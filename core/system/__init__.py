"""Processes of this machine, and this installation; nothing here reads the files of a run.

- `procfs`: read `/proc`; find the file system of a path
- `processes`: identify, describe, find and signal processes
- `own_processes`: the command lines of Trainyard's own processes: make and recognise them
- `logout`: start processes that go on; whether a log-out ends processes, and how to start them where it does not
- `own_start`: start a module of Trainyard without modules from the user's PYTHONPATH
- `folders`: the folders that the user has chosen for runs and presets
- `installation`: the version, the command and the documents of this installation
- `helper_process`: run a helper program and talk to it through pipes
- `terminate`: find the processes of a run, also those that have cleared their environment; terminate processes that
  are not our children, step by step
"""
