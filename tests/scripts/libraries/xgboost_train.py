"""Boosting with XGBoost: `[0]	train-logloss:0.49	eval-logloss:0.52`."""

import json
import sys

import numpy as np
import xgboost

rng = np.random.default_rng(0)
inputs = rng.normal(size=(400, 5))
targets = (inputs.sum(axis=1) > 0).astype(int)
train = xgboost.DMatrix(inputs[:300], targets[:300])
valid = xgboost.DMatrix(inputs[300:], targets[300:])
history = {}
xgboost.train(
    {"objective": "binary:logistic", "eval_metric": "logloss", "max_depth": 2},
    train,
    num_boost_round=12,
    evals=[(train, "train"), (valid, "eval")],
    evals_result=history,
)
with open(sys.argv[1], "w") as file:
    names = {"logloss": "train", "val_logloss": "eval"}
    json.dump({ours: dict(enumerate(history[theirs]["logloss"])) for ours, theirs in names.items()}, file)
