"""The other machines of a run: its ranks there, which the supervisor treats as its own workers.

- `run_hosts`: all machines of a run: connect, check, divide the ranks, start, follow, and tidy up
- `meeting`: where ranks meet and listen, and whether all machines reach that
- `workload`: what of the recipe or script travels to other machines, and what each machine must have before it trains
- `part_link`: one machine: ask what it has, start a part of the run there, follow and steer the part over cuts
- `part_files`: the files of a part, and what they report, as the run records it
- `head`: on the machine of a part, whether the machine that has the run still follows it
"""
