"""A language model of Hugging Face, made from a configuration on this machine, that learns a text's next characters.

It needs the package transformers and no network: the model is made from its configuration, with random weights. The
setting `config` is a folder with a `config.json`, or the path of one; without it, it is a small GPT-2. To begin with
trained weights, return `AutoModelForCausalLM.from_pretrained(FOLDER)` in `model()`.
"""

from pathlib import Path

import torch
from _data import characters
from _shared.text import vocabulary
from transformers import AutoConfig, AutoModelForCausalLM  # at the top, so that it is missed before the start


def model(*, text="", config="", layers=2, heads=4, width=64, context=64):
    if config:
        # Not a name such as "gpt2": that would be downloaded.
        where = Path(config).expanduser()
        if not where.exists():
            raise FileNotFoundError(f"There is no configuration {where}. Check the setting config.")
        chosen = AutoConfig.from_pretrained(where, local_files_only=True)
        if chosen.vocab_size < vocabulary(text):
            raise ValueError(
                f"The configuration {where} has {chosen.vocab_size} tokens, but the text has {vocabulary(text)} "
                "different characters. Raise its vocab_size."
            )
    else:
        chosen = AutoConfig.for_model(
            "gpt2", vocab_size=vocabulary(text), n_layer=layers, n_head=heads, n_embd=width, n_positions=context,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        )  # fmt: skip
    return AutoModelForCausalLM.from_config(chosen)


def train_data(text="", context=64):
    return {"input_ids": characters(text, "train", context)[0]}


def val_data(text="", context=64):
    return {"input_ids": characters(text, "val", context)[0]}


def training_step(model, batch):
    # Models of Hugging Face shift the labels by one themselves, and return their loss.
    return model(input_ids=batch["input_ids"], labels=batch["input_ids"]).loss


def optimizer(params, learning_rate=1e-3):
    return torch.optim.AdamW(params, lr=learning_rate)
