"""Teach a run what a number of its log is: try the rule, keep it, and read the curves of the run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import tr, tr_plural
from core.metrics.reread import Result, reread
from core.metrics.rules import rule_file, teaching
from core.metrics.rules.rule import METRIC, NO_METRIC
from core.metrics.rules.rule_set import usable_rules
from core.runs import copies
from core.runs.facts.states import state_info
from core.runs.run import Run
from core.schema.paths import log_of_rank

if TYPE_CHECKING:
    from pathlib import Path

    from core.metrics.rules.teaching import Lesson


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Where rules are kept, and what they changed in the run."""

    path: Path
    reread: Result | None
    """None if the run is not over, so that its curves cannot be read again yet."""


class Teacher:
    """Makes rules for the log of one run."""

    def __init__(self, run_dir: Path, rank: int = 0) -> None:
        """Raise `ValueError` with a sentence if rules cannot be made for this run."""
        self._run, self._log = Run.attach(run_dir), log_of_rank(run_dir, rank)
        self._spec = self._run.spec()
        if self._spec.script is None:
            raise ValueError(tr("Run {id} trains a recipe, which reports its measurements itself.", id=self._run.id))
        if self._spec.script.expression:
            raise ValueError(
                tr(
                    "Run {id} reads its log with an expression, which takes the place of rules. Start it without.",
                    id=self._run.id,
                )
            )
        self.rules = usable_rules(self._spec.script.rules)
        """The rules that the run has."""

    def find(self, line: str, number: str) -> int:
        """Return where a number stands in a line. Raises `ValueError` with a sentence if it is not there once."""
        return teaching.find_number(line, number)

    def propose_name(self, line: str, position: int) -> str:
        """Return a name for the number at this character of a line of the log."""
        header = teaching.header_of_row(line.strip(), teaching.log_lines(self._log))
        return teaching.propose_name(line, position, header)

    def teach(self, line: str, position: int, role: str) -> Lesson:
        """Return the rule for a number and what it gives. Raises `ValueError` with a sentence if there is none."""
        return teaching.teach(line, position, role, self._log, self.rules)

    def keep(self, lesson: Lesson, path: str = "") -> Kept:
        """Keep the rules beside the script, or in the file `path`, and read the curves of the run again if it is over.

        Rules of that file that the run does not have stay in it. Raises `ValueError` or `RunError` with a sentence.
        """
        copies.refuse(self._run.dir)
        script = self._spec.script
        assert script is not None
        given = path or script.rules_file
        file = rule_file.chosen_file("" if given == rule_file.NONE else given, script, self._spec.working_dir)
        file = file or rule_file.beside(script, self._spec.working_dir)
        others = usable_rules(rule_file.read_rules(file)) if file.exists() else []
        shapes = {rule.shape for rule in lesson.rules}
        owner = self._run.owner
        if owner:
            raise ValueError(tr("Run {id} belongs to {owner}, who alone can teach it.", id=self._run.id, owner=owner))
        rule_file.write_rules(file, [*lesson.rules, *(rule for rule in others if rule.shape not in shapes)])
        rule_file.write_rules_of_run(self._run.dir, lesson.rules)
        self._run.catch_up()
        is_over = state_info(self._run.facts.state).over
        return Kept(path=file, reread=reread(self._run.dir) if is_over else None)


def describe(lesson: Lesson) -> list[str]:
    """Describe what a rule gives, in sentences."""
    sentences = [
        tr_plural("It matches {count} line of the log.", "It matches {count} lines of the log.", lesson.matched)
    ]
    if NO_METRIC in lesson.rule.roles:
        sentences.append(tr("The number is no metric then."))
    names = lesson.curves if not any(role.startswith(METRIC) for role in lesson.rule.roles) else lesson.rule.metrics
    for name in names:
        points = lesson.curves.get(name, [])
        if not points:
            sentences.append(tr("{name} would have no value.", name=name))
            continue
        (first_step, first), (last_step, last) = points[0], points[-1]
        sentences.append(
            tr_plural(
                "{name} would have {count} value: {last:.6g} at step {last_step}.",
                "{name} would have {count} values: from {first:.6g} at step {first_step} to {last:.6g} at step "
                "{last_step}.",
                len(points),
                name=name, first=first, first_step=first_step, last=last, last_step=last_step,
            )
        )  # fmt: skip
    return sentences


def describe_kept(kept: Kept) -> str:
    """Say where a rule is kept and what that changed, in sentences."""
    where = tr("The rule is kept in {path}.", path=kept.path)
    if kept.reread is None:
        return f"{where} {tr('The run is not over: its curves can be read again when it has ended.')}"
    return f"{where} {tr('The curves of the run were read again.')}"
