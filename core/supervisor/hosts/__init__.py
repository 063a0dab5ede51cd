"""The other machines of a run: its ranks there, which the supervisor treats as its own workers.

- `run_hosts`: all machines of a run: connect, check, divide the ranks, start, follow, and tidy up
- `meeting`, `addresses`: where ranks meet and listen, and whether all machines reach that; answers about it, checked
- `preflight`: what every machine must have before anything trains, and what to do where it has not
- `part_link`: one machine: start a part of the run there, follow its files over cuts of the connection, steer it
- `part_file`: a file of a part, read from an offset on
- `remote_worker`: a worker that trains on another machine
- `translation`: events of a part as the run records them
- `workload`: what of the recipe or script travels to other machines, or must be there
"""
