"""What the rooms add to the supervision of a run. A room joins with a line here."""

from __future__ import annotations

from pathlib import Path

from core.devices.device import devices_here
from core.doctor.watch import DoctorWatch
from core.hosts.parts.head import Head
from core.notifications.start import Notifier
from core.queue.claims import Claims
from core.runs.directory import read_part
from core.schema.spec import RunSpec
from core.supervisor.companion import Companion
from core.supervisor.disturbances import Disturbances
from core.supervisor.jobs import MeetingSigns


def companions_of(run_dir: Path, spec: RunSpec, claims: Claims) -> list[Companion]:
    """Return the companions of a run in the order in which they are called.

    Raises `ValueError` for a damaged part of a run. Packages that few runs need are imported here.
    """
    found: list[Companion] = []
    part = read_part(run_dir)
    if spec.script is not None and part is None:  # the head of a part reads what its ranks print
        from core.metrics.process import MetricsProcess

        found.append(MetricsProcess(run_dir, spec))
    if len(devices_here(spec.devices)) < len(spec.devices):
        from core.hosts.parts.run_hosts import RunHosts

        found.append(RunHosts(run_dir, spec))
    found += [claims, Disturbances(run_dir)]
    if part is not None:
        found.append(Head(run_dir, part))  # which tells the user
    elif not (spec.probe_steps or spec.finds_nan):
        found += [Notifier(run_dir, spec.devices), DoctorWatch(run_dir)]
    return found


def meeting_signs(spec: RunSpec) -> MeetingSigns:
    """Return how the processes of a script meet; without signs if the script cannot be started, which the start says.

    PyTorch's store may be served at the port of a script whose source neither chooses a port nor shows another
    framework, which may listen at the port itself.
    """
    from core.scripts.analysis import analyse_script

    script = spec.script
    assert script is not None
    try:
        found = analyse_script(
            script.path, module=script.module or None, cwd=spec.working_dir, python=spec.python,
            variables=script.environment,
        )
    except ValueError:
        return MeetingSigns()
    has_torch = not found.frameworks or "torch" in found.frameworks
    return MeetingSigns(
        leaves_port=bool(found.file) and has_torch and not found.chooses_port, by_tf_config=found.meets_by_tf_config,
        by_argument=found.takes_local_rank,
    )
