"""A language model of Hugging Face, made from a configuration on this machine, that learns a text's next characters.

It needs the package transformers and no network: the model is made from its configuration, with random weights. The
setting `config` is a folder with a `config.json`, or the path of one; without it, it is a small GPT-2. To begin with
trained weights, return `AutoModelForCausalLM.from_pretrained(FOLDER)` in `model()`.
"""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM  # at the top, so that it is missed before the start

FILE = Path(__file__).resolve().parent.parent.parent / "data" / "founding.txt"


def model(*, text="", config="", layers=2, heads=4, width=64, context=64):
    kinds = coded(text)[0]
    if config:
        # Not a name such as "gpt2": that would be downloaded.
        where = Path(config).expanduser()
        if not where.exists():
            raise FileNotFoundError(f"There is no configuration {where}. Check the setting config.")
        chosen = AutoConfig.from_pretrained(where, local_files_only=True)
        if chosen.vocab_size < kinds:
            raise ValueError(
                f"The configuration {where} has {chosen.vocab_size} tokens, but the text has {kinds} "
                "different characters. Raise its vocab_size."
            )
    else:
        chosen = AutoConfig.for_model(
            "gpt2", vocab_size=kinds, n_layer=layers, n_head=heads, n_embd=width, n_positions=context,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        )
    return AutoModelForCausalLM.from_config(chosen)


def train_data(text="", context=64):
    return {"input_ids": windows(text, "train", context)[0]}


def val_data(text="", context=64):
    return {"input_ids": windows(text, "val", context)[0]}


def windows(text, part, context):
    """Return windows (items, context) of the characters of a text, as numbers, and the characters that come next.

    The last tenth of the text is for validation (`part` "val").
    """
    codes = coded(text)[1]
    cut = round(len(codes) * 0.9)
    codes = codes[cut:] if part == "val" else codes[:cut]
    items = (len(codes) - 1) // context
    if items < 1:
        raise ValueError(f"The text {text or FILE} is too short for a context of {context}. Use a longer text.")
    inputs, following = codes[: items * context], codes[1 : items * context + 1]
    return tuple(torch.from_numpy(each.reshape(items, context)) for each in (inputs, following))


@cache
def coded(text):
    """Return how many different characters a text file has, and its characters as numbers; "" is the included text."""
    path = Path(text).expanduser() if text else FILE
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OSError(f"The text {path} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"The text {path} is not in UTF-8. Save it in that encoding.") from error
    kinds, codes = np.unique(np.frombuffer(content.encode("utf-32-le"), "<u4"), return_inverse=True)
    return len(kinds), codes.astype(np.int64)


def training_step(model, batch):
    # Models of Hugging Face shift the labels by one themselves, and return their loss.
    return model(input_ids=batch["input_ids"], labels=batch["input_ids"]).loss


def optimizer(params, learning_rate=1e-3):
    return torch.optim.AdamW(params, lr=learning_rate)
