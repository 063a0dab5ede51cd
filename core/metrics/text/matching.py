"""Match a regular expression in a process of its own, which the kernel kills when a line takes too long.

Python's `re` cannot be interrupted from within: signal handlers run between its steps, and not all steps check for them
(measured: an expression of a thousand alternatives blocked Python 3.11.2 for 40 s). A signal without a handler always
works: a timer of processor time sends it, and its default action ends the process.

This file is run by its path, under any Python, and imports nothing of ours.
"""

from __future__ import annotations

import json
import re
import signal
import sys


def serve() -> None:
    """Read {"pattern", "seconds"}, then lists of lines, from stdin; answer each line with its groups, or null.

    Each message is one line of JSON. The process dies at a line that needs more than `seconds` of processor time.
    """
    question = json.loads(sys.stdin.readline())
    pattern, seconds = re.compile(question["pattern"]), question["seconds"]
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    for message in sys.stdin:
        for line in json.loads(message):
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            match = pattern.search(line)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            sys.stdout.write(json.dumps(match and match.groupdict()) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    serve()
