"""What a run was trained with is recorded beside its start: the Python, its packages, and the commit."""

import subprocess
import sys
from pathlib import Path

import pytest

from core.runs.facts import RunFacts, RunState
from core.runs.fold import fold
from core.series.report import document
from core.supervisor.software_record import source_of
from tests.support.packages import GIT, missing
from tests.support.patient_supervisor import start_patiently
from tests.support.running import FOREVER, LONG, make_spec, write_recipe
from tests.support.waiting import wait_until

STATUS = "# branch.oid 5b1f\n# branch.head main\n"


def test_status_of_a_repository_is_read() -> None:
    found = source_of(STATUS, "/r", is_tracked=True)
    assert found.fields() == {"folder": "/r", "commit": "5b1f", "branch": "main", "changed": False}
    assert source_of(STATUS, "/r", is_tracked=False).changed
    assert source_of(f"{STATUS}1 .M N... 100644 100644 100644 a b train.py\n", "/r", is_tracked=True).changed
    empty = source_of("# branch.oid (initial)\n# branch.head (detached)\n", "/r", is_tracked=True)
    assert (empty.commit, empty.branch) == ("", "")


def test_damaged_events_become_notices() -> None:
    for event in ({"kind": "software", "version": 3}, {"kind": "software", "version": "3", "packages": []},
                  {"kind": "source", "folder": "/r", "commit": 5}):
        facts = fold(RunFacts(), [{"t": 1.0, **event}])
        assert (facts.software, facts.source) == (None, None) or facts.software.packages == {}


@pytest.mark.skipif(bool(missing(GIT)), reason=missing(GIT))
def test_run_records_its_python_its_packages_and_its_commit(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    recipe = write_recipe(folder, LONG)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q", "-b", "topic"], ["add", "."], ["commit", "-q", "-m", "First"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    followed = start_patiently(make_spec(recipe, epochs=FOREVER), tmp_path / "runs")
    followed.until_trained()
    wait_until(
        lambda: followed.poll().run.facts.software is not None and followed.run.facts.source is not None,
        "what it trains with",
    )
    facts = followed.run.facts
    assert facts.software.version == sys.version.split()[0]
    assert facts.software.packages["pytest"] == pytest.__version__
    assert (facts.source.folder, facts.source.commit, facts.source.branch) == (str(folder), commit, "topic")
    assert not facts.source.changed
    followed.run.request("stop")
    followed.until(RunState.STOPPED)
    shown = document(type(followed.run).attach(followed.run.dir))
    assert shown["source"]["commit"] == commit
