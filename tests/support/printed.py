"""Logs of real programs: recorded lines, and programs that print such logs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from core.metrics.reading import Reading
from core.metrics.text.log import LogReader

FULL = "█" * 10

NANOGPT = """\
tokens per iteration will be: 16,384
found vocab_size = 65 (inside data/shakespeare_char/meta.pkl)
number of parameters: 10.65M
num decayed parameter tensors: 26, with 10,740,096 parameters
step 0: train loss 4.2874, val loss 4.2823
iter 0: loss 4.2654, time 26888.69ms, mfu -100.00%
iter 10: loss 3.2362, time 72.41ms, mfu 5.15%
step 250: train loss 1.9651, val loss 2.0585
saving checkpoint to out-shakespeare-char
iter 250: loss 2.0315, time 9641.55ms, mfu 4.64%
"""
MNIST = """\
Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.282550
Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.384441

Test set: Average loss: 0.0488, Accuracy: 9839/10000 (98%)

Train Epoch: 2 [0/60000 (0%)]\tLoss: 0.037512
"""
IMAGENET = """\
=> creating model 'resnet18'
Epoch: [0][  1/391]\tTime  4.758 ( 4.758)\tData  3.052 ( 3.052)\tLoss 7.1093e+00 (7.1093e+00)\t\
Acc@1   0.00 (  0.00)\tAcc@5   0.39 (  0.39)
Epoch: [0][ 11/391]\tTime  0.288 ( 0.696)\tData  0.000 ( 0.278)\tLoss 7.0421e+00 (7.1002e+00)\t\
Acc@1   0.78 (  0.11)\tAcc@5   1.17 (  0.60)
Test: [ 1/20]\tTime  2.904 ( 2.904)\tLoss 6.8018e+00 (6.8018e+00)\tAcc@1   0.39 (  0.39)\tAcc@5   2.34 (  2.34)
 *   Acc@1 0.512 Acc@5 2.344
Epoch: [1][  1/391]\tTime  2.758 ( 2.758)\tData  2.052 ( 2.052)\tLoss 6.5093e+00 (6.5093e+00)\t\
Acc@1   1.00 (  1.00)\tAcc@5   3.39 (  3.39)
"""
QUICKSTART = """\
Epoch 1
-------------------------------
loss: 2.303494  [   64/60000]
loss: 2.294637  [ 6464/60000]
Test Error:
 Accuracy: 44.7%, Avg loss: 2.153298

Epoch 2
-------------------------------
loss: 2.170284  [   64/60000]
"""
TRANSFER = """\
Epoch 0/24
----------
train Loss: 0.4761 Acc: 0.7541
val Loss: 0.2810 Acc: 0.8824

Epoch 1/24
----------
train Loss: 0.5358 Acc: 0.7746
val Loss: 0.6275 Acc: 0.7647

Training complete in 0m 36s
Best val Acc: 0.941176
"""
CIFAR = "[1,  2000] loss: 2.173\n[1,  4000] loss: 1.850\n[2,  2000] loss: 1.401\nFinished Training\n"
STEPS_OF_EPOCHS = """\
Epoch [1/2], Step [100/600], Loss: 0.3451
Epoch [1/2], Step [600/600], Loss: 0.2101
Epoch [2/2], Step [100/600], Loss: 0.1951
Epoch [2/2], Step [600/600], Loss: 0.1012
Accuracy of the network on the 10000 test images: 97.42 %
"""
LANGUAGE_MODEL = """\
| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.34 | loss  7.63 | ppl  2059.23
-----------------------------------------------------------------------------------------
| end of epoch   1 | time: 38.48s | valid loss  5.52 | valid ppl   249.12
-----------------------------------------------------------------------------------------
| epoch   2 |   200/ 2983 batches | lr 20.00 | ms/batch 12.01 | loss  5.53 | ppl   252.13
"""
DETECTRON = (
    "\x1b[32m[01/02 10:11:12 d2.utils.events]: \x1b[0m eta: 0:10:00  iter: 19  total_loss: 0.5123  loss_cls: 0.31  "
    "time: 0.51  data_time: 0.01  lr: 0.00025  max_mem: 2000M\n"
)
MMENGINE = (
    "01/02 10:11:12 - mmengine - INFO - Epoch(train)  [1][ 50/118]  lr: 1.0000e-02  eta: 0:10:00  time: 0.5012  "
    "data_time: 0.1012  memory: 1000  loss: 0.5012  loss_cls: 0.3012\n"
    "01/02 10:12:12 - mmengine - INFO - Epoch(val)  [1][10/10]    acc/top1: 0.4300  data_time: 0.1  time: 0.2\n"
)
ACCELERATE = (
    "epoch 0: {'accuracy': 0.6838235294117647, 'f1': 0.8122270742358079}\n"
    "10/02/2026 10:11:12 - INFO - __main__ - epoch 1: {'accuracy': 0.75, 'f1': 0.83}\n"
)
TRAINER_WITHOUT_BARS = """\
{'loss': 0.6912, 'grad_norm': 3.21, 'learning_rate': 4.9e-05, 'epoch': 0.02}
{'loss': '0.6512', 'grad_norm': 'nan', 'learning_rate': '4.8e-05', 'epoch': '0.04'}
{'eval_loss': 0.6, 'eval_accuracy': 0.71, 'eval_runtime': 1.2, 'eval_samples_per_second': 340.1, \
'eval_steps_per_second': 42.5, 'epoch': 1.0}
{'train_runtime': 12.3, 'train_samples_per_second': 300.2, 'train_steps_per_second': 37.5, 'train_loss': 0.55, \
'epoch': 3.0}
"""
LIGHTNING = (
    "Sanity Checking: |          | 0/? [00:00<?, ?it/s]"
    "\rSanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 99.5it/s]"
    "\r                                                                           "
    "\rTraining: |          | 0/? [00:00<?, ?it/s]"
    "\rEpoch 0:   0%|          | 0/4 [00:00<?, ?it/s]"
    "\rEpoch 0:  25%|██▌       | 1/4 [00:00<00:00, 10.19it/s, v_num=0, train_loss=2.310]"
    "\rEpoch 0:  50%|█████     | 2/4 [00:00<00:00, 15.61it/s, v_num=0, train_loss=2.200]"
    "\rEpoch 0: 100%|██████████| 4/4 [00:00<00:00, 20.12it/s, v_num=0, train_loss=2.000]"
    "\n\rValidation: |          | 0/? [00:00<?, ?it/s]\x1b[A"
    "\n\rValidation DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 180.2it/s]\x1b[A"
    "\n\rValidation DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 190.2it/s]\x1b[A"
    "\n\r                                                                       \x1b[A"
    "\rEpoch 0: 100%|██████████| 4/4 [00:00<00:00, 18.12it/s, v_num=0, train_loss=2.000, val_loss=1.900]"
    "\rEpoch 0: 100%|██████████| 4/4 [00:00<00:00, 18.01it/s, v_num=0, train_loss=2.000, val_loss=1.900]"
    "\rEpoch 0:   0%|          | 0/4 [00:00<?, ?it/s, v_num=0, train_loss=2.000, val_loss=1.900]        "
    "\rEpoch 1:   0%|          | 0/4 [00:00<?, ?it/s, v_num=0, train_loss=2.000, val_loss=1.900]"
    "\rEpoch 1:  25%|██▌       | 1/4 [00:00<00:00, 20.1it/s, v_num=0, train_loss=1.800, val_loss=1.900]"
    "\rEpoch 1: 100%|██████████| 4/4 [00:00<00:00, 20.1it/s, v_num=0, train_loss=1.500, val_loss=1.900]"
    "\rEpoch 1: 100%|██████████| 4/4 [00:00<00:00, 18.1it/s, v_num=0, train_loss=1.500, val_loss=1.400]\n"
)
KERAS_2 = (
    "Epoch 1/2\n\r 1/12 [=>............................] - ETA: 1s - loss: 0.9000 - accuracy: 0.1000" + "\b" * 60
    + "\r 7/12 [================>.............] - ETA: 0s - loss: 0.8000 - accuracy: 0.2000" + "\b" * 60
    + "\r12/12 [==============================] - 1s 9ms/step - loss: 0.7000 - accuracy: 0.3000 - val_loss: 0.6500 "
    "- val_accuracy: 0.4000\nEpoch 2/2\n"
    "12/12 - 1s - loss: 0.5000 - accuracy: 0.5000 - val_loss: 0.4500 - val_accuracy: 0.6000 - 1s/epoch - 90ms/step\n"
)
LOGS = {
    name.lower(): text
    for name, text in dict(globals()).items()
    if name.isupper() and isinstance(text, str) and len(text) > len(FULL)
}
"""All logs by name."""

TRAINER = """
    import sys, time
    from tqdm.auto import tqdm  # what transformers' ProgressCallback does, call for call

    bar = tqdm(total=12, dynamic_ncols=True)
    for step in range(1, 13):
        time.sleep(0.02)
        bar.update(1)
        if step % 4 == 0:
            bar.write(str({"loss": 2.0 / step, "grad_norm": 1.5, "learning_rate": 5e-05, "epoch": step / 6}))
        if step % 6 == 0:
            prediction = tqdm(total=3, leave=False, dynamic_ncols=True)
            for _ in range(3):
                time.sleep(0.05)
                prediction.update(1)
            bar.write(str({"eval_loss": 1.0 / step, "eval_runtime": 0.1, "epoch": step / 6}))
            prediction.close()
    bar.write(str({"train_runtime": 1.2, "train_loss": 0.7, "epoch": 2.0}))
    bar.close()
"""
TQDM = """
    import sys, time
    from tqdm import tqdm

    for epoch in range(2):
        bar = tqdm(range(10), desc=f"Epoch {epoch + 1}/2", mininterval=0)
        for index in bar:
            bar.set_postfix(loss=f"{3 - epoch - index / 10:.2f}", refresh=sys.argv[1] == "before")
"""
KERAS = """
    import sys
    import keras
    import numpy

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    inputs = numpy.random.rand(48, 4).astype("float32")
    targets = inputs.sum(axis=1)

    class Told(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            with open(sys.argv[2], "a") as out:
                out.write(" ".join(f"{name}={value:.4f}" for name, value in sorted(logs.items())) + "\\n")

    model.fit(inputs, targets, batch_size=8, epochs=3, verbose=int(sys.argv[1]), validation_data=(inputs, targets),
              callbacks=[Told()])
    model.evaluate(inputs, targets, batch_size=8, verbose=int(sys.argv[1]))
    model.predict(inputs, verbose=int(sys.argv[1]))
"""


def read(data: bytes | str) -> list[Reading]:
    """Return everything parsed from a log."""
    reader = LogReader()
    return [*reader.take(data.encode() if isinstance(data, str) else data), *reader.end()]


def series(readings: Sequence[Reading], name: str) -> list[tuple[int | None, float]]:
    """Return the (step, value) pairs of one metric."""
    return [(reading.step, reading.values[name]) for reading in readings if name in reading.values]


def progress(readings: Sequence[Reading]) -> list[tuple[float, float | None, str]]:
    """Return (done, total, unit) at each change."""
    found = [(reading.done, reading.total, reading.unit) for reading in readings if reading.done is not None]
    return [each for at, each in enumerate(found) if at == 0 or each != found[at - 1]]


def printed_by(source: str, *arguments: str, folder: Path) -> bytes:
    """Return what a program prints to stdout and stderr, as in a run's log."""
    script, log = folder / "script.py", folder / "printed.txt"
    script.write_text(textwrap.dedent(source))
    with log.open("wb") as out:
        subprocess.run(
            [sys.executable, "-u", script, *arguments], stdout=out, stderr=subprocess.STDOUT, check=True, cwd=folder
        )
    return log.read_bytes()
