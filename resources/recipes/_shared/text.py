"""A text as numbers: a class for each of its characters, cut in windows."""

from functools import cache
from pathlib import Path

import numpy as np

FILE = Path(__file__).resolve().parents[2] / "data" / "founding.txt"
VALIDATION_SHARE = 0.1


def vocabulary(path=""):
    """How many different characters the text at `path` has; "" is the text that ships with Trainyard."""
    return len(_coded(path)[0])


def windows(path, part, context):
    """Windows (items, context) of characters' classes, and the same one character later: what comes next.

    The end of the text is for validation: `part` is "train" or "val".
    """
    codes = _coded(path)[1]
    cut = round(len(codes) * (1 - VALIDATION_SHARE))
    codes = codes[cut:] if part == "val" else codes[:cut]
    items = (len(codes) - 1) // context
    if items < 1:
        raise ValueError(f"The text {path or FILE} is too short for a context of {context}: take a longer text.")
    last = items * context
    return codes[:last].reshape(items, context), codes[1 : last + 1].reshape(items, context)


@cache
def _coded(path):
    """The text's characters in order of their code points, and the text as indices into them."""
    source = Path(path).expanduser() if path else FILE
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise OSError(f"The text {source} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"The text {source} is not in UTF-8: save it in that encoding.") from error
    characters, codes = np.unique(np.frombuffer(text.encode("utf-32-le"), "<u4"), return_inverse=True)
    return characters, codes.astype(np.int64)
