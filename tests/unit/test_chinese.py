"""The Simplified Chinese catalogue: what runs store is recognised and shown whole, and so is the help."""

from __future__ import annotations

import re

import pytest
from babel.messages.pofile import read_po

from core import language
from core.cli.__main__ import main
from core.devices.cpu import cpu_devices
from core.devices.device import shown_name
from core.diagnosis.epoch_numbers import metric_title
from core.diagnosis.timeline import Timeline
from core.history.summary import setting_words
from core.language import tr, tr_plural, tr_stored
from core.text import as_sentence, join_names, join_phrases
from gui.viewmodels.run.run_messages import past_tense

FIELD = re.compile(r"\{\{|\}\}|\{(\w+)[^{}]*\}")
LETTERS = re.compile(r"[A-Za-z]{3}")


@pytest.fixture(autouse=True)
def chinese():
    language.use("zh_CN")
    yield
    language.use("en")


def filled(template: str) -> str:
    """Return a template with v1, v2, ... in its fields, equal fields alike."""
    names: list[str] = []

    def value(field: re.Match[str]) -> str:
        if field[1] and field[1] not in names:
            names.append(field[1])
        number = "7 " if field[1] == "count" else ""  # only what has a digit is a count
        return f"<{number}{field[1]}>" if field[1] else field[0][0]

    return FIELD.sub(value, template)


@pytest.mark.slow
def test_every_sentence_of_core_is_recognised_as_itself():
    """A template that fits the sentence of another would show half of it, or the wrong one."""
    path = language.FOLDER / "zh_CN" / "LC_MESSAGES" / "trainyard.po"
    with path.open("rb") as file:
        catalogue = read_po(file, locale="zh_CN")
    wrong, count = [], 0
    for message in catalogue:
        identifiers = [message.id] if isinstance(message.id, str) else [*message.id]
        (text, *_) = [message.string] if isinstance(message.string, str) else message.string
        if not any(file.startswith("core/") and "/cli/" not in file for file, _ in message.locations) or not text:
            continue
        for sentence in identifiers:
            if {*FIELD.findall(text)} - {*FIELD.findall(sentence)}:
                continue  # a singular without all fields of the plural
            if sentence.endswith(".") and LETTERS.search(FIELD.sub("", sentence)):
                count += 1
                if (shown := tr_stored(filled(sentence))) != filled(text):
                    wrong.append((sentence, shown))
    assert not wrong
    assert count > 400


STORED = {
    "GPU 2 is slowed down: 91 °C. It holds the others up. Check its cooling.":
        "GPU 2 已降频：91 °C。它拖慢了其他设备。请检查它的散热。",
    "The memory of GPU 0 came back: 0.5 GB were used before the run, 12.4 GB at most, 0.5 GB 2 s after its end.":
        "GPU 0 的显存已释放：运行之前使用 0.5 GB，最多使用 12.4 GB，结束 2 秒后使用 0.5 GB。",
    "GPU 1 is still held by this run: pid 71 python (2.0 GB). "
    "Look again in a moment; if it stays, end it by hand (kill -9).":
        "此运行仍占用 GPU 1：pid 71 python (2.0 GB)。请稍后再查看；如果它仍然存在，请手动结束（kill -9）。",
    "This run released its memory on GPU 3. Another process took 3.0 GB meanwhile: pid 5 ollama. "
    "Trainyard did not end it; end it yourself if it is not needed.":
        "此运行已释放它在 GPU 3 上的显存。其他进程在此期间占用了 3.0 GB：pid 5 ollama。"
        "Trainyard 没有结束这些进程；如果不需要，请自行结束。",
    "Worker 1 on gpu:1 was ended by SIGKILL, which this run did not send. "
    "The kernel ended a process for lack of memory meanwhile.":
        "工作进程 1（gpu:1）被 SIGKILL 结束，该信号不是此运行发送的。在此期间，内核因内存不足结束了一个进程。",
    "Worker 0 on GPU 4: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.":
        "工作进程 0（GPU 4）：OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "Device gpu:0 ran out of memory when allocating 2.00 GiB more. This run's peak on it was 22.1 of 24.0 GB. "
    "Use a smaller batch, gradient accumulation, bfloat16 or fsdp (on several devices).":
        "设备 gpu:0 内存不足，当时还要分配 2.00 GiB。此运行在其上的峰值为 22.1 GB，总量 24.0 GB。"
        "请使用更小的批次、梯度累积、bfloat16 或 fsdp（在多个设备上）。",
    "The loss became nan at step 214 (learning rate 0.5). "
    "Try a lower rate, warm-up or gradient clipping, and check the data for NaN.":
        "损失在第 214 步变为 nan（学习率 0.5）。请尝试更低的学习率、预热或梯度裁剪，并检查数据中是否有 NaN。",
    "train.py ended with exit code 1: ValueError: bad shape.": "train.py 以退出代码 1 结束：ValueError: bad shape。",
    "The run's supervisor (pid 12) exited unexpectedly; none of its processes is left. The log is empty.":
        "该运行的监管进程（pid 12）意外退出；它没有残留进程。日志为空。",
    "train ended with exit code 2. It printed nothing.": "train 以退出代码 2 结束。它没有任何输出。",
    "log has a curve of loss, too. Only the curve in stop is shown.": "log 中也有 loss 的曲线。只显示 stop 中的曲线。",
    "ValueError: the user's own words": "ValueError: the user's own words",
}  # fmt: skip


@pytest.mark.parametrize(("stored", "shown"), STORED.items())
def test_what_a_run_stored_is_shown_whole(stored, shown):
    assert tr_stored(stored) == shown
    assert tr_stored(shown) == shown, "a text that is translated already stays"


def test_names_phrases_and_counts_are_joined_as_in_chinese():
    assert join_names(["GPU 0", "GPU 1", "GPU 2"]) == "GPU 0、GPU 1 和 GPU 2"
    assert join_names(["a", "b"], "or") == "a 或 b"
    assert join_phrases(["一", "二"]) == "一，二"
    assert as_sentence("已停止") == "已停止。"
    assert language.join_sentences([tr("Stopped."), "", None, "In English.", "More."]) == "已停止。In English. More."
    assert [tr_plural("{count} process", "{count} processes", count) for count in (1, 2)] == ["1 个进程", "2 个进程"]


def test_losses_are_named_in_chinese_and_other_metrics_keep_their_names():
    titles = [metric_title(name) for name in ("loss", "val_loss", "val_top_5", "top_5")]
    assert titles == ["损失", "验证损失", "验证 top 5", "top 5"]


def test_the_account_of_a_run_is_chinese():
    timeline = Timeline(None, "PyTorch")
    timeline.fold(
        [
            {"kind": "state", "t": 1.0, "state": "starting"},
            {"kind": "state", "t": 2.0, "state": "running"},
            {"kind": "metrics", "t": 3.0, "first": 1, "values": {"val_loss": [0.5], "val_accuracy": [0.75]}},
            {"kind": "stop_step", "t": 4.0, "name": "SIGINT", "grace_s": 30.0},
            {"kind": "state", "t": 5.0, "state": "stopped"},
        ]
    )
    assert "第 1 步：验证损失 0.5，验证 accuracy 0.75" in [each.text for each in timeline.entries]
    assert "已向进程发送 SIGINT。它们有 30 秒时间。" in [each.text for each in timeline.entries]


def test_help_and_errors_of_the_command_line_are_chinese(capsys, monkeypatch):
    monkeypatch.setenv("LANGUAGE", "zh_CN")
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        main(["stop", "--help"])
    text = capsys.readouterr().out
    assert text.startswith("用法：trainyard stop")
    assert "显示此帮助信息并退出" in text
    assert not re.search("show this help|positional|options:", text)
    with pytest.raises(SystemExit):
        main(["run", "--epochs", "x"])
    assert capsys.readouterr().err == "trainyard: --epochs 的值是 'x'。请给出整数。见 trainyard run --help。\n"


def test_notices_of_a_run_that_is_over_are_told_as_past():
    written = "The process that reads measurements from the script's output has ended, so the curves are no longer "
    told = tr_stored(past_tense(f"{written}updated. The script continues, and its log is complete."))
    assert told == "从脚本输出中读取指标数据的进程已结束，因此曲线到此为止。脚本之后继续运行，日志是完整的。"
    written = "Training is done, but these processes did not exit and are being terminated: pid 7."
    assert tr_stored(past_tense(written)) == "训练已完成，但这些进程没有退出，已被终止：pid 7。"


def test_names_of_cpu_devices_are_chinese_where_they_are_shown() -> None:
    """The stored name is English, and names the same device in every language."""
    assert shown_name("Intel(R) Xeon(R) CPU @ 2.20GHz, 1 core") == "Intel(R) Xeon(R) CPU @ 2.20GHz，1 个核心"
    assert shown_name("aarch64, 12 cores") == "aarch64，12 个核心"
    assert setting_words("devices", "2 × aarch64, 4 cores + 1 × RTX 4090") == "2 × aarch64，4 个核心 + 1 × RTX 4090"
    for name in ("NVIDIA H100 80GB HBM3", "core", "a, cores", ""):
        assert shown_name(name) == name
    stored = cpu_devices()[0].name
    assert re.search(r", \d+ cores?$", stored)
    assert "core" not in shown_name(stored).rpartition("，")[2]
    language.use("en")
    assert shown_name(stored) == stored
