"""The shown run.

- `run_controller`: show the attached run and pass on what its buttons ask for
- `memory_controller`: the memory of its devices and the processes on them; what runs have left behind
- `teach_controller`: mark the numbers of the log, and teach what they are
- `output_controller`: show and open the files that functions of a recipe have written
"""
