"""Entry point of the short processes before and after the wait of a queued run.

python -m core.queue RUN_DIR enter          lock the run, put its ticket into the line, and become `core.queue.waiter`
python -m core.queue RUN_DIR leave STATE    end a run that will not start; STATE: what the waiter hands over
python -m core.queue RUN_DIR check BYTES DEVICE...   print which devices are not free by their driver, as JSON
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from core.errors import RunError
from core.language import Message, stored, tr
from core.queue import control
from core.queue.line import MAX_ANSWER, Line
from core.schema.events import RecordError
from core.system.own_processes import NOTIFIER, own_command

MAX_REASON, SHORT = 300, 80
"""Characters of a reason; and where there are too many reasons, of each without its template."""


def main() -> int:
    """Run the process that the command line names."""
    os.umask(0o077)
    run_dir, action = Path(sys.argv[1]), sys.argv[2]
    try:
        match action:
            case "enter":
                control.wait_in_line(run_dir)
            case "leave":
                _leave(run_dir, json.loads(sys.argv[3]))
            case _:
                busy = control.busy_devices(sys.argv[4:], int(sys.argv[3]))
                reasons = {device: Message.read(why).within(MAX_REASON) for device, why in busy.items()}
                answer = json.dumps({device: stored(why) for device, why in reasons.items()})
                if len(answer) > MAX_ANSWER:  # dozens of devices, mostly for one reason
                    answer = json.dumps({device: why[:SHORT] for device, why in reasons.items()})
                sys.stdout.write(answer)
    except (RunError, RecordError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")  # into log.txt
        return 2
    return 0


def _leave(run_dir: Path, given: dict[str, Any]) -> None:
    """End a run that will not start: its user stopped it, or the run it waited for did not finish.

    Then send a notification, unless the user stopped it.
    """
    other, _, state = given["about"].rpartition(" ")
    why = tr("The run was not started, since it was to follow run {other} only if that finished: it is {state}.",
             other=other, state=state)
    control.end_unstarted(run_dir, why if given["why"] == "after" else None)
    Line(*given["line"]).remove(run_dir.name, given["ticket"])
    if given["why"] == "after":
        for handle in given["lock"]:  # the run is over, and may be removed
            os.close(handle)
        command = own_command(NOTIFIER, str(run_dir), "ended")
        os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    sys.exit(main())
