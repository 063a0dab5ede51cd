"""Runs that wait until their devices are free, and the claims of runs on devices.

- `line`, `decision`: the tickets and claims of all users; who may take which devices (a pure function)
- `folder`: this user's folder in the line; hold the queue after runs that failed alike
- `claims`: what a supervisor holds of the line while its run trains; what is trained when its turn has come
- `waiter`: the small process of a run that waits; `python -m core.queue` starts and ends it
- `request`: what was asked of the queue, in the run's folder
- `control`: put runs into the queue, move, hold, release, cancel and revive them; ask the driver whether a device is
  free
- `listing`: the queued runs with place and reason; the reason in words
"""
