"""Readings, and the names of their metrics: a program's names become Keras' names, so that one metric has one curve.

`train_loss`, `Train Loss`, `train/loss` and `loss` are the loss; `eval_loss`, `valid/loss` and `Loss/test` are the
validation loss. A counter (a step, an epoch, a time, a speed, a process number) is not a metric.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

IN_EPOCH = "in this epoch"
"""The unit of a count that restarts with each epoch, while the number of epochs is unknown."""

IN_VALIDATION = "in this validation"
"""The unit of a count within a validation pass. It is no progress of the training."""

OF_BAR = "of a bar beside it"
"""The unit of a reading whose step was taken from a bar that was drawn after it."""

TRAIN = frozenset({"train", "training", "tr"})
VALIDATION = frozenset({"val", "vali", "valid", "validation", "verification", "eval", "evaluation", "test", "testing",
                        "dev"})
TEST = frozenset({"test", "testing"})
MEANS = frozenset({"avg", "average", "mean", "running", "current", "cur"})
"""Words that say how a value was computed, not what it is."""
ALIASES = {
    "acc": "accuracy", "lr": "learning_rate", "learningrate": "learning_rate", "ppl": "perplexity", "cost": "loss",
    "total_cost": "total_loss",
}

MAX_STEP = 2**53
"""The limit for steps and epochs: float64 cannot represent larger integers exactly."""

OF_VALIDATION = "val_"
"""How our names of validation metrics begin."""
STEPS = frozenset({"step", "steps", "global_step", "iter", "iters", "iteration", "iterations", "it", "itr", "update",
                   "num_updates", "num_update", "trainer_global_step", "train_global_step", "train_step",
                   "num_timesteps", "total_timesteps", "timesteps", "timestep", "steps_executed", "epoch_step",
                   "steps_done"})
EPOCHS = frozenset({"epoch", "ep", "current_epoch", "train_epoch"})
_OTHERS = """
    batch batches batch_id batch_idx batch_size bs bsz micro_batch_size global_batch_size seed rank local_rank
    world_size node nodes gpu gpus gpu_id device devices worker workers pid tid port line version v_num id run_id
    timestamp ts
    t time date datetime data eta elapsed remaining duration dt secs seconds sec ms wall walltime wall_time wps ups
    fps tps speed throughput it/s s/it img/s memory mem max_mem vram gpu_mem cuda_mem mfu tflops flops total_flos tokens
    num_tokens tokens_seen num_input_tokens_seen train_num_samples samples n_samples num_samples sample examples
    num_examples items size length len num_params params parameters max_steps max_iters epochs train_epochs
    num_epochs max_epochs total_steps total_epochs num_train_epochs patience hidden_size layers num_layers heads dim
    save_steps eval_iters log_interval gradient_accumulation_steps warmup_steps num_batches ckpt checkpoint
    train_wall gb_free train_steps val_steps eval_num_timesteps epoch_loaded best sents wpb max_depth progress
    ips avg_samples batch_cost data_cost reader_cost avg_batch_cost avg_reader_cost total_params trainable_params
    progress_or_epoch loss_scale bsz_per_gpu level episode episodes run fold
    trial best_epoch timer executed accumulation_step
"""
OTHERS = frozenset(_OTHERS.split())
"""Names next to metrics that are not metrics: counts, times, speeds, sizes, settings."""
MEASURED = re.compile(
    r"num_.*|init(?:ial)?_.*|.*(?:_per_(?:second|sec|step|epoch|s|gpu|iter|batch)|/s(?:ec)?|/it(?:er)?|_(?:time|runtime|seconds|sec|secs|ms|"
    r"bytes|mb|gb|mem|memory|workers|epochs|timestamp|jit_compilation_time))|(?:time|runtime|elapsed|eta)_.*|.*/sec/.*"
)
SETTING = re.compile(
    r".+_(?:iters|steps|interval|freq|threshold|thresh|thres|thr|clip|goal|target|patience|coef|weights?|smoothing|factor|samples|size|count|mode|type|dim|decay|margin|alpha|beta|gamma|delta|"
    r"eps|epsilon|start|end|warmup|window|every|period|limit|fn|func|path|dir|bits|seed|layers|heads)"
)
"""Printed settings with the words of metrics: `lr_decay_iters`, `grad_norm_clip`, `iou_thres`, `accuracy_goal`."""
_KNOWN = """
    loss losses acc accuracy ppl perplexity mae mse rmse auc auroc f1 iou miou bleu rouge reward rewards dice psnr ssim
    fid wer cer nll elbo bpb bpc map50 ndcg mrr prec return returns acc1 acc5 top1 top5 mape msle cosine
"""
KNOWN = frozenset(_KNOWN.split())
"""A name with one of these words is a metric, and so are the other names on its line."""
PLAIN = frozenset({"lr", "learningrate", "grad", "gnorm"})
"""These are metrics, but the other names on their line need not be: they also occur in lists of settings."""
CAUTIOUS = frozenset({"cost", "error", "err", "precision", "recall", "score", "entropy", "map", "kl"})
"""These also occur in messages: they are metrics only with a decimal point in the number."""
PARTS = re.compile(r"[^a-z0-9]+")
JOINED = re.compile(
    r"(?:train|val|valid|test|eval)(?:loss|acc|accuracy)|m?ap\d{2}|rouge[l\d]+|f1score|(?:.*[\W_])?[fk]id\d+k?(?:_\w+)?|.*(?:loss|acc)_\d+"
)
CAMEL = re.compile(
    r"^(train|training|val|valid|validation|eval|test)(?=[A-Z])|(?i:^(train|val|valid|test|eval)(?=(?:loss|acc|accuracy)(?:_|$)))"
)
DOTTED = re.compile(r"^(train|val|valid|test|eval|avg|mean)\.(?=[a-z])")
OF_PHASE = re.compile(r"(?<=[a-z\d])\.(train|val|valid|test|eval)$")
GAPS = re.compile(r"[\s/\-_]+")


MAX_NAME_CHARACTERS = 200
"""A longer name is not the name of a metric."""

STEP_COLUMNS = ("global_step", "trainer_global_step", "train_global_step", "step", "steps")
"""If several columns count steps, the first of these is used; others, such as `iter`, may restart with each epoch."""
TIMES = frozenset({"time", "timestamp", "wall_time", "walltime", "ts"})
MIN_TIME, MAX_TIME = 1e9, 1e11
"""A time between these is in unix seconds; other times have another origin."""

PHASE_KEYS = ("mode", "split", "phase")
"""Keys that tell training from validation, as in OpenMMLab's logs: `{"mode": "val", "accuracy": 0.9}`."""
MAX_DEPTH = 3
"""`{"train": {"loss": 0.5}}` is `train/loss`; values nested deeper than this are not metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Metrics of a line, a row or a record, and where in the training they belong. None: the program does not say."""

    values: Mapping[str, float]  # by our names (`canonical`); NaN and infinity are values
    step: int | None = None  # the program's own count of optimizer steps
    epoch: float | None = None  # as the program counts epochs
    done: float | None = None  # progress: `done` of `total`, from a bar's n/total or "epoch 3/10"
    total: float | None = None
    unit: str = ""  # of done and total: "steps", "epochs", `IN_EPOCH`, `IN_VALIDATION`, or "" if unknown
    time: float | None = None  # unix seconds
    of_test: bool = False  # its validation values are measured on a test set
    kinds: Mapping[str, str] = field(default_factory=dict)  # words of the program's names that ours leave out


def _words(name: str) -> str:
    plain = OF_PHASE.sub(r"_\1", DOTTED.sub(r"\1_", name.strip()))
    return GAPS.sub("_", CAMEL.sub(r"\1\2_", plain)).strip("_.").lower()


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """Return our name for a program's `name`."""
    words = _words(name).split("_")
    phase, words = _phase(words)
    validation = phase in VALIDATION
    while len(words) > 1 and words[0] in MEANS:
        words = words[1:]
    if validation and len(words) > 1 and "epoch" in {words[0], words[-1]}:
        words.remove("epoch")  # the mean over a validation pass, beside `val_loss_step`
    if len(words) > 1 and words[-1] == "step" and words[0] in {"loss", "acc", "accuracy"}:
        words = words[:-1]  # Lightning logs one value as `train_loss_step` and `train_loss_epoch`
    base = "_".join(words)
    base = ALIASES.get(base, base)
    return base if not validation or base == "learning_rate" else f"val_{base}"


def _phase(words: list[str]) -> tuple[str, list[str]]:
    """Return the word that says training or validation, "" without one, and the other words."""
    while len(words) > 1 and words[0] in MEANS:
        words = words[1:]
    first, last = words[0], words[-1]
    if len(words) > 1 and first in TRAIN | VALIDATION:
        return first, words[2:] if words[1] == "set" and len(words) > 2 else words[1:]
    if len(words) > 1 and last in TRAIN | VALIDATION:  # as in TensorBoard: "Loss/train", "Loss/test"
        return last, words[:-1]
    return "", words


@lru_cache(maxsize=4096)
def is_of_test(name: str) -> bool:
    """Return whether a metric's name says that it is measured on a test set."""
    return _phase(_words(name).split("_"))[0] in TEST


def by_our_names(numbers: Iterable[tuple[str, float]]) -> tuple[dict[str, float], bool]:
    """Return values by our names, and whether their validation values are of a test set.

    `test_loss` is the validation loss of a program without a `val_loss`. Beside one it keeps its name.
    """
    values: dict[str, float] = {}
    tests: dict[str, float] = {}
    for name, value in numbers:
        ours = canonical(name)
        (tests if is_of_test(name) and ours != "learning_rate" else values).setdefault(ours, value)
    if tests and any(name.startswith(OF_VALIDATION) for name in values):
        return values | {as_test(name): value for name, value in tests.items()}, False
    return values | tests, bool(tests)


def as_test(name: str) -> str:
    """Return the name of a validation metric for the same metric on a test set."""
    return f"test_{name.removeprefix(OF_VALIDATION)}"


@lru_cache(maxsize=4096)
def counts(name: str) -> Literal["step", "epoch"] | None:
    """Return what a counter of steps or epochs counts; None for all other names."""
    words = _words(name)
    return "step" if words in STEPS else "epoch" if words in EPOCHS else None


@lru_cache(maxsize=4096)
def is_counter(name: str) -> bool:
    """Return whether `name` is a count, a time, a speed or a setting, and so not a metric."""
    words, plain = _words(name).removeprefix("best_"), name.strip().lower()
    if words in STEPS | EPOCHS or counts(name) is not None or words in OTHERS or plain in OTHERS:
        return True
    phase, parts = _phase(words.split("_"))
    if phase and "_".join(parts) in STEPS | EPOCHS | OTHERS:
        return True
    if phase in VALIDATION and parts[-1] == "step":
        return True  # a batch of a validation pass, numbered on its own; `val_loss_epoch` is the mean
    return MEASURED.fullmatch(words) is not None or MEASURED.fullmatch(plain) is not None


@lru_cache(maxsize=4096)
def certainty(name: str) -> Literal["known", "plain", "cautious", ""]:
    """Return how certainly a printed name is a metric's: see `KNOWN`, `PLAIN` and `CAUTIOUS`; "" for other names."""
    if is_counter(name) or SETTING.fullmatch(_words(name)):
        return ""
    parts = PARTS.split(name.lower())
    if any(part in KNOWN or part.endswith("loss") for part in parts) or JOINED.fullmatch(name.lower()):
        return "known"
    if any(part in PLAIN for part in parts) or canonical(name) == "learning_rate":
        return "plain"
    return "cautious" if any(part in CAUTIOUS for part in parts) else ""


def reading_of_object(
    found: Mapping[str, object], number: Callable[[object], float | None], *, validation: bool = False
) -> Reading | None:
    """Return an object of JSON, or a dictionary, as a reading: see `reading_of`.

    `number` returns a value as a number; None if it is none.
    """
    part = next((part for name in PHASE_KEYS if isinstance(part := found.get(name), str)), "")
    return reading_of(dict(_numbers(found, number)), validation=validation or part.lower() in VALIDATION)


def _numbers(
    found: Mapping[str, object], number: Callable[[object], float | None], prefix: str = "", depth: int = 1
) -> Iterator[tuple[str, float]]:
    for name, value in found.items():
        if isinstance(value, dict) and depth < MAX_DEPTH:
            yield from _numbers(value, number, f"{prefix}{name}/", depth + 1)
        elif (read := number(value)) is not None:
            yield f"{prefix}{name}", read


def reading_of(numbers: Mapping[str, float], *, validation: bool = False) -> Reading | None:
    """Return the numbers of one record, by the program's names, as a reading; None if none of them is a metric.

    With `validation`, the record itself says that it is about validation.
    """
    roles: dict[str, list[tuple[str, str, float]]] = {"metric": [], "step": [], "epoch": [], "time": [], "none": []}
    for name, number in numbers.items():
        role, ours = _role(name)
        roles[role].append((name, ours, number))
    if not roles["metric"]:
        return None
    values, of_test = by_our_names(
        (f"val_{ours}" if validation and not ours.startswith("val_") else name, number)
        for name, ours, number in roles["metric"]
    )
    steps = {ours: number for _, ours, number in roles["step"]}
    candidates = [*(steps[name] for name in STEP_COLUMNS if name in steps), *steps.values()]
    return Reading(
        values=values,
        step=next((int(step) for step in candidates if 0 <= step < MAX_STEP and step == int(step)), None),
        epoch=next((epoch for *_, epoch in roles["epoch"] if 0 <= epoch < MAX_STEP), None),
        time=next((time for *_, time in roles["time"] if MIN_TIME < time < MAX_TIME), None),
        of_test=of_test,
    )


@lru_cache(maxsize=4096)
def _role(name: str) -> tuple[Literal["metric", "step", "epoch", "time", "none"], str]:
    """Return what the numbers of a column or key are, and our name for it."""
    counted, plain = counts(name), name.strip("_ ").lower().replace(" ", "_").replace("/", "_")
    if counted is not None:
        return counted, plain
    if plain in TIMES:
        return "time", plain
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable() or is_counter(name):
        return "none", plain
    return "metric", canonical(name)
