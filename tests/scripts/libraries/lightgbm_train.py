"""Boosting with LightGBM: `[1]	training's binary_logloss: 0.66	valid's binary_logloss: 0.67`."""

import json
import sys

import lightgbm
import numpy as np

rng = np.random.default_rng(0)
inputs = rng.normal(size=(400, 5))
targets = (inputs.sum(axis=1) > 0).astype(int)
train = lightgbm.Dataset(inputs[:300], targets[:300])
valid = train.create_valid(inputs[300:], targets[300:])
history = {}
lightgbm.train(
    {"objective": "binary", "metric": "binary_logloss", "num_leaves": 4, "seed": 0},
    train,
    num_boost_round=12,
    valid_sets=[train, valid],
    valid_names=["training", "valid"],
    callbacks=[lightgbm.log_evaluation(1), lightgbm.record_evaluation(history)],
)
with open(sys.argv[1], "w") as file:
    names = {"binary_logloss": "training", "val_binary_logloss": "valid"}
    json.dump({ours: dict(enumerate(history[theirs]["binary_logloss"], 1)) for ours, theirs in names.items()}, file)
