"""Commands about this machine and others.

- `devices`, `catalog`, `pythons`: what this machine has to train on, and with
- `hosts`, `agent`: other machines; answer the Trainyard of another machine
- `notify`: notifications about runs
- `desktop`: the entry in the desktop's menu of programs
"""
