"""Gradient boosting of scikit-learn: a table with `Iter` and `Train Loss`."""

import json
import sys

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier

rng = np.random.default_rng(0)
inputs = rng.normal(size=(200, 5))
targets = (inputs.sum(axis=1) > 0).astype(int)
model = GradientBoostingClassifier(n_estimators=10, verbose=2, random_state=0).fit(inputs, targets)
with open(sys.argv[1], "w") as file:
    json.dump({"loss": dict(enumerate(model.train_score_, 1))}, file)
