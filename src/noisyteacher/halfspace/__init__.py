"""Linear students with provable guarantees: the paper's halfspace results, running.

Data (``shapes``, ``noise_models``, ``stream``), learners (``rules``, ``learner``, ``selection``),
experiments (``simulation``, ``study``, ``figures``) and the theory itself (``gradient``,
``theory``, ``consistency``).
"""

from __future__ import annotations

from noisyteacher.halfspace.checks import normalize_points
from noisyteacher.halfspace.learner import HalfspaceLearner
from noisyteacher.halfspace.noise_models import MassartNoise, NoisyTeacher, RandomNoise
from noisyteacher.halfspace.rules import Backward, Logistic, Perceptron, Perspectron, Rule, Slam
from noisyteacher.halfspace.selection import (
    Chosen,
    History,
    choose_iterate,
    estimate_alpha,
    holdout_size,
    repeats_for,
)
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
from noisyteacher.halfspace.stream import Examples, NoisyHalfspace
from noisyteacher.halfspace.theory import slam_steps

__all__ = [
    "Backward",
    "Ball",
    "Chosen",
    "Examples",
    "Gaussian",
    "HalfspaceLearner",
    "History",
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
