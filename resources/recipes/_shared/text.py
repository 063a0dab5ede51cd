"""Turn a text into numbers: one class per character, cut into windows."""

from functools import cache
from pathlib import Path

import numpy as np

FILE = Path(__file__).resolve().parents[2] / "data" / "founding.txt"
VALIDATION_SHARE = 0.1


def vocabulary(path=""):
    """Return how many different characters the text at `path` has. The empty string means Trainyard's own text."""
    return len(_coded(path)[0])


def windows(path, part, context):
    """Return windows (items, context) of character classes, and the same windows one character later.

    `part` is "train" or "val": the end of the text is for validation.
    """
    codes = _coded(path)[1]
    cut = round(len(codes) * (1 - VALIDATION_SHARE))
    codes = codes[cut:] if part == "val" else codes[:cut]
    items = (len(codes) - 1) // context
    if items < 1:
        raise ValueError(f"The text {path or FILE} is too short for a context of {context}. Use a longer text.")
    last = items * context
    return codes[:last].reshape(items, context), codes[1 : last + 1].reshape(items, context)


@cache
def _coded(path):
    """Return the text's characters in order of their code points, and the text as indices into them."""
    source = Path(path).expanduser() if path else FILE
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise OSError(f"The text {source} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"The text {source} is not in UTF-8. Save it in that encoding.") from error
    characters, codes = np.unique(np.frombuffer(text.encode("utf-32-le"), "<u4"), return_inverse=True)
    return characters, codes.astype(np.int64)
