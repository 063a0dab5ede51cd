"""Other machines: the user's list of them, and the agent that answers there.

- `host_list`: the hosts that the user has added, and their file
- `inquiry`: ask several hosts at once, each with a time limit
- `watch`: follow one host on a thread of its own, for a window
- `connection`: talk to the agent of one host
- `carriers`: how an agent is started on a host, and what the errors of that mean
- `agent`: the process on the other machine
- `mirror`: the runs of a host, copied here and kept up to date, and requests to them
- `parts`: the other machines of a run
- `run_files`: which files of runs travel, and which names they may have
- `failures`: what can go wrong with a host
- `protocol`: what travels between a connection and an agent
- `exchange`: devices, readings and what uses them, as they travel
"""
