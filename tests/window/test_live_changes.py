"""Other settings and a trace for a run that trains: what the window asks for, and what it shows of the answer."""

import json

from core.schema.event_kinds import Plan, SettingChange, Trace
from core.schema.events import Writer, metrics_line
from core.schema.paths import CONTROL, EVENTS, OUTPUTS, SET, SETTING_EVENTS, TRACE
from gui.features.run.live import ChangeDialog
from gui.runs.actions import obstacles
from gui.widgets.messages import MessageStrip
from tests.window.test_missed import finish, write_live

ACTIONS = ("set", "finish", "trace")


def test_dialog_asks_for_what_the_run_can_take(assemble, runs_root, monkeypatch) -> None:
    run_dir = write_live(runs_root, "trains")
    (run_dir / CONTROL).mkdir(exist_ok=True)
    worker = Writer(run_dir / EVENTS / "worker-0.jsonl")
    worker.write(Plan(epochs=10, steps_per_epoch=1, samples_per_epoch=64))
    worker.write_json(metrics_line(since=1.0, until=2.0, first_step=1, values={"loss": [0.5] * 5}))
    panel = assemble("run", "live")
    panel.until(lambda: panel.run is not None, "the run")
    do = panel.window.panels.actions.do
    assert {obstacles(panel.window.services.run_list.summary(str(run_dir)))[name] for name in ACTIONS} == {""}

    def asked(name: str) -> dict:
        path = run_dir / CONTROL / name
        found = json.loads(path.read_text())
        path.unlink()
        return found

    do("set", [str(run_dir)])
    (dialog,) = panel.window.findChildren(ChangeDialog)
    assert (dialog.asked, dialog.yes.isEnabled()) == ({}, False)
    for name, value, why in (("learning_rate", "much", "Give a number greater than 0"), ("epochs", 3, "has begun")):
        before = dialog.editors[name].value()
        dialog.editors[name].set_value(value)
        assert why in dialog.problem.text()
        assert not dialog.yes.isEnabled()
        dialog.editors[name].set_value(before)
    dialog.editors["learning_rate"].set_value(0.25)
    dialog.editors["checkpoints.unit"].set_value("steps")
    dialog.editors["checkpoints.every"].set_value(7)
    dialog.yes.click()
    assert asked(SET) == {"learning_rate": 0.25, "checkpoints.unit": "steps", "checkpoints.every": 7}
    do("finish", [str(run_dir)])
    assert asked(SET) == {"finish": True}
    do("trace", [str(run_dir)])
    assert asked(TRACE) == {"steps": 20, "ranks": [0]}

    changes = Writer(run_dir / EVENTS / SETTING_EVENTS)
    changes.write(SettingChange(step=3, name="learning_rate", old=0.5, new=0.25))
    worker.write(Plan(epochs=10, steps_per_epoch=1, samples_per_epoch=64))
    session = panel.window.services.session
    panel.until(lambda: session.spec.training.learning_rate == 0.25, "the changed settings")
    assert session.run_series.changes[3][1] == "Learning rate: 0.5 → 0.25"
    worker.write(Trace(rank=0, step=30, steps=20, file="trace-rank0-step11.json.gz"))
    panel.until(lambda: "trace-rank0-step11.json.gz" in panel.message("messageStrip"), "the message")
    opened = []
    monkeypatch.setattr("gui.features.run.live.open_path", lambda folder, _: opened.append(folder))
    panel.window.findChild(MessageStrip, "messageStrip").details.click()
    assert opened == [run_dir / OUTPUTS]
    changes.close()
    worker.close()
    finish(run_dir, "finished")
