"""Names and numbers in a line of text: `loss: 0.123`, `train_loss=0.3`, `iter 10: loss 4.2, time 12ms`.

A number is a metric's value if it follows a known metric's name, or follows any name and "=" or ":" on a line with
such a metric. Prose, file names, versions, addresses, dates and settings are ignored: if in doubt, nothing is read.

Dictionaries, as the Hugging Face trainer prints them, and JSON objects are read as a whole: `{'loss': 0.52}`.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace

from core.metrics.dialects.syntax import ALONE, NUMBER, StepPosition, message, step_position
from core.metrics.reading import (
    IN_VALIDATION,
    MEANS,
    OF_VALIDATION,
    TEST,
    TRAIN,
    VALIDATION,
    Reading,
    by_our_names,
    canonical,
    certainty,
    is_counter,
    is_of_test,
    reading_of_object,
)

PREFIX = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[-+]\d\d:?\d\d)?|\d\d?/\d\d?/\d{2,4}"
    r"|(?<![\d:])\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?(?![\d:])|\d{1,9}\.\d{1,9}\.\d[\w.]*|\([\w.]{1,60}:\d{1,6}\)"
    r"|\[[\w.]{1,60}:\d{1,6}\]"
    r"|(?<=\| )[\w.<>]{1,80}(?::[\w.<>]{1,80})?:\d{1,6}(?= - )"
)
"""Dates, times of day, durations, versions, addresses and lines of source: they are no values and are blanked out."""
PAIR = re.compile(
    rf"(?<![\w@/.\\'\"-])(?P<name>[a-z_][\w@/.\-]{{0,63}})(?P<sep>\s{{0,8}}(?:\bis)?[=:]\s{{0,16}}|\sis\s{{1,16}}|\s{{1,16}})"
    rf"(?:(?P<number>(?P<grouped>\d{{1,3}},\d{{3}}(?![\d,.]))|{NUMBER})(?P<rest>\s?%|\s?/\s?(?P<of>\d+))?"
    rf"|(?<=:\s)\((?P<share>\d+(?:\.\d*)?)%\)|(?<=[=:\s])\[(?P<only>{NUMBER})\]|(?<=[=:])\((?P<first>{NUMBER}),?\))"
    rf"{ALONE}(?=$|[\s,;|)\]}}>'\"(]|\.(?:\s|$))",
    re.IGNORECASE,
)
LOSS = re.compile(r"l_[a-z]\w*|l[12]", re.IGNORECASE)
"""Names of losses, on a line with a place in the training: `l_pix: 0.012`."""
BEST = "best_"
LARGE = re.compile(r"ppl|perplexity|reward|return|score", re.IGNORECASE)
"""Names of metrics whose values may have thousands separators."""
MEAN = re.compile(rf"\s{{0,4}}\(\s{{0,8}}({NUMBER})\s?%?\)", re.IGNORECASE)
"""The mean so far, in brackets after a batch's value: `Loss 6.8018e+00 (6.8121e+00)`."""
WORD = re.compile(r"([A-Za-z][\w]*)[ ]$")
LED = re.compile(
    r"(?<![\w.])(?<!new )(train(?:ing)?|val(?:id(?:ation)?)?|test|eval|best)\s"
    r"(?P<kind>(?:(?!(?:nan|inf)\b)[a-z][\w-]{0,30}\s){1,2})$",
    re.IGNORECASE,
)
"""The beginning of a field that says what a name further on is of: `Test Instance Accuracy: 0.6`."""
KIND = re.compile(r"(?:^(?:\W{0,4}\d+\s)?|[,;|]|\s-\s)\s{0,4}((?:[a-z][\w-]{0,30}\s){1,2})$", re.IGNORECASE)
"""Words at the beginning of a field that may tell its metric from another of this name: `Content `."""
SUBJECT = re.compile(r"(?!(?:train|val|valid|test|INFO|DEBUG)\b)([a-z]\w{0,30}):?\s{2,40}(?=\S+\s?=)", re.IGNORECASE)
"""What all values of a line are of, such as a class: `car    AP=0.5  IoU=0.4`."""
FIELD = re.compile(r"(?:[,;|]|\s-\s)\s{0,4}([A-Za-z][\w-]{0,30}(?:[ ][A-Za-z][\w-]{0,30}){0,2})[ ]$")
"""The words before a name in its field of a line: `, Mel PostNet ` in `Mel Loss: 1.2, Mel PostNet Loss: 1.1`."""
BEFORE_NAMES = TRAIN | VALIDATION | MEANS | {"set"}
WORDS = re.compile(
    r"(?:time|learning|grad|gradient|init(?:ial)?|best|median|max|min|maximum|minimum|highest|lowest|total|final|top|batch|epoch|step|[dgq]|gen|"
    r"disc|generator|discriminator|actor|critic|policy|value|surrogate|entropy|content|style|adversarial|adv|gan|cycle|"
    r"identity|perceptual|feature|pixel|recon(?:struction)?|kld?|elbo|regression|reg|classification|cls|box|bbox|obj|"
    r"objectness|mask|seg|segmentation|rpn|dfl|contrastive|triplet|aux(?:iliary)?|commit(?:ment)?|vq|codebook|"
    r"distill(?:ation)?|student|teacher|mlm|nsp|lm|ctc|attention|att|ranking|depth|dice|focal|bce|ce|mse|l1|l2|huber|"
    r"extrinsic|intrinsic|symmetry|mel|duration|pitch|energy|gate|pde|physics|boundary|smooth(?:ness)?)$",
    re.IGNORECASE,
)
"""Words that belong to the name after them, besides those in `names`."""
PHASE = re.compile(
    r"^[\W\d]{0,40}(?:[^\W\d]\w{0,23}[\s:.-]{1,8}|\d{1,9}[\]\s:|),-]{1,4}){0,4}?(?:on )?\[?"
    r"(?:(?P<test>test|testing)|val|valid|validation|eval|evaluation|evaluating|validating|validate|dev)\b"
    r"(?: net output #\d+)?(?:[ _-]?(?:set|error|errors|results?|metrics|summary|epoch|performance|phase|step)){0,2}"
    r"[\]\s]*(?:\[[^\]]{0,40}\]|\([\d/ ]{1,20}\)|[#\d/\s]{1,40})?"
    r"(?:[:|>,-]|\]|$|(?<=\s\s)|(?<=\d\)))|^\s*\*\s",
    re.IGNORECASE,
)
"""A line about validation: `Test set: ...`, `[val] ...`, the summary ` * Acc@1 76.1` of PyTorch's example."""
SETTINGS = re.compile(
    r"^\W*(?:(?!(?-i:WARNING)\b)\w*(?:namespace|config|args|arguments|parameters|settings|usage|saving|saved|loading"
    r"|loaded|warning|traceback)\b)|^wandb: |^(?-i:[A-Z]\w*(?:Error|Exception))\b",
    re.IGNORECASE,
)
"""Lines about something else. `WARNING` in capitals is the level of a log record."""
SETTING = re.compile(
    r"\b(?:momentum|weight_decay|nesterov|dampening|betas|amsgrad|batch_size|seed|num_workers|max_epochs|optimizer|"
    r"dropout|device)\s?[=:]",
    re.IGNORECASE,
)
SWITCH = re.compile(r"[=:]\s?(?:True|False|None)\b")
"""Settings in a line. Beside one, or two switches, numbers without a place in the training are settings, too."""
BARE = re.compile(
    r"^[\W_]*(?:(?:start|begin)(?:ning)?(?:ing)? (?:of )?)?"
    r"epoch(?:s(?=\W*\d+\s*(?:/|of)))?\W{0,3}\d+(?:\s*(?:/|of)\s*\d+)?[\W_]*"
    r"(?:started|starting|start|begins?|done|finished|completed?|ended|end)?[\W_]*$",
    re.IGNORECASE,
)
"""A line that names an epoch and nothing else."""
CLOSING = re.compile(r"^\s*(?:$|[,;|)\]}'\"%(>]|\.(?:\s|$)|[-–—]\s|[A-Za-z_][\w@/.\-]*(?:\s[A-Za-z]+)?\s*[=:])")
"""The text that must follow a number that may be part of a sentence: "error 0.5 of" is no metric."""

MEASURE = re.compile(r"\s(?:hours?|h|min|minutes?|secs?|seconds?|s|ms|[KMG]i?B|samples|images|tokens)\b")
"""The unit of a number that is a time, a size or a speed."""

NEXT = re.compile(r"^\s+[A-Za-z_][\w@/.\-]*\s+[-+]?[\d.]")
"""The text that may follow `nan` instead: another name and its number. No sentence reads so."""

DECLARED = re.compile(r"\b(?:double|float|auto|const|int) $")
TIMES = re.compile(r" \*(?! \d|$)")
"""What stands before and after a number in source code: `double loss = 0.5;`, `loss = 0.5 * x`. CNTK prints the
number of samples so."""

EPISODE = re.compile(r"\bepisodes?\b", re.IGNORECASE)
"""The score of a game is a whole number."""
PHASE_HEADING = re.compile(
    r"^\W*(?:(?:start(?:ing)?|begin(?:ning)?|running|run|now)\s+)?"
    r"(?:(?P<train>train(?:ing)?)|valid(?:ation|ating|ate)?|val|eval(?:uation|uating|uate)?|test(?:ing)?)"
    r"(?:\s+(?:phase|set|loop|mode|model|step|epoch|results?|started|begins?|\d{1,6})){0,3}\W*$",
    re.IGNORECASE,
)
COUNTED = re.compile(r"\s*\d+ [a-z]")
"""The begin of `3 samples that are in test:`, which is no heading."""
TRAINING, VALIDATION_NEXT = "training", "validation"
STEPS_OF_EPOCH = re.compile(r"\bepoch: \d+, Steps: \d+ \||\btrain \| epoch \d+ \|", re.IGNORECASE)
"""A summary of an epoch that says how many steps it had. It is no value beside those of the steps."""
HEAD = 200
"""Characters that say what the whole line is about."""

FILE = re.compile(r".*\.(?:py|cc|cpp|cu|c|h|rs|js|txt|log|json|ya?ml|pth?|ckpt|bin|safetensors|csv|h5|keras|npz?)")


def read(line: str) -> Reading | None:
    """Return the metrics and the position of a line; None if it has neither."""
    clean = _without_prefixes(line)
    if SETTINGS.match(clean):
        return None
    at = step_position(clean)
    phase = PHASE.match(message(clean)[:HEAD])
    tested = phase is not None and phase["test"] is not None
    of_line = at.validation or phase is not None
    values, of_test, kinds = _values(clean, at, validation=of_line, tested=tested)
    announces = (len(clean) < HEAD and BARE.match(clean)) or (at.step is not None and at.total is not None)
    if not values and not announces:
        return None
    if at.epoch is not None and STEPS_OF_EPOCH.search(clean):
        at.step = None
    if values:
        validates = any(name.startswith(OF_VALIDATION) for name in values) and not any(map(_trained, values))
    else:
        validates = at.validation
    # The progress is not that of the training then. A step is, unless the whole line is about a validation.
    if validates and at.done is not None and at.unit != "epochs" and (at.step is None or of_line):
        at.unit, at.step = IN_VALIDATION, None
    return Reading(
        values=values, step=at.step, epoch=at.epoch, done=at.done, total=at.total, unit=at.unit, of_test=of_test,
        kinds=kinds,
    )


def values_of(text: str) -> dict[str, float]:
    """Return the values in a text beside a bar, by our names."""
    return _values(_without_prefixes(text), StepPosition(done=0), validation=False, tested=False)[0]


def heading(line: str) -> str:
    """Return what the lines after this one are about: `TRAINING`, `VALIDATION_NEXT` or "".

    A line such as `Test Error:` speaks of the next line; `Training...` and `Validating...` of all until the other one.
    """
    if len(line) < HEAD:
        if line.rstrip().endswith(":") and not COUNTED.match(line) and PHASE.match(message(_without_prefixes(line))):
            return VALIDATION_NEXT
        if named := PHASE_HEADING.match(line):
            return TRAINING if named["train"] else VALIDATION_NEXT
    return ""


def as_validation(reading: Reading) -> Reading:
    """Return the reading with validation names and without progress, which is not that of the training."""
    ours = {name: f"val_{name}" if _trained(name) else name for name in reading.values}
    values = {ours[name]: value for name, value in reading.values.items()}
    kinds = {ours[name]: kind for name, kind in reading.kinds.items() if name in ours}
    return replace(reading, values=values, kinds=kinds, done=None, total=None, unit="")


def _trained(name: str) -> bool:
    return not name.startswith("val_") and name != "learning_rate"


def _without_prefixes(line: str) -> str:
    return PREFIX.sub(lambda match: " " * len(match[0]), line)


def _values(
    line: str, at: StepPosition, *, validation: bool, tested: bool
) -> tuple[dict[str, float], bool, dict[str, str]]:
    """Return the values by our names, whether those of a validation are of a test set, and the words left out."""
    placed = at.step is not None or at.done is not None
    found = [
        (name, value, certain or (placed and LOSS.fullmatch(name) is not None), kind)
        for name, value, certain, kind in _pairs(line, means=validation and at.done is not None and at.unit != "epochs")
    ]
    has_place = placed or at.epoch is not None
    if not any(certain for _, _, certain, _ in found) or (
        not has_place and (SETTING.search(line) or len(SWITCH.findall(line)) > 1)
    ):
        return {}, False, {}
    all_are_metrics = any(certainty(name) == "known" or LOSS.fullmatch(name) for name, *_ in found)
    named: list[tuple[str, float]] = []
    kinds: dict[str, str] = {}
    subject = SUBJECT.match(line)
    for name, value, certain, kind in found:
        if not certain and not all_are_metrics:
            continue
        phase = name.replace("/", "_").split("_")[0].lower()
        if " " in name:
            phase = name.split(" ", 1)[0].lower()
            validation = phase in VALIDATION or (validation and phase not in TRAIN)
            tested = phase in TEST or (tested and phase not in VALIDATION)
        ours = canonical(name)
        inherits = phase not in TRAIN and not ours.startswith(OF_VALIDATION) and certainty(name) != "plain"
        prefix = ("test " if tested else "val ") if validation and inherits else ""
        if any(is_of_test(other) == tested and canonical(other) == canonical(prefix + name) for other, _ in named):
            prefix = ""
        named.append((prefix + name, value))
        kinds.setdefault(canonical(prefix + name), kind or (subject[1] if subject else ""))
    values, of_test = by_our_names(named)
    return values, of_test, kinds


def _pairs(line: str, *, means: bool) -> Iterator[tuple[str, float, bool, str]]:
    """Yield (the program's name, value, whether the name alone says that it is a metric, words that it leaves out).

    `means`: of a value with its mean in brackets take the mean.
    """
    seen: dict[str, bool] = {}
    for match in PAIR.finditer(line):
        name, begin = _whole_name(line, match)
        name_certainty = certainty(name)
        if is_counter(name) or FILE.fullmatch(match["name"].lower()) or not _plausible(line, match, name_certainty):
            continue
        name, kind = _with_words(line, name, begin)
        base = canonical(name).removeprefix(OF_VALIDATION).removeprefix(BEST)
        if base in seen and (of := FIELD.search(line, max(0, begin - HEAD), begin)):
            is_of_best = seen[base] and not _has_phase(of[1])  # `Best Instance Accuracy: 0.6, Class Accuracy: 0.5`
            name = f"{'best ' if is_of_best else ''}{of[1]} {name.split()[-1] if _has_phase(of[1]) else name}"
        seen.setdefault(base, canonical(name).startswith(BEST))
        mean = MEAN.match(line, match.end()) if means else None
        if (value := float(mean[1]) if mean else _value(match, name)) is not None:
            yield name, value, bool(name_certainty), kind


def _plausible(line: str, match: re.Match[str], certain: str) -> bool:
    """Return whether the number can be a value, and is not part of a sentence."""
    text, tight = _number_of(match), match["sep"].strip() not in {"", "is"}
    whole = text.lstrip("+-").isdigit() and not match["rest"] and not match["share"]
    if (whole or match["rest"]) and match["name"].lower() in TRAIN | VALIDATION:
        return False  # `Train: 3 [10/391]`, `Train: 89%`
    is_unclear = match["grouped"] and not LARGE.search(match["name"])  # 1,234 may have a decimal comma
    if is_unclear or (not certain and (not tight or MEASURE.match(line, match.end()))):
        return False
    if DECLARED.search(line, max(0, match.start() - 8), match.start()) or TIMES.match(line, match.end()):
        return False
    if certain == "cautious" and whole:
        return tight and EPISODE.search(line) is not None
    if certain == "cautious" or (not tight and (whole or not text[-1].isdigit())):
        rest = line[match.end() :]
        unreal = certain == "known" and not text[-1].isdigit() and text[-1] != "."
        return CLOSING.match(rest) is not None or (unreal and NEXT.match(rest) is not None)
    return True


def _whole_name(line: str, match: re.Match[str]) -> tuple[str, int]:
    """Return the name with the words before it that belong to it, and where it begins: "Average loss", "val loss"."""
    name, begin = match["name"], match.start()
    for _ in range(3):
        before = WORD.search(line, max(0, begin - 24), begin)
        is_loss = before is not None and len(name) == 1 and before[1].lower() == "loss"  # `Loss D: 0.5`
        if before is None or not (is_loss or before[1].lower() in BEFORE_NAMES or WORDS.match(before[1])):
            break
        name, begin = f"{before[1]} {name}", before.start()
    # An unknown word before "loss" tells several losses of a line apart.
    is_one_of_several = name.lower() == "loss" and line.lower().count("loss") > 1
    if is_one_of_several and (of := FIELD.search(line, max(0, begin - HEAD), begin)):
        return f"{of[1]} {name}", begin
    return name.removeprefix("set "), begin


def _with_words(line: str, name: str, begin: int) -> tuple[str, str]:
    """Return the name with the phase that is further on the left, and the words between, which are left out."""
    before = line[max(0, begin - 2) : begin]
    if not before[:1].isalnum() or not before[1:].isspace():
        return name, ""
    if not _has_phase(name) and (led := LED.search(line, max(0, begin - HEAD), begin)):
        return f"{led[1]} {name}", led["kind"].strip()
    kind = KIND.search(line, max(0, begin - HEAD), begin)
    return name, kind[1].strip() if kind else ""


def _has_phase(name: str) -> bool:
    return name.split(maxsplit=1)[0].lower() in TRAIN | VALIDATION | {"best"}


def _number_of(match: re.Match[str]) -> str:
    found = match["number"] or match["only"] or match["first"] or match["share"]
    return found.replace(",", "") if match["grouped"] else found


def _value(match: re.Match[str], name: str) -> float | None:
    """Return the value; a share such as `9903/10000` or `99%` becomes a number from 0 to 1."""
    text = _number_of(match)
    if match["of"]:
        of = float(match["of"])
        return float(text) / of if of and "acc" in name.lower() else None
    return float(text) / 100 if match["share"] or match["rest"] else float(text)


NOT_LITERAL = re.compile(r"(?<=[:,\[\s(])(-?)(nan|inf)(?=\s*[,}\])])", re.IGNORECASE)
SETTING_KEYS = frozenset({"epochs", "num_epochs", "max_epochs", "n_epochs", "batch_size", "bs", "seed", "max_steps",
                          "max_iters", "num_workers"})
"""Keys of a dictionary of settings: the learning rate in it is not a measurement."""
SUMMARY = "train_runtime"
"""A key of the trainer's last line, whose `train_loss` is a mean over the run and belongs to no step."""
OPEN = re.compile(r"(?:^|[:\s])\{'[\w/.@ -]{1,60}': [^{}]{1,60},$")
"""The first line of a dictionary that `pprint` divides into lines: TensorFlow's object detection."""


def begins_dictionary(line: str) -> bool:
    """Return whether the dictionary that belongs to this line is on the next lines: `train | step: 100 | output:`."""
    if line.endswith("| output:"):
        return "step:" in line
    return line.endswith(",") and OPEN.search(line) is not None


def read_dictionary(line: str) -> Reading | None:
    """Return the metrics of the dictionary in a line; None if there is no dictionary with metrics."""
    fields = _fields(line)
    if fields is None or not SETTING_KEYS.isdisjoint(fields):
        return None
    if SUMMARY in fields:
        return Reading(values={}, epoch=_number(fields.get("epoch")))
    before = line[: line.index("{")]
    about_validation = PHASE.match(message(_without_prefixes(before))[:HEAD]) is not None  # `eval | step: 100 | {`
    reading = reading_of_object(fields, _number, validation=about_validation)
    certain = {certainty(name) for name in reading.values} - {""} if reading else ()
    if reading is None or not certain or (certain == {"plain"} and reading.step is None and reading.epoch is None):
        return None
    at = step_position(before)
    return replace(
        reading,
        step=at.step if reading.step is None else reading.step,
        epoch=at.epoch if reading.epoch is None else reading.epoch,
    )


def _fields(line: str) -> Mapping[str, object] | None:
    begin, end = line.find("{"), line.rfind("}")
    if not 0 <= begin < end:
        return None
    text, fields = line[begin : end + 1], None
    with contextlib.suppress(ValueError, RecursionError):
        fields = json.loads(text)
    if fields is None:
        errors = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)
        with contextlib.suppress(*errors), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about text that is not Python
            fields = ast.literal_eval(NOT_LITERAL.sub(r"'\1\2'", text))  # `nan` and `inf` are no literals
    return fields if isinstance(fields, dict) and all(isinstance(name, str) for name in fields) else None


def _number(field: object) -> float | None:
    """Return a field as a number; newer trainers write numbers as strings."""
    if isinstance(field, bool) or not isinstance(field, (int, float, str)):
        return None
    try:
        return float(field)
    except (ValueError, OverflowError):
        return None
