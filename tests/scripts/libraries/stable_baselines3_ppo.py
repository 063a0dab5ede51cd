"""PPO of stable-baselines3: a table of keys and values for each update."""

import json
import sys

from stable_baselines3 import PPO
from stable_baselines3.common.logger import KVWriter, configure

losses = {}


class Record(KVWriter):
    def write(self, key_values, key_excluded, step=0):
        if "train/loss" in key_values:
            losses[step] = key_values["train/loss"]

    def close(self):
        pass


model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, verbose=1, seed=0, device="cpu")
logger = configure(None, ["stdout"])
logger.output_formats.append(Record())
model.set_logger(logger)
model.learn(320)
with open(sys.argv[1], "w") as file:
    json.dump({"loss": losses}, file)
