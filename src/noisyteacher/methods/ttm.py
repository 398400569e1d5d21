"""Transformed teacher matching: a softened teacher, and a student as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Columns, Grid, Rows
from noisyteacher.methods.targets import TargetMethod
from noisyteacher.methods.temperature import temper


@dataclass(frozen=True, repr=False)
class TTM(TargetMethod):
    """Cross-entropy with the teacher's label at ``temperature``; the student's stays at 1.

    ``Temperature`` softens both, which is another loss.
    """

    temperature: float = 2.0

    hard: ClassVar[bool] = False  # type: ignore[misc]  # a softened top class is the top class
    dense_only: ClassVar[bool] = True
    formula: ClassVar[str] = "ce(ys^(1/T) / Σ, f)"
    reference: ClassVar[str] = "Zheng & Yang ICLR 2024"
    unverified: ClassVar[str] = "read in its abstract only"
    grid: ClassVar[Grid] = {"temperature": (0.5, 2.0, 4.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.temperature > 0, "temperature", "above 0")

    def target_columns(self, rows: Rows, pool: TeacherLabels) -> Columns:
        columns = super().target_columns(rows, pool)
        target, gold = columns.values["target"], columns.y >= 0
        target[~gold] = temper(target[~gold], self.temperature)
        return columns
