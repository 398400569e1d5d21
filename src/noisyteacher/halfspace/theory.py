"""The guarantee with its constants, as the corrected proof gives them.

``gap`` is the least |2α(x) − 1|, the quantity the proof calls β; the theorem's own condition reads
|½ − α(x)| ≥ β once its sign is put right, which gives twice the gap the proof asks for.
"""

from __future__ import annotations

import math

from noisyteacher.core.errors import InputError
from noisyteacher.halfspace.checks import check_fraction, check_margin

# E‖w‖² ≤ NORM_GROWTH · T for Algorithm 3 (second claim): 1 from the steps, 2/e from their drift.
NORM_GROWTH = 2 / math.e + 1


def slam_steps(margin: float, epsilon: float, gap: float, delta: float = 0.01) -> int:
    """Steps after which, with chance 1 − δ, some iterate of Algorithm 3 has error at most ε.

    A tenth of δ goes to the first claim (Azuma: w·w* ≥ (gap·γ·ε/4)·T while all iterates are
    bad), the rest to the second (Markov: ‖w‖² ≤ NORM_GROWTH·T/δ); together they contradict
    Cauchy–Schwarz.
    """
    check_margin(margin)
    check_fraction("epsilon", epsilon)
    check_fraction("delta", delta)
    if not 0.0 < gap <= 1.0:
        raise InputError(f"The gap |2α−1| must lie in (0, 1], not {gap}.")
    correlation = 128 * math.log(10 / delta)
    norm = 16 * NORM_GROWTH / (0.9 * delta)
    return math.floor(max(correlation, norm) / (gap * margin * epsilon) ** 2) + 1


def drift(margin: float, gap: float) -> float:
    """First claim, one step: E[u]·w* is at least this times the iterate's error."""
    return gap * margin / 2


# Exponents of 1/γ, 1/ε and 1/gap in the proved number of samples; None where nothing is proved.
PROVED: dict[str, dict[str, float | None]] = {
    "Slam": {"margin": 2.0, "epsilon": 2.0, "gap": 2.0},
    "Backward": {"margin": 4.0, "epsilon": 2.0, "gap": None},
    "Backward, λ = η": {"margin": None, "epsilon": None, "gap": None},
    "Perspectron": {"margin": 2.0, "epsilon": 2.0, "gap": None},
    "Logistic": {"margin": None, "epsilon": None, "gap": None},
    "Perceptron": {"margin": None, "epsilon": None, "gap": None},
}
