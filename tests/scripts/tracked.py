"""Train with a tracker of experiments in place of printing: `wandb`, `trackio` or `mlflow`."""

import os
import sys
import time


def values(step):
    return {"train_loss": 1 / step} | ({"val_loss": 2 / step} if step % 5 == 0 else {})


def with_wandb():
    import wandb

    run = wandb.init(mode="offline", project="example", settings=wandb.Settings(silent=True, console="off"))
    for step in range(1, 21):
        run.log(values(step), step=step)
        time.sleep(0.02)
    run.finish()


def with_trackio():
    import trackio

    trackio.init(project="example", name="one")
    for step in range(1, 21):
        trackio.log(values(step), step=step)
    trackio.finish()


def with_mlflow():
    import mlflow

    mlflow.set_tracking_uri("file:" + os.path.abspath("mlruns"))
    with mlflow.start_run():
        for step in range(1, 21):
            mlflow.log_metrics(values(step), step=step)


{"wandb": with_wandb, "trackio": with_trackio, "mlflow": with_mlflow}[sys.argv[1]]()
