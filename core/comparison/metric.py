"""The metric by which runs are compared, and whether lower is better."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.errors import RunError
from core.history.run_loss import LOSS, VALIDATION_LOSS
from core.language import tr
from core.text import first_names, join_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.comparison.measured_run import MeasuredRun

LOWER = frozenset({
    "cer", "distance", "err", "error", "fid", "kl", "loss", "mae", "mape", "mse", "nll", "perplexity", "ppl", "rmse",
    "wer",
})  # fmt: skip
"""Words in the name of a metric of which lower values are better. They count before those of `HIGHER`."""
HIGHER = frozenset({
    "acc", "accuracy", "ap", "auc", "auprc", "auroc", "bleu", "chrf", "dice", "f1", "fps", "iou", "jaccard", "kappa",
    "map", "mcc", "meteor", "miou", "mrr", "ndcg", "precision", "psnr", "r2", "recall", "return", "reward", "rouge",
    "score", "sensitivity", "specificity", "ssim", "throughput", "top1", "top5",
})  # fmt: skip
"""Words in the name of a metric of which higher values are better."""
SETTINGS = frozenset({"learning_rate"})
"""Series that say how the run was trained, not what it came to: never chosen, but compared on request."""


class NothingInCommonError(RunError):
    """No two of the runs measured the same."""


def lower_is_better(metric: str) -> bool | None:
    """Return whether lower values of a metric are better, by its name: `val_loss`, `mAP50`; None if it does not say."""
    words = re.findall(r"[a-z]+[0-9]*", metric.lower())
    words += [word.rstrip("0123456789") for word in words]
    if LOWER.intersection(words):
        return True
    return False if HIGHER.intersection(words) else None


def choose_metric(runs: Sequence[MeasuredRun], wanted: str | None = None) -> str:
    """Return the metric to compare: `wanted`, else one that most runs have, a loss of validation rather than another.

    Raises `RunError` with a sentence when no run has the wanted one, or no two runs have one in common.
    """
    names = {run.id: _measured(run) for run in runs}
    counts = {name: sum(name in each for each in names.values()) for each in names.values() for name in each}
    if wanted is not None:
        if any(wanted in run.series.metrics for run in runs):
            return wanted
        known = join_names(first_names(sorted(counts), 20)) or tr("nothing")
        raise RunError(tr("None of these runs measured {metric}. They measured {known}.", metric=wanted, known=known))
    shared = {name: count for name, count in counts.items() if count > 1 and name not in SETTINGS}
    if not shared:
        raise NothingInCommonError(_nothing_in_common(names))
    return min(shared, key=lambda name: (-shared[name], name != VALIDATION_LOSS, name != LOSS, name))


def _measured(run: MeasuredRun) -> set[str]:
    """Return the metrics of which a run has a value that is finite."""
    return {name for name, series in run.series.metrics.items() if series.min is not None}


def _nothing_in_common(names: Mapping[str, set[str]]) -> str:
    each = [
        tr("{run} measured {metrics}", run=run, metrics=join_names(first_names(sorted(found))) or tr("nothing"))
        for run, found in names.items()
    ]
    return tr(
        "These runs have no metric in common: {runs}. Name one of them with --metric.",
        runs=join_names(first_names(each)),
    )
