"""Lines that certain programs print in forms of their own: one row of `FORMS` each.

To add a form, add a row and a log in `tests/recorded_logs`. The names of the groups in `line` say what is read:

- `step`, `epoch`: where the training is; `done` and `total`: its progress in steps (`total` alone: the step of so many)
- `fields`: the part of the line with names and numbers, which `field` finds one after another
- `name` and `number`: a single metric of the line; `data` beside them, here or in `field`: the data set that it is of
- `validation`: whatever it matches, the values are of a validation
- any other name, such as `val_loss`: the value of the metric with this name

The lines of a form without any of these hold no metric: settings, batches of a validation, summaries. The form keeps
them from the other dialects.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from core.metrics.dialects.syntax import NUMBER, RECORD
from core.metrics.reading import OF_VALIDATION, TEST, VALIDATION, Reading, canonical, certainty, is_counter

GROUPS = frozenset({"step", "epoch", "done", "total", "fields", "name", "number", "data", "validation"})
TRAINING_DATA = re.compile(r"(?:\w* )?(?:train(?:ing)?|learn|dtrain|tr)(?:_?set|_data)?", re.IGNORECASE)
NUMBERED_DATA = re.compile(r"^valid(?:ation)?_(?=\d)")


def _re(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which NUM stands for a number."""
    return re.compile(pattern.replace("NUM", NUMBER), re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of lines."""

    program: str
    holds: str
    """A text that each line of the form has, which is found faster than the pattern."""
    line: re.Pattern[str]
    field: re.Pattern[str] | None = None
    """A field, with the groups `name` and `number`, perhaps also `data`."""
    skip: re.Pattern[str] | None = None
    """Names that are no metrics, besides the counters that `names` knows."""
    certain: bool = False
    """Whether one of the names must be that of a metric, since other programs print such lines, too."""
    repeats_validation: bool = False
    """Whether each line repeats the value of the last validation."""


PADDLE_FIELD = _re(r"(?<![\w.])(?P<name>[A-Z][\w@]{0,40})(?:\(\w*\))?: (?P<number>NUM)(?=$|[\s,])")
PADDLE_OTHERS = _re(r"(?:avg_)?(?:batch|reader|data)_cost|ips|avg_samples|fps|best_epoch|Images|eta")
ESPNET_FIELD = _re(r"(?<![\w.])(?P<name>[a-z]\w{0,40})=(?P<number>NUM)(?=,|$)")
ESPNET_OTHERS = _re(r"clip|loss_scale|total_count|optim0_lr\d|.*time")
MEGATRON_FIELD = _re(
    r"\|\s*(?:lm[ _])?(?:loss[ _](?=ppl))?"
    r"(?P<name>learning[ _]rate|grad[ _]norm|ppl|(?:[a-z][\w()/\-]* ){0,6}?[\w-]*loss)"
    r"(?:[ _]value)?:?\s+(?P<number>NUM)\s*(?=\||$)"
)

FORMS: tuple[Form, ...] = (
    Form(program="LightGBM, its command line", holds="[LightGBM]",
         line=_re(r"^\[LightGBM\] \[Info\] Iteration: ?(?P<step>\d{1,9}), (?P<data>\w{1,40}) (?P<name>\S{1,60}) : "
                  r"(?P<number>NUM)")),
    Form(program="LightGBM, XGBoost", holds="]",
         line=_re(r"^\[(?P<step>\d{1,9})\]\s+(?P<fields>(?:[\w .@-]{1,40}(?:'s |-)[^\s:=]{1,60}:\s?(?:NUM)"
                  r"(?:\s?\+\s?NUM)?\s*)+)$"),
         field=_re(r"(?P<data>[\w .@]{1,40}?)(?:'s |-)(?P<name>[^\s:=]{1,60}):\s?(?P<number>NUM)"
                   r"(?:\s?\+\s?NUM)?(?:\s+|$)")),
    Form(program="Darknet", holds=" avg loss, ",
         line=_re(r"^(?P<step>\d{1,9}): (?P<loss>NUM), (?:NUM) avg loss, (?P<learning_rate>NUM) rate, ")),
    Form(program="CatBoost",  # it does not print the name of its loss function
         holds="total: ",
         line=_re(r"^(?P<step>\d{1,9}):\s+(?:learn: (?P<loss>NUM)\s+)?(?:test\d*: (?P<val_loss>NUM)\s+)?"
                  r"(?:test1: \S+\s+)*(?:best: \S+ \(\d+\)\s+)?total: ")),
    Form(program="clu, the library of Flax programs", holds="] ",
         line=_re(rf"^(?:{RECORD.pattern})?\[(?P<step>\d{{1,12}})\]"
                  r"(?: collection=(?:(?P<validation>val\w*|eval\w*|test\w*|dev)|\w+))? "
                  r"(?P<fields>[\w@/.\-]{1,60}=(?:NUM)(?:, [\w@/.\-]{1,60}=[^\s,]{1,40})*)$"),
         field=_re(r"(?P<name>[\w@/.\-]{1,60})=(?P<number>NUM)(?=,|$)"), certain=True),
    Form(program="LitGPT", holds="| iter ",
         line=_re(r"Epoch (?P<epoch>\d+) \| iter (?P<step>\d+) step \d+ \| (?:train loss|loss train): (?P<loss>NUM), "
                  r"val(?: loss)?: (?:(?P<val_loss>NUM)|n/a) \|"), repeats_validation=True),
    Form(program="Megatron", holds="iteration",
         line=_re(r"(?:^|\s)(?:validation loss at )?(?:iteration\s+(?=\d+/)|(?P<validation>iteration) )(?P<step>\d+)"
                  r"(?:/\s*(?P<total>\d+))?(?: on validation set)? (?P<fields>\|.*)"),
         field=MEGATRON_FIELD, certain=True),
    Form(program="NVIDIA DLLogger", holds="DLL ",
         line=_re(r"^DLL [\d-]+ [\d:.]+ - (?:Epoch: (?P<epoch>\d+) )?(?:(?:Iteration|Global Step|Step): "
                  r"(?P<step>\d+) )?(?<=\d )(?!Validation Iteration)(?P<fields>.*)"),
         field=_re(r"(?P<name>[\w@/.\-]{1,60}) : (?P<number>NUM)(?=\s|$)"), skip=_re(r".*_ips"), certain=True),
    Form(program="NVIDIA DLLogger, JSON", holds="DLLL {",
         line=_re(r'^DLLL \{.*"type": "LOG", "step": (?:\[(?P<epoch>\d+)(?:, |(?=\])))?(?P<step>\d+)?\]?, '
                  r'"data": \{(?P<fields>[^{}]*)\}'), field=_re(r'"(?P<name>[\w@/.\-]{1,60})": (?P<number>NUM)(?=,|$)'),
         skip=_re(r".*_ips"), certain=True),
    Form(program="PaddleClas", holds="[Train][Epoch ",
         line=_re(r"\[Train\]\[Epoch (?P<epoch>\d+)(?:/\d+)?\]\[Iter: ?(?P<done>\d+)/(?P<total>\d+)\](?P<fields>.*)"),
         field=PADDLE_FIELD, skip=PADDLE_OTHERS),
    Form(program="PaddleClas", holds="[Eval][Epoch ",
         line=_re(r"\[(?P<validation>Eval)\]\[Epoch (?P<epoch>\d+)(?:/\d+)?\]\[Avg\](?P<fields>.*)"),
         field=PADDLE_FIELD, skip=PADDLE_OTHERS),
    Form(program="PaddleSeg, PaddleOCR", holds=": ",
         line=_re(r"(?P<validation>\[EVAL\] #Images: \d+ |\bINFO: cur metric, )(?P<fields>.*)"), field=PADDLE_FIELD,
         skip=PADDLE_OTHERS),
    Form(program="Estimators of TensorFlow", holds="Saving dict",
         line=_re(r"(?P<validation>Saving dict) for global step (?P<step>\d+): (?P<fields>.*)"),
         field=_re(r"(?P<name>[\w/.\-]{1,60}) = (?P<number>NUM)(?=,|$)")),
    Form(program="CycleGAN, pix2pix", holds="(epoch: ",
         line=_re(r"^\(epoch: (?P<epoch>\d+), iters: (?P<step>\d+), time: [\d.]+, data: [\d.]+\),? "
                  r"(?P<fields>(?:\w{1,40}: (?:NUM)\s*)+)$"), field=PADDLE_FIELD),
    Form(program="Coqui TTS",  # it prints the change since the last value only of a validation
         holds="| > avg_",
         line=_re(r"^\| > (?P<validation>avg_)(?P<name>\w{1,60}): (?P<number>NUM) +\([-+]\d[\d.e-]*\)$")),
    Form(program="ESPnet", holds="epoch:train:",
         line=_re(r"(?<!\d)(?P<epoch>\d{1,9})epoch:train:\d+-(?P<step>\d+)batch: (?P<fields>.*)"), field=ESPNET_FIELD,
         skip=ESPNET_OTHERS),
    Form(program="ESPnet",  # the means of the batches of its epoch were printed before
         holds="epoch results: ",
         line=_re(r"(?<!\d)(?P<epoch>\d{1,9})epoch results: \[train\] .*?\[(?P<validation>valid)\] (?P<fields>.*)"),
         field=ESPNET_FIELD, skip=ESPNET_OTHERS),
    Form(program="Stable-Baselines3: an evaluation", holds="Eval num_timesteps=",
         line=_re(r"^Eval num_timesteps=(?P<step>\d+), episode_reward=(?P<val_episode_reward>NUM) \+/- ")),
    Form(program="NVIDIA Tacotron 2", holds=" loss ",
         line=_re(r"^(?:train|(?P<validation>val)\w*) (?P<name>loss) (?P<step>\d+):?\s+"
                  r"(?P<number>[-+]?\d+\.\d+|nan|inf)(?: Grad Norm (?P<grad_norm>NUM) [\d.]+s/it)?\s*$")),
    Form(program="WeNet", holds="TRAIN Batch ",  # of this epoch this batch
         line=_re(r"\bTRAIN Batch (?P<epoch>\d+)/(?P<step>\d+) (?P<fields>loss .*)"),
         field=_re(r"(?P<name>[a-z]\w*) (?P<number>NUM)(?=\s|$)")),
    Form(program="Optuna", holds="inished with value",
         line=_re(r"\bTrial (?P<step>\d+) finished with values?: (?:(?P<value>NUM)|\[(?P<value_1>NUM), (?P<value_2>NUM)"
                  r"(?:, (?P<value_3>NUM))?\]) and ")),
    Form(program="scikit-optimize", holds="value obtained: ", line=_re(r"^Function value obtained: (?P<value>NUM)$")),
    Form(program="Guides of Keras and TensorFlow",  # `Training loss (for one batch) at step 200: 0.9721`
         holds=" at ",
         line=_re(r"^\W*(?P<name>(?:[a-z_]+[ _])?(?:loss|accuracy))(?: \([^)]{1,40}\))? at (?:step|iteration) "
                  r"(?P<step>\d{1,15}): (?P<number>NUM)\s*$")),
    *(Form(program="Settings, summaries and batches of a validation", holds=holds, line=_re(line)) for holds, line in (
        ("[LightGBM]", r"^\[LightGBM\]"), ("DLL", r"^DLLL? "), ("| epoch ", r"(?:^|\| )valid\w* \| epoch \d+: "),
        ("CV Batch ", r"\bCV Batch \d+/\d+ loss "), (" on test set |", r"iteration \d+ on test set \|"))),
    Form(program="Guides of Keras: an epoch", holds=" over epoch: ",
         line=_re(r"^(?P<name>(?:training|validation) \w+) over epoch: (?P<number>NUM)$")),
)
"""The more specific forms come first."""


def read(line: str) -> tuple[Form, Reading] | None:
    """Return the form of a line, and what the line says; None for a line of no form."""
    for form in FORMS:
        if form.holds in line and (match := form.line.search(line)) and (reading := _reading(form, match)) is not None:
            return form, reading
    return None


def _reading(form: Form, match: re.Match[str]) -> Reading | None:
    """Return what a line of a form says; None if none of its names is that of a metric, but one must be."""
    found = {name: text for name, text in match.groupdict().items() if text is not None}
    fields = [match] if "name" in found else form.field.finditer(found["fields"]) if form.field else []
    named = [
        (each.get("data", "").strip().lower(), each["name"].strip(), float(each["number"]))
        for each in (field.groupdict() for field in fields)
        if not is_counter(each["name"]) and not (form.skip and form.skip.fullmatch(each["name"]))
    ]
    if form.certain and not any(certainty(name) for _, name, _ in named):
        return None
    values = {name: float(text) for name, text in found.items() if name not in GROUPS}
    phase = OF_VALIDATION if "validation" in found else ""
    others = {data for data, _, _ in named if data and not TRAINING_DATA.fullmatch(data)}
    for data, name, value in named:
        values.setdefault(_prefix(data, others) + canonical(phase + name), value)
    step, total = found.get("step"), found.get("total")
    done = found.get("done", step) if total else None
    return Reading(
        values=values,
        step=int(step) if step else None,
        epoch=float(found["epoch"]) if "epoch" in found else None,
        done=float(done) if done else None,
        total=float(total) if total else None,
        unit="steps" if total else "",
    )


def _prefix(data: str, others: Collection[str]) -> str:
    """Return what a data set adds to the names of its metrics.

    One data set besides the training's is the validation; more keep their names.
    """
    if data not in others:
        return ""
    if len(others) == 1 or data in VALIDATION - TEST:
        return OF_VALIDATION
    return NUMBERED_DATA.sub(OF_VALIDATION, data).replace(" ", "_") + "_"
