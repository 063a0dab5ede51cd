"""LogReader: complete logs give the right values at the right steps, without duplicates, and the progress."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from core.metrics.reading import IN_EPOCH
from core.metrics.text.log import LogReader
from tests.support import printed
from tests.support.printed import printed_by, progress, read, series


def test_nanogpt_log() -> None:
    readings = read(printed.NANOGPT)
    assert series(readings, "loss") == [(0, 4.2874), (0, 4.2654), (10, 3.2362), (250, 2.0315)]
    assert series(readings, "val_loss") == [(0, 4.2823), (250, 2.0585)]
    assert {name for reading in readings for name in reading.values} == {"loss", "val_loss"}


def test_pytorch_mnist_example() -> None:
    readings = read(printed.MNIST)
    assert series(readings, "loss") == [(None, 2.28255), (None, 1.384441), (None, 0.037512)]
    assert series(readings, "val_loss") == [(None, 0.0488)]
    assert series(readings, "val_accuracy") == [(None, 0.9839)]
    assert progress(readings) == [(0, 60000, IN_EPOCH), (640, 60000, IN_EPOCH), (0, 60000, IN_EPOCH)]
    assert [reading.epoch for reading in readings if "loss" in reading.values] == [1, 1, 2]


def test_pytorch_imagenet_example() -> None:
    readings = read(printed.IMAGENET)
    assert series(readings, "loss") == [(1, 7.1093), (11, 7.0421), (392, 6.5093)]
    assert series(readings, "acc@1") == [(1, 0.0), (11, 0.78), (392, 1.0)]
    assert series(readings, "val_acc@1") == [(None, 0.512)]  # the end of the pass, and none of its batches
    assert progress(readings) == [(1, 391, IN_EPOCH), (11, 391, IN_EPOCH), (1, 391, IN_EPOCH)]


def test_pytorch_quickstart_heading_marks_validation_values() -> None:
    readings = read(printed.QUICKSTART)
    assert series(readings, "loss") == [(None, 2.303494), (None, 2.294637), (None, 2.170284)]
    assert series(readings, "val_loss") == [(None, 2.153298)]
    assert series(readings, "val_accuracy") == [(None, pytest.approx(0.447))]
    assert [reading.epoch for reading in readings if "loss" in reading.values] == [1, 1, 2]


def test_pytorch_transfer_learning_tutorial() -> None:
    readings = read(printed.TRANSFER)
    assert series(readings, "loss") == [(None, 0.4761), (None, 0.5358)]
    assert series(readings, "accuracy") == [(None, 0.7541), (None, 0.7746)]
    assert series(readings, "val_loss") == [(None, 0.281), (None, 0.6275)]
    assert series(readings, "val_accuracy") == [(None, 0.8824), (None, 0.7647)]
    assert progress(readings) == [(0, 24, "epochs"), (1, 24, "epochs")]


def test_pytorch_cifar_tutorial_has_epochs_of_unknown_length() -> None:
    readings = read(printed.CIFAR)
    assert series(readings, "loss") == [(None, 2.173), (None, 1.85), (None, 1.401)]
    assert [reading.epoch for reading in readings] == [1, 1, 2]


def test_steps_within_epochs_are_numbered_across_epochs() -> None:
    readings = read(printed.STEPS_OF_EPOCHS)
    assert series(readings, "loss") == [(100, 0.3451), (600, 0.2101), (700, 0.1951), (1200, 0.1012)]
    assert progress(readings) == [(at, 1200, "steps") for at in (100, 600, 700, 1200)]


def test_pytorch_language_model_example() -> None:
    readings = read(printed.LANGUAGE_MODEL)
    assert series(readings, "loss") == [(200, 7.63), (3183, 5.53)]
    assert series(readings, "perplexity") == [(200, 2059.23), (3183, 252.13)]
    assert series(readings, "learning_rate") == [(200, 20.0), (3183, 20.0)]
    assert series(readings, "val_loss") == [(None, 5.52)]
    assert series(readings, "val_perplexity") == [(None, 249.12)]


def test_detectron_and_mmengine_logs() -> None:
    (reading,) = read(printed.DETECTRON)
    assert (reading.step, reading.values) == (19, {"total_loss": 0.5123, "loss_cls": 0.31, "learning_rate": 0.00025})
    train, validation = read(printed.MMENGINE)
    assert train.values == {"learning_rate": 0.01, "loss": 0.5012, "loss_cls": 0.3012}
    assert (train.step, train.epoch, train.done, train.total) == (50, 1, 50, 118)
    assert (validation.values, validation.epoch) == ({"val_acc_top1": 0.43}, 1)


def test_accelerate_prints_dictionaries_after_the_epoch() -> None:
    readings = read(printed.ACCELERATE)
    assert [(reading.epoch, reading.values["accuracy"]) for reading in readings] == [(0, 0.6838235294117647), (1, 0.75)]
    assert [reading.values["f1"] for reading in readings] == [0.8122270742358079, 0.83]


def test_summary_of_huggingface_trainer_is_not_a_loss() -> None:
    readings = read(printed.TRAINER_WITHOUT_BARS)
    assert series(readings, "loss") == [(None, 0.6912), (None, 0.6512)]
    assert series(readings, "val_loss") == [(None, 0.6)]
    assert [reading.epoch for reading in readings if reading.values] == [0.02, 0.04, 1.0]
    assert repr(readings[1].values["grad_norm"]) == "nan"


def test_dictionaries_of_huggingface_trainer_get_steps_from_its_progress_bar(tmp_path: Path) -> None:
    readings = read(printed_by(printed.TRAINER, folder=tmp_path))
    assert series(readings, "loss") == [(step, 2.0 / step) for step in (4, 8, 12)]
    assert series(readings, "val_loss") == [(6, 1 / 6), (12, 1 / 12)]
    reported = progress(readings)
    assert reported == sorted(reported)
    assert (reported[0], reported[-1]) == ((0, 12, "steps"), (12, 12, "steps"))


def test_dictionary_before_any_progress_bar_is_read_at_once() -> None:
    reader = LogReader()
    (reading,) = reader.take(b"{'accuracy': 0.68, 'f1': 0.81}\n")
    assert (reading.step, reading.values) == (None, {"accuracy": 0.68, "f1": 0.81})


def test_lightning_log() -> None:
    readings = read(printed.LIGHTNING)
    assert series(readings, "loss") == [(1, 2.31), (2, 2.2), (4, 2.0), (5, 1.8), (8, 1.5)]
    assert series(readings, "val_loss") == [(4, 1.9), (8, 1.4)]
    assert {name for reading in readings for name in reading.values} == {"loss", "val_loss"}
    assert progress(readings) == [(at, 4, IN_EPOCH) for at in (0, 1, 2, 4, 0, 1, 4)]


def test_keras_2_log() -> None:
    readings = read(printed.KERAS_2)
    assert series(readings, "loss") == [(1, 0.9), (7, 0.8), (12, 0.7), (24, 0.5)]
    assert series(readings, "accuracy") == [(1, 0.1), (7, 0.2), (12, 0.3), (24, 0.5)]
    assert series(readings, "val_loss") == [(12, 0.65), (24, 0.45)]
    assert progress(readings)[-1] == (24, 24, "steps")


@pytest.mark.e2e
@pytest.mark.parametrize("verbose", ["1", "2"])
def test_keras_fit_log(verbose: str, written_by_keras: Path) -> None:
    readings = read((written_by_keras / f"printed-{verbose}.txt").read_bytes())
    lines = (written_by_keras / f"reported-{verbose}.txt").read_text().splitlines()
    reported = [dict(pair.split("=") for pair in line.split()) for line in lines]
    for name in ("loss", "mae"):
        values = series(readings, name)
        ends = dict(values)
        assert [ends[step] for step in (6, 12, 18)] == [float(epoch[name]) for epoch in reported]
        assert len(ends) == len(values), "a step has two values"
        assert set(ends) <= set(range(1, 19))
        # `evaluate` prints the last line; it repeats the validation of the last epoch.
        expected = [(step, float(epoch[f"val_{name}"])) for step, epoch in zip((6, 12, 18), reported, strict=True)]
        assert series(readings, f"val_{name}") == [*expected, expected[-1]]
    done = [reading.done / reading.total for reading in readings if reading.done is not None and reading.total]
    assert done == sorted(done)
    assert done[-1] == 1


@pytest.mark.parametrize("when", ["before", "with"])
def test_tqdm_values_set_before_or_with_the_step(when: str, tmp_path: Path) -> None:
    readings = read(printed_by(printed.TQDM, when, folder=tmp_path))
    expected = [(epoch * 10 + at + 1, 3 - epoch - at / 10) for epoch in range(2) for at in range(10)]
    assert series(readings, "loss") == [(step, pytest.approx(value)) for step, value in expected]
    reported = progress(readings)
    assert reported == sorted(reported)
    assert (reported[0], reported[-1]) == ((0, 20, "steps"), (20, 20, "steps"))


def test_other_progress_bars_are_not_training_progress() -> None:
    readings = read(
        f"model.safetensors: 100%|{printed.FULL}| 1.2G/1.2G [00:10<00:00, 120MB/s]\n"
        f"Map: 100%|{printed.FULL}| 1000/1000 [00:00<00:00, 5000.12 examples/s]\n"
        f"100%|{printed.FULL}| 9912422/9912422 [00:01<00:00, 9012345.12it/s]\n"
        "  0%|          | 0/4 [00:00<?, ?it/s]\r 50%|#####     | 2/4 [00:00<00:00, 9.8it/s, loss=0.5]\n"
    )
    assert series(readings, "loss") == [(2, 0.5)]
    assert progress(readings)[-1] == (2, 4, "steps")


def test_bar_with_another_name_is_not_training_progress() -> None:
    named = f"Encoding images:  50%|{printed.FULL}| 500/1000 [00:01<00:01, 500.00it/s]\n"
    assert progress(read(named)) == []
    assert progress(read(named.replace("Encoding images", "Epoch 1"))) == [(500, 1000, IN_EPOCH)]
    log = "Epoch [1/2], Step [100/200], Loss: 0.5\n 50%|#####     | 5/10 [00:00<00:00, 9.8it/s]\n"
    assert progress(read(log)) == [(100, 400, "steps")]
    assert series(read(log + "Epoch [1/2], Step [200/200], Loss: 0.4\n"), "loss") == [(100, 0.5), (200, 0.4)]


def test_started_epoch_is_not_done_and_finished_epoch_is() -> None:
    assert progress(read("Epoch 1/4\nEpoch 2/4\n")) == [(0, 4, "epochs"), (1, 4, "epochs")]
    assert progress(read("Epoch 1/4 done\nEpoch 2/4: loss 0.5\n")) == [(1, 4, "epochs"), (2, 4, "epochs")]


def test_second_fit_continues_the_step_count() -> None:
    fit = "Epoch 1/1\n4/4 - 1s - 3ms/step - loss: 0.9\n"
    assert series(read(fit * 3), "loss") == [(4, 0.9), (8, 0.9), (12, 0.9)]


def test_steps_that_restart_in_each_epoch_are_numbered_through() -> None:
    log = "".join(f"epoch {epoch} step {step} loss {epoch}.{step}\n" for epoch in (0, 1) for step in range(3))
    assert series(read(log), "loss") == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 1.0), (4, 1.1), (5, 1.2)]


def test_steps_counted_over_all_epochs_are_not_renumbered() -> None:
    log = "Epoch 1/2\nstep 50/200 loss 0.9\nstep 90/200 loss 0.8\nEpoch 2/2\nstep 150/200 loss 0.7\n"
    readings = read(log)
    assert series(readings, "loss") == [(50, 0.9), (90, 0.8), (150, 0.7)]


@pytest.mark.parametrize("name", printed.LOGS)
def test_cut_positions_do_not_change_the_readings(name: str) -> None:
    data = printed.LOGS[name].replace("\n", "\r\n" if len(name) % 2 else "\n").encode()
    whole, rng = read(data), random.Random(name)
    for pieces in (1, 2, 5, 20, len(data)):
        reader, cuts = LogReader(), sorted(rng.choices(range(len(data) + 1), k=pieces))
        given = [
            reading
            for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)
            for reading in reader.take(data[begin:end])
        ]
        assert repr([*given, *reader.end()]) == repr(whole)


def test_train_estimate_does_not_duplicate_the_loss_of_the_same_step() -> None:
    log = "".join(
        f"step {step}: train loss {step + 0.5}, val loss {step + 0.25}\n" * (step % 50 == 0)
        + f"iter {step}: loss {step}.0, time 12.00ms, mfu 1.0%\n"
        for step in range(0, 151, 10)
    )
    readings = read(log.encode())
    # The first estimate is reported before the line of the same step is read.
    assert dict(reversed(series(readings, "loss"))) == {0: 0.5, **{step: float(step) for step in range(10, 151, 10)}}
    assert series(readings, "val_loss") == [(step, step + 0.25) for step in (0, 50, 100, 150)]
    alone = "".join(f"step {step}: train loss 2.5, val loss 2.7\n" for step in (0, 50, 100))
    assert series(read(alone.encode()), "loss") == [(0, 2.5), (50, 2.5), (100, 2.5)]
