"""What the form needs before a start.

- `start_checker`: check choices while they are made
- `start_request`: a run to be started, and the last check before that
- `python_finder`: find the Pythons of this machine
- `expression_tester`: try the expression that is being typed
"""
