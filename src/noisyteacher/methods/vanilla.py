"""Vanilla distillation: believe the teacher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noisyteacher.methods.targets import PlainMethod


@dataclass(frozen=True, repr=False)
class Vanilla(PlainMethod):
    """Cross-entropy with the teacher's label, soft or (``hard``) its top class."""

    hard: bool = False

    formula: ClassVar[str] = "ce(ys, f)"
    reference: ClassVar[str] = "Hinton et al. 2015"
