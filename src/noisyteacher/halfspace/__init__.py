"""Linear students with provable guarantees: the paper's halfspace results, running.

Data (``shapes``, ``stream``), learners (``rules``, ``learner``), experiments (``simulation``,
``study``, ``study_report``) and the theory itself (``theory``).
"""

from __future__ import annotations

from noisyteacher.halfspace.conditions import normalize_points
from noisyteacher.halfspace.learner import (
    Chosen,
    HalfspaceLearner,
    Iterates,
    choose_iterate,
    estimate_alpha,
    holdout_size,
    repeats_for,
)
from noisyteacher.halfspace.rules import Backward, Logistic, Perceptron, Perspectron, Rule, Slam
from noisyteacher.halfspace.shapes import (
    Ball,
    Gaussian,
    NearMargin,
    Points,
    Shape,
    Sphere,
    long_servedio,
)
from noisyteacher.halfspace.simulation import Simulation, Trace, simulate
from noisyteacher.halfspace.stream import (
    Examples,
    MassartNoise,
    NoisyHalfspace,
    NoisyTeacher,
    RandomNoise,
)
from noisyteacher.halfspace.theory import slam_steps

__all__ = [
    "Backward",
    "Ball",
    "Chosen",
    "Examples",
    "Gaussian",
    "HalfspaceLearner",
    "Iterates",
    "Logistic",
    "MassartNoise",
    "NearMargin",
    "NoisyHalfspace",
    "NoisyTeacher",
    "Perceptron",
    "Perspectron",
    "Points",
    "RandomNoise",
    "Rule",
    "Shape",
    "Simulation",
    "Slam",
    "Sphere",
    "Trace",
    "choose_iterate",
    "estimate_alpha",
    "holdout_size",
    "long_servedio",
    "normalize_points",
    "repeats_for",
    "simulate",
    "slam_steps",
]


def __dir__() -> list[str]:
    return __all__
