"""Other machines: the user's list of them, and the agent that answers there.

- `host_list`: the hosts that the user has added, and their file
- `inquiry`: ask several hosts at once, each with a time limit, or follow one on a thread of its own, for a window
- `connection`: talk to the agent of one host, once or over cuts
- `carrier`: how an agent is started on a host, and what can go wrong with a host
- `ssh`, `ray_carrier`, `ray`: through the user's own ssh, and on the nodes of the user's own Ray cluster
- `agent`: the process on the other machine
- `mirror`: the runs of a host, copied here and kept up to date, and requests to them
- `copies`: the folder of the copies, and which parts of which files are to be copied next
- `parts`: the other machines of a run
- `run_files`: which files of runs travel, their names, and what is said of runs
- `protocol`: what travels between a connection and an agent; devices, readings and what uses them
"""
