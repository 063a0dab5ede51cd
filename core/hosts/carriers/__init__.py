"""How an agent is started on another machine. A carrier is a command line whose input and output lead to the agent.

- `registry`: all carriers, and which one an address belongs to
- `ssh`: the user's own ssh
"""
