"""The candidates compared on the same gold rows, and what is known about the student returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from noisyteacher.choose.decision import Evidence, Interval, Part
from noisyteacher.methods import SOFT_LABELS, Method

FLOOR = "logistic regression"


@dataclass(frozen=True)
class Candidate:
    """A student to train; ``method`` None is a plain logistic regression on gold labels."""

    method: Method | None
    generation: int = field(default=1, kw_only=True, repr=False)

    @property
    def name(self) -> str:
        """The method's name, in tables and in words."""
        name = FLOOR if self.method is None else repr(self.method)
        return name if self.generation == 1 else f"{name}, generation {self.generation}"

    @property
    def uses_teacher(self) -> bool:
        return self.method is not None and SOFT_LABELS in self.method.needs


@dataclass(frozen=True)
class ComparisonLine:
    """One candidate in the table, measured on the same rows as all the others."""

    name: str
    method: Method | None
    uses_teacher: bool
    score: Interval
    weight: float  # its share of the returned student: of a blend, or 1 for the one chosen


@dataclass(frozen=True, eq=False)
class Choice:
    """What a rule made of the candidates, and how good its result is."""

    parts: tuple[Part, ...]
    lines: tuple[ComparisonLine, ...]
    score: Interval  # of the returned student
    gold_only: Interval  # of the same rule applied to students of gold labels alone
    teacher: Interval | None  # on the same rows
    gain: Interval  # of using the teacher over gold labels alone, paired
    y: np.ndarray  # (n,) true classes of the gold rows on which candidates are compared
    metric: str
    out_of_fold: np.ndarray  # (repeats × n, L) logits of the returned student

    @property
    def rows(self) -> int:
        """The number of gold rows on which candidates are compared."""
        return len(self.y)

    @property
    def gold_weight(self) -> float:
        """The share of the student that students of gold labels alone have."""
        return sum(line.weight for line in self.lines if not line.uses_teacher)


def compare_candidates(
    candidates: Sequence[Candidate], evidence: Evidence, parts: Sequence[Part]
) -> Choice:
    """Every candidate's score, and that of the rule, corrected for having been applied to them."""
    weights = np.zeros(len(candidates))
    for part in parts:
        weights[part.candidate] += part.weight
    lines = tuple(
        ComparisonLine(
            candidate.name,
            candidate.method,
            candidate.uses_teacher,
            evidence.estimate(evidence.held_out_scores([i])),
            float(weights[i]),
        )
        for i, candidate in enumerate(candidates)
    )
    ours = evidence.held_out_scores()
    gold = evidence.held_out_scores([i for i, c in enumerate(candidates) if not c.uses_teacher])
    return Choice(
        parts=tuple(parts),
        lines=lines,
        score=evidence.estimate(ours),
        gold_only=evidence.estimate(gold),
        teacher=evidence.teacher_estimate(),
        gain=evidence.difference(ours, gold),
        y=evidence.y,
        metric=evidence.metric,
        out_of_fold=evidence.predictions(parts),
    )
