"""The runs of a host, copied here and kept up to date, so that a window can show them as it shows those here.

- `mirror`: the thread that talks to the agent: it keeps the copy up to date and passes requests on
- `link`: one connection of that thread, with all that is under way on it
- `copies`: the folder of the copies, and which parts of which files are to be copied next
"""
