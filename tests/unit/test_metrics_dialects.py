"""Single lines: metrics are recognised, and similar text is not."""

import math
from typing import Any

import pytest

from core.metrics.reading import Reading
from core.metrics.text.log import LogReader
from core.metrics.text.statements import statement_of
from tests.support.recorded_logs import record

READ: dict[str, dict[str, float]] = {
    "loss: 0.123": {"loss": 0.123},
    "Loss 6.9e+00 (7.0)": {"loss": 6.9},
    "train_loss=0.3": {"loss": 0.3},
    "loss = -1.5e-3; lr = 1e-4": {"loss": -0.0015, "learning_rate": 1e-4},
    "step 100: train loss 2.1, val loss 2.3": {"loss": 2.1, "val_loss": 2.3},
    "2026-01-02 10:11:12,345 - INFO - step=10 loss=0.5": {"loss": 0.5},
    "12:30:01 loss=0.5 time=00:12:31": {"loss": 0.5},
    "[rank0]: INFO:root:loss=0.5": {"loss": 0.5},
    "I0102 10:11:12.345678 12345 train.py:123] loss=0.5": {"loss": 0.5},
    "192.168.0.1:29500 | loss: 0.5 | torch 2.1.0": {"loss": 0.5},
    "Test set: Average loss: 0.0288, Accuracy: 9903/10000 (99%)": {"val_loss": 0.0288, "val_accuracy": 0.9903},
    "Epoch: 3 | Train Loss: 0.5 | Val Loss: 0.4 | Val Acc: 75%": {"loss": 0.5, "val_loss": 0.4, "val_accuracy": 0.75},
    "val_loss=0.4 loss=0.3 acc=0.8": {"val_loss": 0.4, "loss": 0.3, "accuracy": 0.8},
    "Validation: loss 0.4 acc 0.5": {"val_loss": 0.4, "val_accuracy": 0.5},
    "loss: tensor(2.3026, grad_fn=<NllLossBackward0>)": {"loss": 2.3026},
    "loss 4.2 ppl 66.7 tokens/s 1200 gnorm: 1.5": {"loss": 4.2, "perplexity": 66.7, "gnorm": 1.5},
    "[Epoch 3/100] [Batch 10/391] [D loss: 0.5] [G loss: 0.7]": {"d_loss": 0.5, "g_loss": 0.7},
    "val_mIoU: 0.71 temperature: 0.9": {"val_miou": 0.71, "temperature": 0.9},
    "learning rate: 1e-4": {"learning_rate": 1e-4},
    "reward: 12.5, Episode: 3, episode_len: 200": {"reward": 12.5, "episode_len": 200.0},
    "error: 0.25": {"error": 0.25},
    '{"step": 1, "loss": 0.5, "ok": true, "note": "none"}': {"loss": 0.5},
    "{'loss': np.float64(0.5), 'epoch': 1}": {"loss": 0.5},
    "45/375 ━━━━━━━━━━━━━━━━━━━━ 1s 3ms/step - accuracy: 0.81 - loss: 0.62": {"accuracy": 0.81, "loss": 0.62},
    "375/375 - 1s - 3ms/step - accuracy: 0.9 - loss: 0.3": {"accuracy": 0.9, "loss": 0.3},
    "45/Unknown 1s 3ms/step - loss: 0.3": {"loss": 0.3},
    "340it [00:10, 33.0it/s, loss=0.35]": {"loss": 0.35},
    "loss 0.351:  34%|███▍      | 340/1000 [00:10<00:20, 33.0it/s]": {"loss": 0.351},
    " 50%|█████     | 5/10 [00:01<00:01, 4.9it/s, acc=81.5%, loss=nan]": {"accuracy": 0.815, "loss": float("nan")},
}
NOT_READ = [
    "the loss function is 3 times slower",
    "Saved model_loss=0.3.ckpt",
    "saving to /tmp/epoch=3-val_loss=0.25.ckpt",
    "wrote runs/loss=0.3/model",
    "packet loss 3 of 5",
    "Epoch 00001: val_loss improved from inf to 0.30312, saving model to x.h5",
    "torch 2.1.0 at 10.0.0.1: loss module v1.2",
    "Namespace(batch_size=64, lr=0.01, epochs=14)",
    "config: lr=0.01 loss=mse",
    "wandb:     loss 0.4",
    "Error: 404 not found",
    "error 12.5 of the values",
    "ValueError: loss: 3",
    "lossless=1",
    "glossary: 3",
    "iter 12 took 3 s",
    "batch_size: 32 seed: 1 workers: 4",
    "{'lr': 0.001, 'batch_size': 64}",
    "{'a': 1, loss}",
    "{" * 2000 + '"loss": 1' + "}" * 2000,
]
PLACES: dict[str, dict[str, Any]] = {
    "iter 10: loss 4.2, time 12ms": {"step": 10},
    "Step 10/100 loss 0.5": {"step": 10, "done": 10, "total": 100, "unit": "steps"},
    "global_step=7 epoch=2 loss=0.5": {"step": 7, "epoch": 2},
    "Epoch 3/10": {"epoch": 3, "done": 3, "total": 10, "unit": "epochs"},
    "Epoch 3 of 10 - loss: 0.5": {"epoch": 3, "done": 3, "total": 10, "unit": "epochs"},
    "===== Epoch 3/10 =====": {"epoch": 3, "done": 3, "total": 10, "unit": "epochs"},
    "Epoch: [3][ 10/391]  Loss 6.9e+00 (7.0e+00)": {"epoch": 3, "done": 10, "total": 391, "unit": "steps"},
    "Train Epoch: 1 [640/60000 (1%)]  Loss: 2.28": {"epoch": 1, "done": 640, "total": 60000},
    "[1,  2000] loss: 2.173": {"epoch": 1},
    "loss: 2.303494  [   64/60000]": {"done": 64, "total": 60000},
    "Epoch 0:  34%|███▍ | 340/1000 [00:10<00:20, 33.0it/s, loss=0.35, v_num=0]": {
        "epoch": 0, "done": 340, "total": 1000, "unit": "steps"},
    " 50%|#####     | 1.50k/3.00k [00:00<00:00, 12.41it/s, loss=0.5]": {"done": 1500, "total": 3000},
    "Epochs:  30%|###| 3/10 [00:03<00:07, 1.0it/s, loss=0.3]": {"epoch": 3, "done": 3, "total": 10, "unit": "epochs"},
    " 45/375 ━━━━━━━ 1s 3ms/step - loss: 0.62": {"done": 45, "total": 375, "unit": "steps"},
    '{"step": 3, "epoch": 0.5, "loss": 1, "time": 1790000000.5}': {"step": 3, "epoch": 0.5, "time": 1790000000.5},
    "{'loss': 0.52, 'learning_rate': 4e-05, 'epoch': 0.5}": {"epoch": 0.5},
}
CURVES: dict[str, dict[str, list[tuple[int, float]]]] = {
    # numbers of one width in a sentence
    "Up to here, the mean loss is 1234.50.\nUp to here, the mean loss is    5.90.\n": {"loss": [(1, 1234.5), (2, 5.9)]},
    # a name that ends as a type of C
    "Step [1/4], Joint Loss: 2.5, Reconst Loss: 0.5\nint loss = 3.5; const double error = 0.25;": {
        "joint_loss": [(1, 2.5)], "reconst_loss": [(1, 0.5)]},
    # a count of what is in a test set is no heading of a test
    "step 1 | loss 0.5\n2 names that are in test:\n3 that are new:\nann\nstep 2 | loss 0.4\ntest:\nloss 0.3": {
        "loss": [(1, 0.5), (2, 0.4)], "val_loss": [(2, 0.3)]},
    # numbers
    "step 1: loss: 6,25 acc: 0,55": {"loss": [(1, 6.25)], "accuracy": [(1, 0.55)]},
    "loss: 1,234": {},  # thousands, or a decimal comma
    "loss: 1,234, acc: 0,550": {"loss": [(1, 1.234)], "accuracy": [(1, 0.55)]},
    "reward: 1,234.5 perplexity: 75,357": {"reward": [(1, 1234.5)], "perplexity": [(1, 75357)]},
    "loss=0.5,0.4": {},
    "val loss 0.5 -> 0.4": {"val_loss": [(1, 0.4)]},
    "step 1.5K | loss 0.5": {"loss": [(1500, 0.5)]},
    "iter: 12,000 loss: 0.5": {"loss": [(12000, 0.5)]},
    "epoch   loss   acc\n1   0,55   0,61\n2   0,45   0,71": {
        "loss": [(1, 0.55), (2, 0.45)], "accuracy": [(1, 0.61), (2, 0.71)]},
    "| step | loss |\n|------|------|\n| 1K | 0.5 |\n| 2K | 0.4 |": {"loss": [(1000, 0.5), (2000, 0.4)]},
    "loss: <tf.Tensor: shape=(), dtype=float32, numpy=0.3>": {"loss": [(1, 0.3)]},
    "loss = tf.Tensor([0.2], shape=(1,), dtype=float32)": {"loss": [(1, 0.2)]},
    "loss: Array(0.4, dtype=float32)": {"loss": [(1, 0.4)]},
    "accuracy: 87.81%\naccuracy: 87.9%\naccuracy: 88%": {"accuracy": [(1, 0.8781), (2, 0.879), (3, 0.88)]},
    "Total params: 3M\nTrainable params: 2M\nEpoch 3 loss=0.5 vram=23M": {"loss": [(3, 0.5)]},
    "Acc: 28.00% (28/100)": {"accuracy": [(1, 0.28)]},
    # beside a bar
    "  7%|          | 58/745 [00:01<00:02, 19.90it/s, l_pix=0.57, loss (batch)=0.5]": {
        "l_pix": [(58, 0.57)], "loss": [(58, 0.5)]},
    "Epoch 1/1\n3/3 ━━━━━━━━━━━━━━━━━━━━ 1s 3ms/step - loss: 2.9\na callback\n"  # it is drawn again, and no validation
    "3/3 ━━━━━━━━━━━━━━━━━━━━ 1s 3ms/step - loss: 2.9": {"loss": [(3, 2.9)]},
    # names
    '{"mode": "val", "step": 3, "loss": 0.5, "bbox": {"mAP": 0.25}}': {
        "val_loss": [(3, 0.5)], "val_bbox_map": [(3, 0.25)]},
    "loss (train): 0.5, loss (val): 0.4": {"loss": [(1, 0.5)], "val_loss": [(1, 0.4)]},
    "Train Class Accuracy: 0.5\nTrain Instance Accuracy: 0.6\nTrain Class Accuracy: 0.7": {
        "accuracy": [(1, 0.5), (2, 0.7)], "instance_accuracy": [(1, 0.6)]},
    "Best Instance Accuracy: 0.6, Class Accuracy: 0.5": {
        "best_accuracy": [(1, 0.6)], "best_class_accuracy": [(1, 0.5)]},
    "loss: 0.4\nTexture Loss: 3.5": {"loss": [(1, 0.4)], "texture_loss": [(1, 3.5)]},
    "Params:\n  label_loss: 0.5\n  margin_loss: 1.5\nEpoch 1 loss 0.4": {"loss": [(1, 0.4)]},
    "train_loss_ema_samples: 50000": {},
    "Train: 89%  Valid: 100%  loss.train: 0.5  accuracy.valid: 0.9": {"loss": [(1, 0.5)], "val_accuracy": [(1, 0.9)]},
    # languages
    "Époque 1/3 - perte : 0,52 - perte de validation : 0,6": {"loss": [(1, 0.52)], "val_loss": [(1, 0.6)]},
    "轮次   训练损失   验证损失\n1   0.55   0.61\n2   0.45   0.71": {
        "loss": [(1, 0.55), (2, 0.45)], "val_loss": [(1, 0.61), (2, 0.71)]},
    "第2轮 [验证] 损失: 0.3, 准确率: 0.9": {"val_loss": [(2, 0.3)], "val_accuracy": [(2, 0.9)]},
}
"""Texts, and the curves that are recorded of them."""
PLACE_FIELDS = ("step", "epoch", "done", "total", "unit", "time")


@pytest.mark.parametrize("line", READ)
def test_metrics_in_a_line_are_read(line: str) -> None:
    found = statement_of(line).reading
    assert found is not None
    assert repr(dict(sorted(found.values.items()))) == repr(dict(sorted(READ[line].items())))


@pytest.mark.parametrize("text", CURVES)
def test_text_becomes_these_curves(text: str) -> None:
    curves, _ = record([text.encode() + b"\n"])
    rounded = {name: [(step, round(value, 6)) for step, value in points] for name, points in curves.items()}
    assert rounded == CURVES[text]


@pytest.mark.parametrize("line", NOT_READ)
def test_line_without_metrics_is_not_read(line: str) -> None:
    assert statement_of(line).reading is None


@pytest.mark.parametrize("line", PLACES)
def test_step_epoch_and_progress_are_read(line: str) -> None:
    found = statement_of(line.strip()).reading
    assert found is not None
    fields = {name: value for name in PLACE_FIELDS if (value := getattr(found, name)) not in {None, ""}}
    assert fields == PLACES[line]


@pytest.mark.parametrize(
    ("log", "values"),
    [
        # a printed configuration is no measurement
        (b'{"lr": 0.0003, "epochs": 8}\n', []),
        (b"{'lr': 0.1, 'batch_size': 64, 'loss': 'mse', 'margin_loss': 0.5}\n", []),
        (b"{'epoch': 3, 'loss': 0.5, 'lr': 0.1}\n", [{"loss": 0.5, "learning_rate": 0.1}]),
        # a learning rate before the training is a setting
        (b"test_iou: 0.5\nlr: 0.01\nEpoch 1\nlr: 0.001\nloss: 0.5\n",
         [{"val_iou": 0.5}, {"learning_rate": 0.001}, {"loss": 0.5}]),
        # a record of the level warning is read, and a warning is not
        (b"07:22:11 - WARNING - train -   eval loss: 0.0333 ppl: 1.034\n",
         [{"val_loss": 0.0333, "val_perplexity": 1.034}]),
        (b"Warning: loss: 0.5 is low\n", []),
    ],
)
def test_settings_and_warnings_are_not_measurements(log: bytes, values: list[dict[str, float]]) -> None:
    assert [reading.values for reading in read(log) if reading.values] == values


def test_nan_loss_is_read_whatever_follows_it() -> None:
    for suffix in ("acc 11%", "acc 0.1", "", ", acc 0.1", "| acc 0.1", "(nan)"):
        (reading,) = read(f"step 9 loss nan {suffix}\n".encode())
        assert math.isnan(reading.values["loss"]), suffix


def read(log: bytes) -> list[Reading]:
    reader = LogReader()
    return [*reader.take(log), *reader.end()]
