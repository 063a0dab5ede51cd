"""Epoch ends without synchronisation: events are complete, unique and in order, and requests are handled.

Most tests use the reporter of several ranks with this process as the only rank; the last tests use real ranks.
"""

import errno
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.runs.directory import new_directory
from core.runs.facts import RunState
from core.schema import checkpoint
from core.schema.event_kinds import Checkpoint, read_all
from core.schema.events import Tail
from core.schema.paths import EVENTS
from core.schema.spec import write_spec
from core.series.run_series import RunSeries
from core.worker.context import Context
from core.worker.training.controller import TrainingController
from core.worker.training.metrics_reporter import MetricsReporter
from tests.framework.test_checkpoints import DROPS
from tests.framework.test_numbers import AWKWARD, assert_close
from tests.support.one_rank import ALONE, Ranks
from tests.support.resuming import resumed
from tests.support.running import Followed, folded, make_spec, train, write_recipe

BEST_EPOCH = 4
"""The epoch after which the validation loss rises."""


class Every(MetricsReporter):
    """Reports after the first step and then every `steps` steps."""

    def __init__(self, context: Context, steps: int) -> None:
        self.ranks = Ranks()
        super().__init__(context, ranks=self.ranks)
        self._wanted = steps

    @property
    def put_off_so_far(self) -> int:
        """Number of epoch ends not reported yet."""
        return len(self._ends)

    def _next_interval(self) -> int:
        return self._wanted


class Numbers:
    """A saver with one small file."""

    def save(self, folder: Path) -> None:
        (folder / "model").write_text("weights")

    def load(self, folder: Path) -> None:
        assert (folder / "model").read_text() == "weights"


class Played:
    """A training with predefined losses and validation results."""

    def __init__(self, run_dir: Path, *, per_epoch: int, reports_every: int, validates: bool = True) -> None:
        self.dir = run_dir
        self.context = Context(str(run_dir), ALONE)
        self.reporter = Every(self.context, reports_every)
        self._per_epoch, self._validates = per_epoch, validates
        self.controller = TrainingController(
            self.context, self.reporter, Numbers(), steps_per_epoch=per_epoch, samples_per_epoch=4, validates=validates
        )

    def train(self, after_step: Callable[[int], object] = lambda _: None) -> bool:
        """Train as a loop does. Return False if a request, or a true result of `after_step`, ended it early."""
        self.controller.begin(0.1)
        for _ in self.controller.epochs():
            for _ in range(self.controller.done_in_epoch, self._per_epoch):
                if self.controller.after_step(loss(self.controller.step + 1)) or after_step(self.controller.step):
                    return False
            self.controller.after_epoch_steps(0.1)
            means = (
                self.controller.finish_validation([2 * validation(self.controller.epoch), 2.0], mean)
                if self._validates
                else {}
            )
            if self.controller.after_epoch(means):
                return False
        self.controller.finish()
        return True

    def ask(self, request: str) -> None:
        (self.dir / "control" / request).touch()

    def run_series(self) -> RunSeries:
        return folded(*self.events())

    def events(self) -> list[dict]:
        return Tail(self.dir / EVENTS / "worker-0.jsonl").read()

    def checkpoints(self) -> list[checkpoint.TrainingPosition]:
        """Return the checkpoints, oldest first."""
        return [checkpoint.read(path) for path in reversed(checkpoint.folders(self.dir))]


def loss(step: int) -> float:
    return 1 / step


def validation(epoch: int) -> float:
    return 1.0 + abs(epoch - BEST_EPOCH)


def mean(sums: Sequence[float]) -> dict[str, list[float]]:
    total, items = sums
    return {"val_loss": [total / items]}


@pytest.fixture
def _steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a microsecond pass from one look at the clock to the next: a pause of the machine is no long validation."""
    looks = itertools.count()
    clock = SimpleNamespace(time=lambda: 1000 + next(looks) / 1e6)
    clock.monotonic = clock.time
    for module in ("context", "training.checkpoints", "training.controller", "training.metrics_reporter"):
        monkeypatch.setattr(f"core.worker.{module}.time", clock)
    monkeypatch.setattr("core.schema.event_kinds.time", clock)


@pytest.fixture
def new(runs_root: Path, _steady_clock: None) -> Callable[..., Path]:
    """Makes a run directory with the given epochs and checkpoint settings."""

    def make(epochs: int, **checkpoints: object) -> Path:
        run_dir = new_directory(runs_root, "played")
        checkpoints = {"unit": "never", "best": False, **checkpoints}
        write_spec(run_dir, make_spec("digits_mlp", epochs=epochs, checkpoints=checkpoints))
        return run_dir

    return make


@pytest.mark.parametrize("reports_every", [1, 2, 7, 1000])
@pytest.mark.parametrize("per_epoch", [1, 3, 20])
def test_every_step_and_validation_is_recorded_once_in_order(new, per_epoch, reports_every) -> None:
    played = Played(new(epochs=9), per_epoch=per_epoch, reports_every=reports_every)
    assert played.train()
    lines = [event for event in played.events() if event["kind"] == "metrics"]
    for metric in ("loss", "val_loss"):
        own = [line for line in lines if metric in line["values"]]
        steps = [line["first"] + at for line in own for at in range(len(line["values"][metric]))]
        assert steps == (
            list(range(1, 9 * per_epoch + 1))
            if metric == "loss"
            else list(range(per_epoch, 9 * per_epoch + 1, per_epoch))
        )
        times = [time for line in own for time in (line["since"], line["t"])]
        assert times == sorted(times)
    run_series = played.run_series()
    assert run_series.metrics["loss"].values.tolist() == pytest.approx(
        [loss(step) for step in range(1, 9 * per_epoch + 1)]
    )
    assert run_series.metrics["val_loss"].values.tolist() == [validation(epoch) for epoch in range(9)]
    ends, losses = run_series.metrics["val_loss"], run_series.metrics["loss"]
    for step, ended in zip(ends.steps, ends.times, strict=True):
        assert losses.times[int(step) - 1] <= ended  # the last step of an epoch precedes its end
        assert step == losses.steps[-1] or ended <= losses.times[int(step)]  # the next step follows it


@pytest.mark.parametrize("validates", [True, False])
def test_short_epochs_need_no_synchronisation_at_their_ends(new: Callable[..., Path], *, validates: bool) -> None:
    """Ranks synchronise only at the first end, as the duration of a validation is unknown, and at the last."""
    played = Played(new(epochs=200), per_epoch=3, reports_every=100, validates=validates)
    assert played.train()
    reports = 6  # after the first step, and after each hundred since
    ends = 3 if validates else 1  # the first; the last, before and after the validation
    begins = 2  # what was changed before a resume, and its length
    assert played.reporter.ranks.reductions == begins + reports + ends + 1  # 1: the report of `finish`


def test_long_epochs_are_reported_immediately(new: Callable[..., Path]) -> None:
    played = Played(new(epochs=5), per_epoch=40, reports_every=5)
    untold: list[int] = []
    assert played.train(lambda step: untold.append(played.reporter.put_off_so_far))
    assert not any(untold)


@pytest.mark.parametrize("validates", [True, False])
def test_automatic_checkpoints_are_saved_at_epoch_ends_with_their_metric(new, monkeypatch, *, validates) -> None:
    # The cost of saving never counts as too high.
    monkeypatch.setattr("core.worker.training.controller.CHECKPOINT_SHARE", 1e6)
    monkeypatch.setattr("core.worker.training.controller.FIRST_GUESS_S", 0.0)
    played = Played(new(epochs=60, unit="auto", keep=1000), per_epoch=3, reports_every=20, validates=validates)
    assert played.train()
    positions = played.checkpoints()
    assert 6 <= len(positions) < 60  # one for each report in which rank 0 found it due
    for position in positions:
        assert position.done_in_epoch == 0
        epoch = position.epoch - 1
        last_steps = [loss(step) for step in range(3 * epoch + 1, 3 * epoch + 4)]
        assert position.value == pytest.approx(validation(epoch) if validates else sum(last_steps) / 3)


@pytest.mark.parametrize(
    ("free_s", "names", "kept", "reasons"),
    [
        (1.0, ["step-00000360", "step-00000200-best"], 1, ["best", "best", "epoch", "best", "best", "epoch", "end"]),
        (-1.0, ["step-00000360", "step-00000240"], 2, ["epoch", "epoch", "end"]),
    ],
)
def test_new_best_is_saved_when_it_comes_where_that_is_cheap(new, monkeypatch, free_s, names, kept, reasons) -> None:
    """Epoch 5 is the best."""
    monkeypatch.setattr("core.worker.training.controller.FIRST_GUESS_S", 0.0)
    monkeypatch.setattr("core.worker.training.controller.BEST_S", free_s)
    run_dir = new(epochs=9, unit="epochs", every=3, keep=1, best=True)
    played = Played(run_dir, per_epoch=40, reports_every=1)
    assert played.train()
    written = read_all(Checkpoint, played.events())
    assert [each.reason for each in written] == reasons
    assert [path.name for path in checkpoint.folders(run_dir)] == names
    last = written[-1]
    assert (last.metric, last.value, last.lowest, last.lowest_epoch, last.kept) == ("val_loss", 5, 1, 5, kept)
    assert checkpoint.best_of(checkpoint.folders(run_dir))[1] == kept


def test_checkpoint_saved_as_the_best_takes_no_place_of_those_of_the_interval(new, monkeypatch) -> None:
    monkeypatch.setattr("core.worker.training.controller.FIRST_GUESS_S", 0.0)
    run_dir = new(epochs=9, unit="epochs", every=3, keep=1, best=True)
    assert not Played(run_dir, per_epoch=40, reports_every=1).train(lambda step: step == 210)
    assert [path.name for path in checkpoint.folders(run_dir)] == ["step-00000200-best", "step-00000120"]


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoints": {"unit": "never", "best": True}},
        {"checkpoints": {"unit": "epochs", "every": 3, "best": False}},
        {"budget_s": 0.0},  # nothing more may be spent
        {"guess_s": 1.0, "checkpoints": {"every": 100}},  # a save takes longer than an epoch
    ],
)
def test_new_best_is_not_saved_where_it_is_not_cheap_or_not_wanted(new, monkeypatch, changes) -> None:
    monkeypatch.setattr("core.worker.training.controller.FIRST_GUESS_S", changes.get("guess_s", 0.0))
    monkeypatch.setattr("core.worker.training.controller.BEST_S", changes.get("budget_s", 1.0))
    monkeypatch.setattr("core.worker.training.controller.BEST_SHARE", 0.0)
    settings = {"unit": "epochs", "every": 3, "best": True, **changes.get("checkpoints", {})}
    played = Played(new(epochs=9, **settings), per_epoch=40, reports_every=1)
    if "budget_s" in changes:
        played.controller._store.spent_on_best_s = 1e-9
    assert played.train()
    assert "best" not in {each.reason for each in read_all(Checkpoint, played.events())}


@pytest.mark.parametrize(("per_epoch", "waits"), [(3, True), (1000, False)])
def test_timed_checkpoint_waits_for_the_end_of_a_short_epoch(new, *, per_epoch, waits) -> None:
    played = Played(new(epochs=20, unit="minutes", keep=1000), per_epoch=per_epoch, reports_every=7)

    def let_it_be_due(step: int) -> None:
        if step == 5:
            played.controller._saved -= 3600

    assert played.train(let_it_be_due)
    by_clock, _ = played.checkpoints()
    assert (by_clock.done_in_epoch == 0) == waits
    assert by_clock.value == (validation(by_clock.epoch - 1) if waits else None)
    assert by_clock.step <= 15


@pytest.mark.parametrize("request_", ["stop", "pause", "save"])
def test_requests_are_handled_while_epoch_ends_are_unreported(new: Callable[..., Path], request_: str) -> None:
    """The next report includes the pending epoch ends and saves their results."""
    run_dir = new(epochs=12)
    played = Played(run_dir, per_epoch=3, reports_every=8)
    asked_at: list[int] = []

    def ask(step: int) -> None:
        if played.reporter.put_off_so_far == 2 and not asked_at:
            asked_at.append(step)
            played.ask(request_)

    to_its_end = played.train(ask)
    assert asked_at
    ended_before = asked_at[0] // 3 + (asked_at[0] % 3 != 0) - 1
    assert played.run_series().metrics["val_loss"].values.tolist()[:ended_before] == list(
        map(validation, range(ended_before))
    )
    if request_ == "stop":
        assert not to_its_end
        assert played.controller.step < asked_at[0] + 8
        assert played.checkpoints() == []
        return
    position = played.checkpoints()[0]
    assert asked_at[0] < position.step < asked_at[0] + 8
    so_far = [validation(epoch) for epoch in range(position.epoch)]
    assert position.progress["best"] == min(so_far)
    assert position.progress["since_best"] == len(so_far) - 1 - so_far.index(min(so_far))
    assert played.context.paused == (request_ == "pause")
    if request_ == "save":
        assert to_its_end
        assert not (run_dir / "control" / "save").exists()
    else:
        (run_dir / "control" / "pause").unlink()
        played = Played(run_dir, per_epoch=3, reports_every=8)
        assert played.train()
    assert_complete(played.run_series(), epochs=12, per_epoch=3)


def test_pause_that_cannot_be_saved_leaves_the_numbers_of_the_epochs_as_they_are(new, monkeypatch) -> None:
    played = Played(new(epochs=3, unit="epochs", every=1, keep=1000), per_epoch=4, reports_every=50, validates=False)
    save = Numbers.save

    def refuse(_saver: Numbers, _folder: Path) -> None:
        monkeypatch.setattr(Numbers, "save", save)
        raise OSError(errno.ENOSPC, "no space")

    def ask(step: int) -> None:
        if step == 8:
            monkeypatch.setattr(Numbers, "save", refuse)
            played.ask("pause")

    assert played.train(ask)
    assert not played.context.paused
    for position in played.checkpoints():
        own = [loss(step) for step in range(position.step - 3, position.step + 1)]
        assert position.value == pytest.approx(sum(own) / 4)
        assert position.progress["since_best"] == 0
    assert len(played.checkpoints()) == 3


@pytest.mark.parametrize("validates", [True, False])
def test_killed_run_with_unreported_epoch_ends_resumes_exactly(new: Callable[..., Path], *, validates: bool) -> None:
    """Kill it after each step: events up to the last checkpoint are recorded, later ones are repeated."""
    shape = {"per_epoch": 3, "reports_every": 50, "validates": validates}
    whole = Played(new(epochs=8, unit="steps", every=10, keep=1000), **shape)
    assert whole.train()
    untold = 0
    for last in range(1, 24):
        run_dir = new(epochs=8, unit="steps", every=10, keep=1000)
        killed = Played(run_dir, **shape)
        assert not killed.train(lambda step, last=last: step == last)
        untold += killed.reporter.put_off_so_far
        again = Played(run_dir, **shape)
        assert again.train()
        assert_complete(again.run_series(), epochs=8, per_epoch=3, validates=validates)
        assert again.checkpoints() == whole.checkpoints()
    assert untold >= 12


def assert_complete(run_series: RunSeries, *, epochs: int, per_epoch: int, validates: bool = True) -> None:
    losses = [loss(step) for step in range(1, epochs * per_epoch + 1)]
    assert run_series.metrics["loss"].steps.tolist() == list(range(1, epochs * per_epoch + 1))
    assert run_series.metrics["loss"].values.tolist() == pytest.approx(losses)
    if validates:
        assert run_series.metrics["val_loss"].steps.tolist() == list(
            range(per_epoch, epochs * per_epoch + 1, per_epoch)
        )
        assert run_series.metrics["val_loss"].values.tolist() == list(map(validation, range(epochs)))


OF_ONE_STEP = {"epochs": 200, "batch_size": 66, "learning_rate": 0.01, "checkpoints": {"unit": "epochs", "every": 70}}


@pytest.fixture(scope="module")
def on_one_device(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """The single-device run that runs on two ranks are compared with."""
    root = tmp_path_factory.mktemp("one")
    return train(make_spec(write_recipe(root, AWKWARD, "awkward"), **OF_ONE_STEP), root / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "pipeline"])
def test_one_step_epochs_are_recorded_completely_on_two_ranks(runs_root, tmp_path, on_one_device, strategy) -> None:
    single, awkward = on_one_device, write_recipe(tmp_path, AWKWARD, "awkward")
    followed = train(make_spec(awkward, strategy=strategy, devices="cpu:0,cpu:1", **OF_ONE_STEP), runs_root)
    assert followed.state is RunState.FINISHED
    for metric in ("loss", "val_loss", "val_accuracy"):
        one, other = followed.run_series.metrics[metric], single.run_series.metrics[metric]
        assert one.steps.tolist() == list(range(1, 201))
        assert_close(one.values.tolist(), other.values.tolist(), relative=1e-4)  # rounding adds up over 200 steps
    saved = [json.loads((path / checkpoint.MANIFEST).read_text()) for path in checkpoint.folders(followed.run.dir)]
    values = followed.run_series.metrics["val_loss"].values
    assert {each["epoch"] for each in saved} >= {140, 200}
    assert all(each["value"] == pytest.approx(values[each["epoch"] - 1]) for each in saved)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "pipeline"])
def test_rank_killed_right_after_an_epoch_resumes_exactly(runs_root: Path, tmp_path: Path, strategy: str) -> None:
    """Kill the last rank in the first step of an epoch, before the previous epoch end is reported."""
    flag = tmp_path / "kills"
    source = (
        DROPS
        + f"""
    def loss():
        import os, signal
        from pathlib import Path
        calls = []
        def measure(output, target):
            trains = torch.is_grad_enabled()
            calls.append(trains)
            begun = sum(now and not before for before, now in zip(calls, calls[1:]))
            if trains and begun == 15 and Path({str(flag)!r}).exists():
                os.kill(os.getpid(), signal.SIGKILL)
            return nn.functional.cross_entropy(output, target)
        return measure

    def stages():  # both runs are cut here: otherwise measured times decide, and dropout draws by rank
        layers = model()
        return [layers[:-1], layers[-1:]]
"""
    )
    recipe = write_recipe(tmp_path, source, "killed")
    settings = {"strategy": strategy, "devices": "cpu:0,cpu:1", "epochs": 20, "batch_size": 16, "micro_batches": 2}
    often = {"unit": "steps", "every": 7}
    whole = train(make_spec(recipe, checkpoints=often, **settings), runs_root)
    flag.touch()
    killed = train(make_spec(recipe, checkpoints=often, **settings), runs_root)
    assert killed.state is RunState.FAILED
    assert killed.run.facts.step < 100
    flag.unlink()
    again = resumed(killed.run.dir)
    assert again.state is RunState.FINISHED
    for metric in ("loss", "val_loss"):
        one, other = again.run_series.metrics[metric], whole.run_series.metrics[metric]
        assert one.steps.tolist() == other.steps.tolist()
        assert_close(one.values.tolist(), other.values.tolist())
