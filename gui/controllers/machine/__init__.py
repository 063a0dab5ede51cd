"""The machine whose runs the window shows, if it is another one.

- `host_controller`: the connection to a host: show its state, and switch off what needs this machine
"""
