"""Tell the user about the end of a run, also while no window is open.

- `settings`: what is sent where; the file in the user's configuration folder; addresses without their secrets
- `message`: what became of a run, read from its directory; the text that is sent about one run or several
- `delivery`: collect news, since many runs within a short time become one message; send a message through all channels
  that are set, each within a time limit, and again if that may help
- `channels`: the occasions for a notification; the desktop, a command, web services, and those of the library Apprise
- `start`: raise alarms, and start the process that sends, which is `__main__`
"""
