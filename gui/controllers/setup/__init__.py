"""From the choice of devices and of what to train to a started run.

- `device_controller`: show the devices, and pass on which are ticked
- `host_list_controller`: add, test and remove hosts
- `start_controller`: check choices; start, queue, start again and resume runs
- `reuse_controller`: start from an earlier run or a preset
- `recipe_copy_controller`: copy a built-in workload to a file of the user's
- `first_steps_controller`: do what the guidance for a first run offers
"""
