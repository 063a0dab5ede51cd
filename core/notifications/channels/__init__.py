"""The ways to reach a user: each module has a function that sends a message, and raises one of the `errors`.

- `registry`: all channels
- `desktop`: the notification service of the desktop
- `command`: a command of the user's
- `web`: webhooks and ntfy
- `apprise_services`: all services that the library Apprise knows
- `errors`: why a message was not delivered
"""
