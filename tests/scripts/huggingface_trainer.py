"""transformers' Trainer on a tiny model made on the spot."""

import json
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=32, n_positions=16))
tokens = torch.randint(0, 32, (64, 16))
data = [{"input_ids": each, "labels": each} for each in tokens]
arguments = TrainingArguments(
    output_dir="out", num_train_epochs=2, per_device_train_batch_size=8, logging_steps=2, save_strategy="no",
    report_to=[], use_cpu=True, eval_strategy="epoch",
)
trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[:16])
trainer.train()
if len(sys.argv) > 1:
    with open(sys.argv[1], "w") as file:
        json.dump(trainer.state.log_history, file)
