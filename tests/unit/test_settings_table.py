"""Each setting, as its row describes it: option, spec, the command that repeats a run, the list of settings."""

import json
import shlex

import pytest

from core.config import validation
from core.config.choices import RecipeChoices, compose
from core.config.presets import repeat_line
from core.devices.cpu import cpu_devices
from core.runs.facts import RunFacts
from core.schema.setting import Flag, OneOf, Setting, Whole, settings_of
from core.schema.settings import Checkpoints, ReleaseWatch, StopTimeouts, Training
from core.schema.spec import RunSpec
from gui.features.run.settings import run_settings
from tests.support.commands import choices_of
from tests.support.running import make_spec

PARTS = {"training": Training, "checkpoints": Checkpoints, "stop_timeouts": StopTimeouts, "release": ReleaseWatch}
ROWS = [(part, row) for part, owner in PARTS.items() for row in settings_of(owner).values()]
NEEDS = {"reference_batch": ("--rate-scaling", "linear")}
"""Options without which a setting means nothing."""


def each_of(rows: list[tuple[str, Setting]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("part", "row"), rows, ids=[row.name for _, row in rows])


def another(row: Setting) -> object:
    """Return a value that is not the default."""
    if isinstance(row.kind, Flag):
        return not row.default
    if isinstance(row.kind, OneOf):
        return next(each for each in row.kind.titles if each != row.default)
    return (row.default or 0) + (2 if isinstance(row.kind, Whole) else 0.5)


def parsed(*words: str) -> RunSpec:
    found = choices_of(*words)
    assert isinstance(found, RecipeChoices)
    return compose(found, cpu_devices())


@each_of([(part, row) for part, row in ROWS if row.flag])  # without those of `--checkpoint-every`
def test_option_reaches_the_spec_the_command_and_the_list(part: str, row: Setting) -> None:
    framework, _, strategy = next((each for each in row.only if "." in each), "pytorch.ddp").partition(".")
    value = another(row)
    given = [row.flag, str(value)]
    if isinstance(row.kind, Flag):
        given = [row.flag if value else row.flag.replace("--", "--no-")]
    given += NEEDS.get(row.name, ())
    common = ["digits_mlp", "--devices", "cpu:0,cpu:1", "--framework", framework, "--strategy", strategy]
    spec = parsed(*common, *given)
    assert getattr(getattr(spec, part), row.name) == value
    assert parsed(*shlex.split(repeat_line(spec).partition(" && ")[2])[2:]) == spec
    changed = run_settings(spec, RunFacts(), {}, "/runs/a").groups[0]
    assert changed.title == "Changed from the defaults"
    assert row.title in [each.label for each in changed.rows]


@each_of([
    (part, row) for part, row in ROWS
    if part == "training" and row.only not in {(), ("recipe",)} and row.name != "micro_batches"
])
def test_setting_that_a_strategy_lacks_is_refused_with_its_title(part: str, row: Setting) -> None:
    """But for the number of micro-batches, which says nothing without a pipeline."""
    several = (("pytorch", "placement"), ("tensorflow", "towers"), ("keras", "placement"))
    lacking = [(framework, strategy) for framework, strategy in several if not row.is_for(framework, strategy)]
    assert lacking
    for framework, strategy in lacking:
        given = {row.name: another(row)}
        spec = make_spec("digits_mlp", framework=framework, strategy=strategy, devices="cpu:0,cpu:1", **given)
        (problem,) = validation.problems(spec, cpu_devices())
        assert problem.sentence.startswith(f"The setting “{row.title}” is for ")
        assert f" only, but {strategy} of " in problem.sentence


@each_of(ROWS)
def test_value_that_cannot_be_is_refused_with_its_name(part: str, row: Setting) -> None:
    document = json.loads(json.dumps(make_spec("digits_mlp").to_json()))
    document[part][row.name] = "zigzag" if isinstance(row.kind, OneOf) else -1
    with pytest.raises(ValueError, match=rf"The setting “{row.title}” is .*\. (Give|Choose)|{part}\.{row.name} is -1"):
        RunSpec.from_json(document)
    if row.flag and not isinstance(row.kind, Flag):
        with pytest.raises(ValueError, match=rf"^{row.flag} is .*\. (Give|Choose) "):
            parsed("digits_mlp", "--devices", "cpu:0", row.flag, str(document[part][row.name]))
