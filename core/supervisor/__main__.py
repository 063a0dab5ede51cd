"""Entry point of a supervisor process: ``python -m core.supervisor RUN_DIR [--resume]``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core.devices.sampler import Sampler
from core.errors import RunError
from core.runs.facts import RunFacts
from core.runs.lock import claim
from core.schema.events import RecordError
from core.schema.spec import read_spec
from core.supervisor import guard
from core.supervisor.jobs import job
from core.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable


class ShutdownSignals:
    """Hears the signals of a logout or a shutdown from the first moment on, also before there is who obeys them."""

    def __init__(self) -> None:
        self._heard = False
        self._obey: Callable[[], None] | None = None

    def __call__(self, *_: object) -> None:
        """A signal has come."""
        self._heard = True
        if self._obey is not None:
            self._obey()

    def pass_to(self, obey: Callable[[], None]) -> None:
        """From now on this is called; at once if a signal has come already."""
        self._obey = obey
        if self._heard:
            obey()


def _take_up(run_dir: Path) -> tuple[int, RunFacts]:
    from core.runs.lock import claim_again
    from core.supervisor.recovery import clear  # now: a new run need not wait for it

    claimed = claim_again(run_dir)
    clear(run_dir)
    return claimed


def main() -> int:
    """Run the run whose directory is the first argument; with `--resume`, go on with it."""
    users_umask = os.umask(0o077)  # what is measured is nobody else's business; what a script writes is its own
    run_dir, resumes = Path(sys.argv[1]), "--resume" in sys.argv[2:]
    told = ShutdownSignals()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, told)
    # A handler, not SIG_IGN: an ignored signal would stay ignored in the workers, and so would the ladder's SIGINT. The
    # shell that started us in the background has both ignored.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # who started us may have blocked it; workers inherit
    try:
        lock, facts = _take_up(run_dir) if resumes else (claim(run_dir), RunFacts())
        post = guard.post(run_dir, let_go=lock)
        spec = read_spec(run_dir)
        own = job(spec, run_dir, let_go=(lock, post), umask=users_umask)
        supervisor = Supervisor(run_dir, spec, Sampler.for_run(spec.devices), own, facts)
    except (RunError, RecordError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201 (into log.txt)
        return 2
    told.pass_to(supervisor.stop)
    supervisor.run()
    if supervisor.leaves_processes:
        guard.set_off(post)
    else:
        guard.dismiss(post)
    return 0


if __name__ == "__main__":
    sys.exit(main())
