"""The training card: workload, recipe or script, options, presets, and whether the run can start."""
