"""The noise model of a teacher: margins, step isotonic regression, alpha(x) and k(x)."""

from noisyteacher.noise.covariates import confidence, entropy, margin
from noisyteacher.noise.isotonic import (
    Curves,
    StepCurve,
    StepIsotonic,
    fit_step_isotonic,
    step_value,
)
from noisyteacher.noise.pool import Trust
from noisyteacher.noise.teacher_noise import TeacherNoise

__all__ = [
    "Curves",
    "StepCurve",
    "StepIsotonic",
    "TeacherNoise",
    "Trust",
    "confidence",
    "entropy",
    "fit_step_isotonic",
    "margin",
    "step_value",
]
