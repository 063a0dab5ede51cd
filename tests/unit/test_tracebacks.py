"""The exception in what a Python program printed: its name and first sentence, however long its message is."""

import pytest

from core.diagnosis.program_output import TRACEBACK, as_printed, exception_lines, last_traceback, raised_in

FRAME = '  File "/home/u/train.py", line 3, in <module>\n    fit()\n    ^^^^^\n'
TORCHVISION = """RuntimeError: Error downloading train-images-idx3-ubyte.gz:
Tried https://ossci-datasets.s3.amazonaws.com/mnist/, got:
<urlopen error [Errno -2] Name or service not known>
"""
KERAS = """ValueError: Exception encountered when calling Sequential.call().

\x1b[1mInput 0 of layer 'dense' is incompatible\x1b[0m

Arguments received by Sequential.call():
  • inputs=tf.Tensor(shape=(None, 5), dtype=float32)
"""
GRAPH = """tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node loss defined at (most recent call last):
  File "/home/u/train.py", line 3, in <module>

  File "/site-packages/keras/src/trainer.py", line 2359, in fit

Received a label value of 7 which is outside the valid range of [0, 2).
\t [[{{node loss}}]] [Op:__inference_222]
"""
IN_USER_CODE = """ValueError: in user code:

    File "/home/u/train.py", line 31, in f  *
        return x + y

    ValueError: Dimensions must be equal, but are 3 and 5.
"""
TORCH_LOAD = """_pickle.UnpicklingError: Weights only load failed. There are two ways, \x1b[1mwith care\x1b[0m.
\t(1) Set weights_only to False.

Check the documentation of torch.load.
"""
STATE = """RuntimeError: Error(s) in loading state_dict for Net:
\tMissing key(s) in state_dict: "weight".
\tUnexpected key(s) in state_dict: "w".
"""
OF_LOADER = f"""ValueError: Caught ValueError in DataLoader worker process 0.
Original {TRACEBACK}
  File "/home/u/train.py", line 8, in __getitem__
    raise ValueError("bad item")
ValueError: bad item
"""
RICH = """╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /home/u/train.py:3 in <module>                                               │
│                                                                              │
│ ❱ 3 fit()                                                                    │
╰──────────────────────────────────────────────────────────────────────────────╯
RuntimeError: no data
"""
GROUP = f"""  + Exception Group {TRACEBACK}
  |   File "/home/u/train.py", line 3, in <module>
  |     raise ExceptionGroup("two failed", [ValueError("a"), TypeError("b")])
  | ExceptionGroup: two failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------
"""


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        (TORCHVISION, ("RuntimeError: Error downloading train-images-idx3-ubyte.gz: Tried "
                      "https://ossci-datasets.s3.amazonaws.com/mnist/, got: "
                      "<urlopen error [Errno -2] Name or service not known>")),
        (KERAS, "ValueError: Input 0 of layer 'dense' is incompatible"),
        (GRAPH, ("tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error: Received a "
                 "label value of 7 which is outside the valid range of [0, 2).")),
        (IN_USER_CODE, "ValueError: Dimensions must be equal, but are 3 and 5."),
        (TORCH_LOAD, "_pickle.UnpicklingError: Weights only load failed. There are two ways, with care."),
        (STATE, 'RuntimeError: Error(s) in loading state_dict for Net: Missing key(s) in state_dict: "weight".'),
        (OF_LOADER, "ValueError: bad item"),
        ("AssertionError\n", "AssertionError"),
        ((f"KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACEBACK}\n"
          f"{FRAME}OSError: no such dataset\nTry another.\n"), "OSError: no such dataset"),
        ("ValueError: bad\n[rank0]:[W1123 ProcessGroup.cpp:1] destroy_process_group() was not called\n",
         "ValueError: bad"),
        # other forms become Python's own
        (RICH, "RuntimeError: no data"),
        (GROUP, "ExceptionGroup: two failed (2 sub-exceptions)"),
    ],
)
def test_exception_is_named_with_its_first_sentence(printed: str, sentence: str) -> None:
    is_plain = printed not in {RICH, GROUP}
    trace = last_traceback(as_printed(f"epoch 1\n{TRACEBACK}\n{FRAME}{printed}" if is_plain else f"epoch 1\n{printed}"))
    assert trace is not None
    raised = raised_in(trace)
    assert raised is not None
    assert (raised.sentence, raised.kind) == (sentence, raised.name.rpartition(".")[2])
    assert "/home/u/train.py" in trace
    assert is_plain or trace.startswith(f'{TRACEBACK}\n  File "/home/u/train.py", line 3, in <module>\n')
    lines, first = exception_lines(trace)
    assert lines[first].startswith(f"{raised.name}")


def test_traceback_that_the_program_has_handled_is_not_its_end() -> None:
    handled = f"{TRACEBACK}\n{FRAME}ValueError: one sample is broken\n"
    went_on = "".join(f"epoch {number}\n" for number in range(200))
    assert last_traceback(handled) is not None
    assert last_traceback(handled + went_on) is None
    assert last_traceback(handled + "usage: train.py\n" * 9, exit_code=2) is None
    assert last_traceback(f"{TRACEBACK}\n{FRAME}") is None
    assert last_traceback("loss 1\n") is None
