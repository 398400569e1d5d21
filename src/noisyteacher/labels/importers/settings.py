"""What all importers do with the numbers they have read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from noisyteacher.core.errors import InputError
from noisyteacher.labels.checks import ArrayLike
from noisyteacher.labels.ids import IdsLike, clean_ids
from noisyteacher.labels.importers.ids_file import whole_numbers
from noisyteacher.labels.teacher_labels import TeacherLabels


@dataclass(frozen=True)
class ImportSettings:
    """How to make labels of what a file holds, and what to write down about the teacher."""

    logits: bool = False  # the numbers are logits, not probabilities
    int_ids: bool = False  # ids are whole numbers, also where the file has them as text
    k: int | None = None  # classes to store per row; None: all
    teacher: str | None = None
    revision: str | None = None
    temperature: float | None = None

    def make(
        self,
        ids: IdsLike,
        values: npt.NDArray[Any],
        classes: Sequence[str] | None,
        *,
        where: str,
        missing: ArrayLike | None = None,
    ) -> TeacherLabels:
        """Labels from ids (n,) and (n, L) probabilities or logits; ``where`` they were read."""
        try:
            return self._make(ids, values, classes, missing)
        except InputError as error:
            hint = " Are these logits? Then say so: logits=True (--logits)."
            told = f"{where}: {error}{hint if self._like_logits(values) else ''}"
            raise InputError(told) from error

    def _like_logits(self, values: npt.NDArray[Any]) -> bool:
        if self.logits or values.dtype.kind not in "fiu" or not values.size:
            return False
        return bool(values.min() < 0 or values.max() > 2)

    def _make(
        self,
        ids: IdsLike,
        values: npt.NDArray[Any],
        classes: Sequence[str] | None,
        missing: ArrayLike | None,
    ) -> TeacherLabels:
        names = whole_numbers(clean_ids(ids)) if self.int_ids else ids
        if self.logits:
            return TeacherLabels.from_logits(
                names,
                values,
                classes,
                self.k,
                missing=missing,
                teacher=self.teacher,
                revision=self.revision,
                temperature=1.0 if self.temperature is None else self.temperature,
            )
        return TeacherLabels.from_probs(
            names,
            values,
            classes,
            self.k,
            missing=missing,
            teacher=self.teacher,
            revision=self.revision,
            temperature=self.temperature,
        )
