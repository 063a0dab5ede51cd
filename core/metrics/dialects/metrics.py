"""Which words are metrics, and how a number is written: what the dialects share."""

from __future__ import annotations

import re
from functools import lru_cache

from core.metrics.common.names import canonical, is_counter

NUMBER = r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|nan|inf(?:inity)?)"
"""To be compiled with IGNORECASE."""
_KNOWN = """
    loss losses acc accuracy ppl perplexity mae mse rmse auc auroc f1 iou miou bleu rouge reward rewards dice psnr ssim
    fid wer cer nll elbo bpb bpc map50 ndcg mrr acc1 acc5 top1 top5 mape msle cosine
"""
KNOWN = frozenset(_KNOWN.split())
"""A name with one of these among its words is a metric, and so is what stands beside it on its line."""
PLAIN = frozenset({"lr", "learningrate", "grad", "gnorm"})
"""These are metrics, and say nothing of what stands beside them: they stand in lists of settings, too."""
CAUTIOUS = frozenset({"error", "err", "precision", "recall", "score", "entropy", "map", "kl"})
"""These are in messages, too: they are read with a decimal point alone."""
PARTS = re.compile(r"[^a-z0-9]+")
JOINED = re.compile(
    r"(?:train|val|valid|test|eval)(?:loss|acc|accuracy)|m?ap\d{2}|rouge[l\d]+|f1score|.*(?:loss|acc)_\d+"
)
FILE = re.compile(r".*\.(?:py|cc|cpp|cu|c|h|rs|js|txt|log|json|ya?ml|pth?|ckpt|bin|safetensors|csv|h5|keras|npz?)")


@lru_cache(maxsize=4096)
def rank(name: str) -> str:
    """How surely a name is a metric's: "known", "plain", "cautious" or "" for any other."""
    if is_counter(name):
        return ""
    parts = PARTS.split(name.lower())
    if any(part in KNOWN for part in parts) or JOINED.fullmatch(name.lower()):
        return "known"
    if any(part in PLAIN for part in parts) or canonical(name) == "learning_rate":
        return "plain"
    return "cautious" if any(part in CAUTIOUS for part in parts) else ""


def number(text: str) -> float:
    """The number that `NUMBER` or Python's own words for it say; raises ValueError for another text."""
    return float(text)
