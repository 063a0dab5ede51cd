"""Tell the user about the end of a run, also while no window is open.

- `settings`: what is sent where; the file in the user's configuration folder; addresses without their secrets
- `message`: what became of a run, read from its directory; the text that is sent about one run or several; the errors
  of a message that was not delivered
- `outbox`: what waits to be sent: many runs within a short time become one message
- `delivery`: send a message through all channels that are set, each within a time limit, and again if that may help
- `channels`: one row each: `desktop`, a command, `web` services, and those that the library Apprise knows
- `start`: start the process that sends, which is `__main__`
"""
