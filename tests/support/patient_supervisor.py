"""A supervisor that waits for other processes as long as a test does: the limits of the real one are made for users.

It is the real one otherwise. As a program, it takes what that takes, and `--interrupts-again-soon`: then it sends a
second SIGINT, where one is due, a thousandth of the first one's timeout after it.
"""

import sys
from pathlib import Path

from core.launchers import torch_store
from core.metrics import process
from core.schema.spec import RunSpec
from core.supervisor import __main__ as supervisor
from core.supervisor import software_record, workers
from tests.support.running import Followed
from tests.support.waiting import PATIENCE_S

INTERRUPTS_AGAIN_SOON = "--interrupts-again-soon"


def start_patiently(spec: RunSpec, runs_root: Path, *options: str) -> Followed:
    """Start a real run with this supervisor."""
    from core.runs.directory import launch  # imported here, since the supervisor does not need them
    from core.runs.run import Run
    from tests.support.running import Followed

    return Followed(Run.start(spec, runs_root, lambda run_dir: launch(run_dir, __name__, *options)))


def main() -> int:
    """Supervise the run whose directory is the first argument."""
    process.READY_S = process.FINISH_S = torch_store.READY_S = software_record.TIMEOUT_S = PATIENCE_S
    if INTERRUPTS_AGAIN_SOON in sys.argv:
        sys.argv.remove(INTERRUPTS_AGAIN_SOON)
        workers.REPEAT_AFTER = 0.001
    return supervisor.main()


if __name__ == "__main__":
    sys.exit(main())
