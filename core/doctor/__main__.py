"""Examine a run and record what was found: ``python -m core.doctor RUN_DIR stall|force``."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

from core.diagnosis.evidence import EXAMINED
from core.doctor.examination import examine
from core.language import tr
from core.runs.run import Run
from core.schema.event_kinds import Notice
from core.schema.events import Writer
from core.schema.files import make_private_folder, write_whole
from core.schema.paths import DOCTOR, DOCTOR_EVENTS, EVENTS, SUPERVISOR_EVENTS

KEPT = 3


def main(run_dir: Path, why: str) -> None:
    """Examine a run. Record a notice with the finding, and write all that was seen into a file; keep `KEPT` files.

    The notice is recorded first. It needs less room on a full disk than the file.
    """
    is_forced, folder = why == "force", run_dir / DOCTOR
    run = Run(run_dir, only=(SUPERVISOR_EVENTS,) if is_forced else None)  # measurements may be many
    diagnosis, snapshots = examine(run, 1.0 if is_forced else 0.0)  # a stop must not wait for long
    with contextlib.closing(Writer(run_dir / EVENTS / DOCTOR_EVENTS)) as writer:
        writer.write_if_room(Notice(text=tr(EXAMINED, found=diagnosis.sentence)))
    document = {"why": why, "time": time.time(), **diagnosis.document(snapshots)}
    with contextlib.suppress(OSError):
        make_private_folder(folder)
        write_whole(folder / f"{time.time():.3f}.json", json.dumps(document, indent=1))
        for old in sorted(folder.glob("*.json"))[:-KEPT]:
            old.unlink(missing_ok=True)


if __name__ == "__main__":
    with contextlib.suppress(ValueError):  # the run has no workers any more
        main(Path(sys.argv[1]), sys.argv[2])
