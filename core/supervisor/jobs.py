"""The two kinds of runs: workers that train a recipe, and the processes of a script."""

from __future__ import annotations

import os
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.catalog.strategies import strategy_of
from core.diagnosis.evidence import FAILED_FIRST, OF_WORKER, evidence_of, place_of
from core.diagnosis.program_output import (
    as_printed,
    exception_lines,
    first_rank,
    last_traceback,
    raised_in,
    usage_error,
)
from core.errors import RunError
from core.language import join_sentences, tr, tr_noop
from core.launchers import local, loopback, script
from core.launchers.local import FETCH, fetcher, free_addresses
from core.launchers.loopback import LoopbackNetwork, NoLoopbackNetworkError
from core.launchers.torch_store import TorchStore
from core.runs.facts import RunFacts
from core.schema.event_kinds import Ready
from core.schema.events import Event
from core.schema.files import last_lines
from core.schema.paths import LOG_FILE, log_of_rank
from core.schema.spec import RankAssignment, RunSpec
from core.supervisor.watches import DiskWatch
from core.supervisor.workers import Worker, describe

Assignments = Sequence[RankAssignment]
LAST_OUTPUT_BYTES = 64 * 1024
OF_SIGNAL = re.compile(r"SIG|[Ss]ignal|KeyboardInterrupt")
MAX_LINE = 300
"""Characters of the last line of output that a message quotes."""
MISSING = tr_noop(
    "Output that the script printed from then on may be missing from the log, and its measurements from the curves. "
    "Free some space, then run it again."
)
LOST_STORE = tr_noop(
    "The process at which the script's PyTorch ranks meet has ended. If they wait for each other, stop the run, and "
    "start it again with --env TORCHELASTIC_USE_AGENT_STORE=False, so that rank 0 takes its place."
)
BY_ARGUMENT = tr_noop(
    "It takes its rank from the argument --local_rank, as torch.distributed.launch passed it, and here it was given "
    "none: let it read the variable LOCAL_RANK."
)


class Job(ABC):
    """What differs between training a recipe and running a script."""

    @abstractmethod
    def prepare(self, assignments: Assignments, names: Mapping[str, str] | None) -> Assignments:
        """Prepare for the first process, and return all to be started, in their order.

        `assignments`: those that train. `names`: see `core.launchers.local.cuda_names`. Raises `RunError`.
        """

    @abstractmethod
    def launch(self, assignment: RankAssignment) -> subprocess.Popen[bytes]:
        """Start one process. Raises `OSError`."""

    @abstractmethod
    def has_begun(self, events: Sequence[Event]) -> bool:
        """Return whether training is under way. `events`: the latest events of the workers."""

    @abstractmethod
    def failure(self, worker: Worker) -> tuple[str, str | None]:
        """Return a sentence on how a worker failed, and its traceback if there is one."""

    def cause(self, culprits: Sequence[Worker], facts: RunFacts) -> tuple[Worker, str, str | None] | None:
        """Return the worker whose failure was the cause, a root if there is one, and as `failure`; None if none failed.

        `culprits`: see `WorkerGroup.culprits`. `facts`: of the run.
        """
        every = [(each, *self.failure(each)) for each in culprits]
        # A signal of this run is no cause, nor is an exception that a program raises on it.
        told = [(each, sentence, trace) for each, sentence, trace in every
                if each.error or not each.signalled or not OF_SIGNAL.search(trace or "SIG")]
        roots = [each for each in told if not evidence_of(
            replace(facts, traceback=each[2]), None, each[1], {}, self.printed(each[0].assignment.rank)
        ).is_cascade]
        if not roots or len(roots) == len(told):
            return next(iter(told), None)
        worker, sentence, trace = roots[0]
        first = tr(FAILED_FIRST, rank=worker.assignment.rank) if len(roots) == 1 else None
        return worker, join_sentences([sentence, first]), trace

    @abstractmethod
    def printed(self, rank: int) -> str:
        """Return the end of what a worker has printed, as a terminal shows it."""

    @abstractmethod
    def spec_of_parts(self) -> RunSpec:
        """Return the spec with which ranks on other machines start. Call it after `prepare`."""

    def trouble(self) -> str | None:
        """Return once a sentence that the user must know while training goes on; else None."""
        return None

    def settle(self) -> str | None:
        """Called after all processes have ended; return a sentence if output is missing."""
        return None

    def remark(self) -> tuple[str, str | None]:
        """Return what should be known of a training that finished, and a traceback, both as `failure`; else empty."""
        return "", None

    def close(self) -> None:  # noqa: B027 (most jobs have nothing to close)
        """Release all resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetingSigns:
    """How the processes of a script find each other, as its source says."""

    leaves_port: bool = False
    """Whether PyTorch's store may be served at the port of the script."""
    by_tf_config: bool = False
    by_argument: bool = False
    """Whether it has an argument `--local_rank`."""


def job(spec: RunSpec, run_dir: Path, *, umask: int, signs: Callable[[RunSpec], MeetingSigns]) -> Job:
    """Return the job of a run. `umask`: of the user who started the run. `signs`: reads the source of a script."""
    if spec.script is None:
        return RecipeJob(spec, run_dir)
    return ScriptJob(spec, run_dir, umask, signs)


class RecipeJob(Job):
    """Workers that train a recipe, and report by themselves."""

    def __init__(self, spec: RunSpec, run_dir: Path) -> None:
        self._spec, self._run_dir = spec, run_dir
        self._names: Mapping[str, str] | None = None
        self._network: LoopbackNetwork | None = None
        self._gate: list[int] = []
        """Both ends of the pipe of `RankAssignment.gate`; the writing end until the process that fetches has it."""
        self._trouble: str | None = None
        self._only_serves = False
        """Whether all workers here serve one on another machine."""

    def prepare(self, assignments: Assignments, names: Mapping[str, str] | None) -> Assignments:
        """See `Job`. Workers that listen get a network of their own, and a process outside of it that fetches."""
        self._names = names
        self._only_serves = all(each.serves for each in assignments)
        if not strategy_of(self._spec).needs_addresses:
            return assignments
        first = assignments[0]
        if first.hosts > 1 and not self._spec.allow_open_ports:
            raise RunError(loopback.refusal_over_machines(self._spec.strategy))
        if self._spec.allow_open_ports:
            if first.host == 0:  # that machine says it for all
                self._trouble = _open_ports(first)
            return assignments
        try:
            self._network = LoopbackNetwork()
        except NoLoopbackNetworkError as error:
            raise RunError(loopback.refusal(self._spec.strategy, error)) from error
        self._gate += os.pipe()
        reading, writing = self._gate
        return [replace(fetcher(assignments), gate=writing), *(replace(each, gate=reading) for each in assignments)]

    def launch(self, assignment: RankAssignment) -> subprocess.Popen[bytes]:
        fetches = assignment.role == FETCH
        process = local.launch(self._spec, self._run_dir, assignment, self._names, None if fetches else self._network)
        if fetches:
            os.close(self._gate.pop())  # from now on the pipe ends with that process
        return process

    def printed(self, rank: int) -> str:  # noqa: ARG002 (all workers print into one file)
        return as_printed(last_lines(self._run_dir / LOG_FILE, LAST_OUTPUT_BYTES))

    def spec_of_parts(self) -> RunSpec:
        return self._spec

    def trouble(self) -> str | None:
        """Return once that the run's ports are open to others, if they are."""
        trouble, self._trouble = self._trouble, None
        return trouble

    def close(self) -> None:
        while self._gate:
            os.close(self._gate.pop())
        if self._network is not None:
            self._network.close()

    def has_begun(self, events: Sequence[Event]) -> bool:
        """Return whether a training worker is ready for its first step. Parameter servers never report a step."""
        return self._only_serves or any(event["kind"] == Ready.kind for event in events)

    def failure(self, worker: Worker) -> tuple[str, str | None]:
        """Return what the worker reported, and which disk is full if one is."""
        why = join_sentences([describe(worker), DiskWatch(self._run_dir).poll()])
        return why, worker.error.traceback if worker.error is not None else None


def _open_ports(first: RankAssignment) -> str:
    """Return the notice on a run whose ports are open to others."""
    if first.hosts > 1:
        return tr(
            "The ranks of this run listen without a password as long as it trains, as you allowed ({allow}): "
            "{addresses}. Everybody who can connect to one of these ports can read and write your files on its "
            "machine.",
            addresses=", ".join(first.addresses), allow=loopback.ALLOW,
        )
    *others, last = (address.rpartition(":")[2] for address in first.addresses)
    ports = tr("Port {last} is", last=last)
    if others:
        ports = tr("Ports {others} and {last} are", others=", ".join(others), last=last)
    return tr(
        "{ports} open without a password as long as this run trains, as you allowed ({allow}). Every user who can "
        "connect to this machine can read and write your files through them.",
        ports=ports, allow=loopback.ALLOW,
    )


class ScriptJob(Job):
    """A program of the user."""

    def __init__(self, spec: RunSpec, run_dir: Path, umask: int, signs: Callable[[RunSpec], MeetingSigns]) -> None:
        assert spec.script is not None
        self._spec, self._script, self._name, self._run_dir = spec, spec.script, spec.script.name, run_dir
        self._umask, self._signs = umask, signs
        self._names: Mapping[str, str] | None = None
        self._port = free_addresses(1)[0].rpartition(":")[2]
        self._store: TorchStore | None = None
        """What serves the store of the ranks; None if rank 0 does."""
        self._disk = DiskWatch(run_dir)
        self._reported: set[str] = set()

    def prepare(self, assignments: Assignments, names: Mapping[str, str] | None) -> Assignments:
        self._names = names
        has_rank_0 = assignments[0].rank == 0  # else another machine has decided where the ranks meet
        found = self._signs(self._spec) if self._spec.strategy == "per-device" and has_rank_0 else MeetingSigns()
        if found.leaves_port:
            self._store = script.serve_store(self._spec, self._script, assignments[0].meeting)
        meets = found.by_tf_config and script.TF_CONFIG not in self._script.environment
        if meets and not assignments[0].addresses:  # over several machines they are known already
            addresses = free_addresses(len(assignments))  # with them, each process sees only its own device
            assignments = [replace(each, addresses=addresses) for each in assignments]
        return assignments

    def launch(self, assignment: RankAssignment) -> subprocess.Popen[bytes]:
        process = script.launch(
            self._spec, self._run_dir, assignment, self._names, umask=self._umask,
            port=self._store.port if self._store else self._port, has_store=self._store is not None,
        )
        if self._store is not None:
            self._store.add_rank(process.pid)
        return process

    def spec_of_parts(self) -> RunSpec:
        """See `Job`. The other ranks must know whether a process serves the store."""
        served = {script.AGENT_STORE: str(True)} if self._store is not None else {}
        variables = {**served, **self._script.environment}
        return replace(self._spec, script=replace(self._script, environment=variables))

    def has_begun(self, events: Sequence[Event]) -> bool:  # noqa: ARG002 (a script does not report its first step)
        """Return True: a script counts as training from its start."""
        return True

    def trouble(self) -> str | None:
        """Report a full disk, or that the process has ended at which ranks meet."""
        full = self._disk.poll()
        texts = [join_sentences([full, tr(MISSING)])] if full else []
        if self._store is not None and self._store.has_ended:
            texts.append(tr(LOST_STORE))
        new = next((text for text in texts if text not in self._reported), None)
        if new is not None:
            self._reported.add(new)
        return new

    def settle(self) -> str | None:
        return self.trouble() if self._disk.poll() else None

    def remark(self) -> tuple[str, str | None]:
        """Return that the output of a rank ends with an exception, or that the ranks never met."""
        for rank in range(len(self._spec.devices) if self._spec.strategy == "per-device" else 1):
            trace = last_traceback(self.printed(rank), 0)
            if (raised := raised_in(trace or "")) is not None:
                where = place_of(trace or "", self._spec)
                text = tr("{name} ended with exit code 0, but its output ends with an exception: {error}.",
                          name=self._name, error=_short(raised.sentence))
                return join_sentences([text, tr("It was raised in {place}.", place=where) if where else None]), trace
        if self._store is None or len(self._spec.devices) < 2 or self._store.has_met():
            return "", None
        alone = tr(
            "The {count} processes of {name} never met through torch.distributed, so they did not train one model "
            "together: each trained alone. Choose one device, or a program that joins its processes.",
            count=len(self._spec.devices),
            name=self._name,
        )
        return join_sentences([alone, tr(BY_ARGUMENT) if self._signs(self._spec).by_argument else None]), None

    def printed(self, rank: int) -> str:
        return as_printed(last_lines(log_of_rank(self._run_dir, rank), LAST_OUTPUT_BYTES))

    def failure(self, worker: Worker) -> tuple[str, str | None]:
        """Return the exit code with the error at the end of the output, or with the last line of the output."""
        raw = last_lines(log_of_rank(self._run_dir, worker.assignment.rank), LAST_OUTPUT_BYTES)
        printed = as_printed(raw)
        trace = last_traceback(printed, worker.exit_code or 0)
        lines, at = exception_lines(trace or "")
        if worker.signalled and any(line[:1].strip() for line in lines[at + 1 :]):
            trace = None  # it was handled, and the program went on printing until the signal
        raised = raised_in(trace or "")
        if worker.signalled and raised is not None:  # before the signal ended it
            return join_sentences([tr(OF_WORKER, phrase=worker.name), f"{_short(raised.sentence)}."]), trace
        if (worker.exit_code or 0) <= 0:
            return describe(worker), trace
        which = f" ({worker.name})" if worker.assignment.world_size > 1 else ""
        if raised is not None and raised.is_of_launcher and (usage := usage_error(printed)):
            trace, error = None, _short(usage)
        else:
            error = _short(raised.sentence) if raised is not None else ""
        last = _short(printed.rstrip().rpartition("\n")[2].strip())
        program, code = f"{self._name}{which}", worker.exit_code
        if error:
            text = tr("{program} ended with exit code {code}: {error}.", program=program, code=code, error=error)
        elif last:
            text = tr(
                "{program} ended with exit code {code}. Its last line of output: {line}.",
                program=program, code=code, line=last,
            )
        else:
            text = tr("{program} ended with exit code {code}. It printed nothing.", program=program, code=code)
        full = self._disk.poll()
        why = [full, tr("That may be why.")] if full else []
        first = first_rank(raw, raised) if raised is not None else None
        return join_sentences([text, *why, None if first is None else tr(FAILED_FIRST, rank=first)]), trace

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _short(line: str) -> str:
    return line[:MAX_LINE].rstrip(".")
