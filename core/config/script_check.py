"""Find out what a script is and whether it can start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.config.build_spec import compose_script, resolve, script_python
from core.config.choices import ScriptChoices
from core.metrics.text.expression import compile_expression
from core.schema.settings import ReleaseWatch
from core.scripts import analysis
from core.scripts import problems as scripts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Device
    from core.schema.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCheckRequest:
    """All on which the answer depends; arguments and devices are not among it."""

    script: str
    module: str
    working_dir: str
    environment: tuple[tuple[str, str], ...]
    launch: str | None
    python: str | None
    changed: tuple[int, int] | None
    """When the script's file was written last, in nanoseconds, and how long it is, in bytes."""

    @classmethod
    def of(cls, choices: ScriptChoices) -> ScriptCheckRequest:
        """What is to be found out about these choices."""
        return cls(
            script=choices.script,
            module=choices.module,
            working_dir=choices.working_dir or "",
            environment=tuple(sorted(choices.environment.items())),
            launch=choices.launch,
            python=choices.python,
            changed=_changed(choices.script),
        )

    @classmethod
    def again(cls, spec: RunSpec) -> ScriptCheckRequest:
        """The same of a run, or a setup, of a script."""
        assert spec.script is not None
        return cls(
            script=spec.script.path,
            module=spec.script.module,
            working_dir=spec.working_dir,
            environment=tuple(sorted(spec.script.environment.items())),
            launch=spec.strategy,
            python=spec.python,
            changed=_changed(spec.script.path),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCheckResult:
    """What was found out."""

    spec: RunSpec | None = None
    """What the choices make, but for arguments and devices; None where they make none."""
    proposed: str = ""
    """The launch that the source proposes."""
    why: str = ""
    """Why: a sentence."""
    usual_python: str = ""
    """The Python that is taken where none is chosen; no text where that could not be found out."""
    problems: tuple[str, ...] = ()
    """What would end the script at once: sentences."""


def check_script(question: ScriptCheckRequest) -> ScriptCheckResult:
    """The answer; it may take seconds, while an interpreter is asked."""
    variables = dict(question.environment)
    usual = script_python(None, question.script, question.working_dir)
    try:
        spec = compose_script(
            ScriptChoices(
                script=question.script,
                module=question.module,
                environment=variables,
                working_dir=question.working_dir,
                launch=question.launch,
                python=question.python,
                devices=(),
            ),
            (),
        )
        look = analysis.analyse_script(
            question.script,
            module=question.module or None,
            cwd=spec.working_dir,
            python=spec.python,
            variables=variables,
        )
        found = scripts.problems(look, python=spec.python, cwd=spec.working_dir, variables=variables)
    except ValueError as error:
        return ScriptCheckResult(usual_python=usual, problems=(str(error),))
    return ScriptCheckResult(spec=spec, proposed=look.launch, why=look.why, usual_python=usual, problems=tuple(found))


def fill_in(answer: ScriptCheckResult, choices: ScriptChoices, devices: Sequence[Device]) -> RunSpec:
    """The spec of an answer, with all that was not asked about. Raises `ValueError` with a sentence."""
    assert answer.spec is not None
    assert answer.spec.script is not None
    if choices.expression:
        compile_expression(choices.expression)
    script = replace(answer.spec.script, arguments=choices.arguments, expression=choices.expression)
    return replace(
        answer.spec,
        script=script,
        devices=tuple(resolve(choices.devices, devices)),
        release=ReleaseWatch(**choices.release),  # type: ignore[arg-type]  # it checks each field itself
        cuda_ids=choices.cuda_ids,
    )


def _changed(path: str) -> tuple[int, int] | None:
    file = Path(path)
    try:
        told = (file / "__main__.py" if file.is_dir() else file).stat() if path else None
    except (OSError, ValueError):
        return None
    return (told.st_mtime_ns, told.st_size) if told else None
