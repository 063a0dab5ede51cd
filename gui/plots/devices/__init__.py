"""The plots of the devices of a run, or of this machine.

- `device_plots`: what they share, with the memory
- `utilisation`: the utilisation, also as strips
- `hardware_plots`: temperature, power and clock, which are shown on request
- `slowdowns`: when devices were slowed down
"""
