"""How far to trust the teacher: margins, step isotonic regression, alpha(x) and k(x)."""

from noisyteacher.noise.confidence import confidence, entropy, margin
from noisyteacher.noise.curves import Curves
from noisyteacher.noise.isotonic import StepCurve, StepIsotonic, fit_step_isotonic, step_value
from noisyteacher.noise.teacher import TeacherNoise
from noisyteacher.noise.trust import Trust

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
