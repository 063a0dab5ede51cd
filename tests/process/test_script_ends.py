"""How a script ends: the exception of a child below its launcher's, and one that the exit code 0 hides."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli.output import failure_words
from core.queue import control
from core.queue.request import QueueRequest
from core.runs.facts import RunState
from tests.support.queueing import LABELS
from tests.support.running import Followed, source_spec, train
from tests.support.waiting import wait_until

CHILD = 'raise RuntimeError("no such thing")\n'
OUTER = "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], check=True)\n"
THREAD = """\
import threading
def work():
    raise RuntimeError("no such thing")
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("done")
"""


def test_exception_of_a_child_is_the_cause_and_not_that_of_the_program_that_started_it(
    tmp_path: Path, runs_root: Path
) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    followed = train(source_spec(tmp_path, OUTER), runs_root)
    assert followed.run.facts.error == "train.py ended with exit code 1: RuntimeError: no such thing."
    assert failure_words(followed.run) == "It was raised in child.py, line 1."


@pytest.mark.slow
def test_exception_of_a_thread_is_told_although_the_exit_code_is_0_and_to_the_run_that_follows(
    tmp_path: Path, runs_root: Path
) -> None:
    first = train(source_spec(tmp_path, THREAD), runs_root)
    assert first.state is RunState.FINISHED
    (notice,) = first.run.facts.notices
    assert notice == ("train.py ended with exit code 0, but its output ends with an exception: RuntimeError: no such "
                      "thing. It was raised in train.py, line 3, in work().")
    request = QueueRequest(labels=LABELS, after=str(first.run.dir), after_mode="ok")
    run = control.enqueue(source_spec(tmp_path, "print('loss 1.0')\n"), runs_root, request)
    wait_until(lambda: control.until_waiting(run), "the run to be in the line")
    following = Followed(run).until_over()
    assert following.state is RunState.FINISHED
    (notice,) = following.run.facts.notices
    assert notice.startswith(f"Run {first.run.id}, which this run follows, finished, but its output ends")
