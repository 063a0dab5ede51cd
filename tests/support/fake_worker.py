"""The worker of a run, with a loop of plain Python in the place of the framework's: a run takes a third of a second.

`install` makes an executable to be named as the Python of a run (`RunSpec.python`, `TRAINYARD_PYTHON_PYTORCH`). Started
as a worker, it runs the real `core.worker`: boot, main, Context, TrainingController, MetricsReporter, CheckpointStore,
dead-man switch. Only the strategy's module and its framework are played, under whatever names they have. Started as
anything else (asked which packages it has, say), it is the tests' own Python.

A recipe is imported and called as by a real loop: `model()` returns a text that goes into every checkpoint,
`train_data()` a sequence of items, `val_data()` the loss of each epoch's validation, `loss()` a function of (weight,
items). One that imports a framework (`digits_mlp`) gets a dummy of it and is not called: it has as many items as the
digits. Ranks meet at a socket, also those of a host that is this machine (`tests/support/ssh_server.py`); what they
carry to each other's machine is carried by the real code.
"""

import importlib
import importlib.machinery
import json
import os
import random
import sys
import time
import types
from pathlib import Path

STEP_S = float(os.environ.get("FAKE_WORKER_STEP_S", "0.0005"))
"""Seconds that a step sleeps, so that endless runs leave the CPU to other processes."""
DIGITS = 1437
"""Number of items in the digits data set."""
START = """\
#!{python} -S
import os, sys

if sys.argv[1:] == ["-c", {list_packages!r}]:
    sys.path += {folders!r}
    exec(sys.argv[2])
    sys.exit()
if sys.argv[3:] and os.path.basename(sys.argv[3]) == "probe.py":
    os.environ["PYTHONPATH"] = {packages!r}
if len(sys.argv) != 4 or os.path.basename(sys.argv[1]) != "boot.py":
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
sys.path.append({folder!r})
import fake_worker

sys.path.pop()
fake_worker.main()
"""
"""The executable: the worker, or the real Python. What each run asks that Python is answered without starting it."""
FRAMEWORKS = ("pytorch", "tensorflow", "keras")
STRATEGIES = tuple(f"_trainyard.worker.{framework}" for framework in FRAMEWORKS)
DUMMIES = ("torch", "tensorflow", "keras", "numpy")


def install(folder: Path) -> Path:
    """Make the executable in a folder that looks like an environment with all frameworks. Return its path."""
    from core.supervisor.software_record import LIST_PACKAGES  # imported here, since a worker cannot

    for name in ("torch", "tensorflow", "keras"):
        package = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise SystemExit('a fake worker has no framework')\n")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    text = START.format(
        python=sys.executable, packages=str(package.parent), folder=str(Path(__file__).parent),
        list_packages=LIST_PACKAGES,
        folders=[site for site in sys.path if site.endswith("-packages")],
    )
    python.write_text(text, encoding="utf-8")
    python.chmod(0o755)
    return python


class Finder:
    """Finds the fake strategies and framework dummies before any real module."""

    def find_spec(self, name, path=None, target=None):
        played = any(name == package or name.startswith(f"{package}.") for package in STRATEGIES)
        if not played and name.partition(".")[0] not in DUMMIES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Dummy(spec.name) if spec.name.partition(".")[0] in DUMMIES else None

    def exec_module(self, module):
        if not isinstance(module, Dummy):
            module.__getattr__ = strategy


class AnyClass(type):
    """A class in which every name is such a class."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return AnyClass(name, (), {"__init__": lambda self, *_, **__: None})


class Dummy(types.ModuleType):
    """A module in which every name is a class."""

    def __getattr__(self, name):
        return AnyClass.__getattr__(AnyClass, name)


def strategy(name):
    """Return the function of this name in a module of strategies: they all train."""
    if name.startswith("__"):
        raise AttributeError(name)
    return train


def train(recipe, context):
    """Train, with the signature of the strategies in `core/worker`."""
    if context.spec.strategy == "parameter_server" and context.assignment.role != "chief":
        time.sleep(3600)  # it only serves the chief
    controller_of = importlib.import_module("_trainyard.worker.training.controller").TrainingController
    task = Task(recipe, context)
    state = State(context, task.model)
    meter = make_meter(context)
    controller = controller_of(context, meter, state, **task.size)
    rate = context.training.learning_rate or 0.01
    controller.begin(rate)
    for epoch in controller.epochs():
        for step in range(controller.done_in_epoch, task.steps):
            loss = task.loss(state.step(rate), task.batch(step))
            time.sleep(STEP_S)
            if controller.after_step(loss, 1 / context.world_size):
                return
        controller.after_epoch_steps(rate)
        if controller.after_epoch(task.validation(state.weight, epoch)):
            return
    controller.finish()


class Task:
    """A recipe's model and data, or defaults for a recipe of a real framework."""

    def __init__(self, recipe, context):
        self._plain = not any(isinstance(module, Dummy) for module in list(sys.modules.values()))
        self._batch_size = context.training.batch_size
        self._validates = recipe.has("val_data")
        self._measures = recipe.has("metrics")
        self._data, self._validation, self.model = range(DIGITS), None, ""
        self.loss = lambda weight, _: weight
        if self._plain:
            self.model, self._data = recipe.call("model"), recipe.call("train_data")
            self._validation = recipe.call("val_data") if self._validates else None
            if recipe.has("loss"):
                self.loss = recipe.call("loss")
        self.steps = -(-len(self._data) // self._batch_size)

    @property
    def size(self):
        return {"steps_per_epoch": self.steps, "samples_per_epoch": len(self._data), "validates": self._validates}

    def batch(self, step):
        if not self._plain:
            return []
        first = step * self._batch_size
        return [self._data[at] for at in range(first, min(first + self._batch_size, len(self._data)))]

    def validation(self, weight, epoch):
        if not self._validates:
            return {}
        loss = self._validation[epoch] if self._validation else 1.1 * weight
        return {"val_loss": [loss], **({"val_accuracy": [1 - loss]} if self._measures else {})}


class State:
    """A falling weight with noise. Checkpoints save it like a model and its optimizer."""

    def __init__(self, context, model):
        self._context, self._model = context, model
        self._chance, self.weight = random.Random(context.training.seed), 0.9

    def step(self, rate):
        self.weight *= 1 - min(rate, 0.05)
        return self.weight + 0.001 * self._chance.random()

    def save(self, folder):
        _, internal, _ = self._chance.getstate()
        text = json.dumps({"model": self._model, "weight": self.weight, "random": internal})
        (folder / f"state-{self._context.rank}.json").write_text(text)

    def load(self, folder):
        own = folder / f"state-{self._context.rank}.json"
        state = json.loads((own if own.exists() else folder / "state-0.json").read_text())  # there were fewer ranks
        self.weight = state["weight"]
        self._chance.setstate((3, tuple(state["random"]), None))


def make_meter(context):
    """Return the reporter of one process, or one that sums over all ranks."""
    reporters = importlib.import_module("_trainyard.worker.training.metrics_reporter")
    if context.world_size == 1 or context.assignment.role == "chief":
        return reporters.MetricsReporter(context)
    return reporters.MetricsReporter(context, ranks=Ranks(context))


class Ranks:
    """The sockets between the ranks of a run. All ranks make the same calls in the same order."""

    in_step = False

    def __init__(self, context):
        self._rank, self._peers, self._files = context.rank, meet(context), None
        if context.assignment.meeting:
            hosts = importlib.import_module("_trainyard.worker.training.checkpoints")
            self._files = hosts.HostFiles(context, self.broadcast)
            self._files.fetch_checkpoint()

    def wait_for(self, losses):
        pass

    def collect_files(self, folder):
        if self._files is not None:
            self._files.collect(folder)

    def reduce(self, losses, shares, numbers):
        mine = [*(loss * share for loss, share in zip(losses, shares, strict=True)), *numbers]
        return self.combine(mine, lambda every: [sum(column) for column in zip(*every, strict=True)])

    def combine(self, mine, combination):
        """Return on all ranks what rank 0 makes of the values of all, which are in no order."""
        if self._rank:
            send(self._peers[0], mine)
            return receive(self._peers[0])
        result = combination([mine, *map(receive, self._peers)])
        for peer in self._peers:
            send(peer, result)
        return result

    def broadcast(self, rank, data):
        """Return on all ranks the bytes that `rank` gives."""
        return bytes.fromhex(self.combine([self._rank, data.hex()], lambda every: dict(every)[rank]))


def meet(context):
    """Return sockets: rank 0 has one to every other rank, each of which has one to rank 0."""
    import socket

    address = f"\0trainyard-{context.assignment.meeting or context.run_dir.name}"
    if context.rank == 0:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen(context.world_size)
        return [listener.accept()[0] for _ in range(context.world_size - 1)]
    peer = socket.socket(socket.AF_UNIX)
    while peer.connect_ex(address):  # until rank 0 listens
        time.sleep(0.01)
    return [peer]


def send(peer, value):
    peer.sendall(json.dumps(value).encode() + b"\n")


def receive(peer):
    data = b""
    while not data.endswith(b"\n"):
        part = peer.recv(1 << 16)
        if not part:
            raise RuntimeError("Connection closed by peer")
        data += part
    return json.loads(data)


def main():
    """Become the worker."""
    sys.argv = sys.argv[1:]
    sys.meta_path.insert(0, Finder())
    sys.path[0] = str(Path(sys.argv[0]).parent)  # as Python has it, which boot takes off again
    # As `runpy.run_path` does, which takes a tenth of the start of this process to be imported.
    program = compile(Path(sys.argv[0]).read_bytes(), sys.argv[0], "exec")
    exec(program, {"__name__": "__main__", "__file__": sys.argv[0]})
