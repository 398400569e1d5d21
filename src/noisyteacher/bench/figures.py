"""Figures from results and fitted noise models, as SVG or PNG by the file's ending."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from noisyteacher.noise import TeacherNoise
from noisyteacher.noise.confidence import confidence

if TYPE_CHECKING:
    from noisyteacher.labels import TeacherLabels

# Okabe and Ito's colours: distinct for colour-blind readers, and of different lightness in print.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"


def draw_alpha_curve(
    noise: TeacherNoise, labels: TeacherLabels, y: np.ndarray, path: str | Path
) -> None:
    """α against the teacher's margin, over V's right and wrong labels, binned."""
    margins = confidence(labels, 1, noise.metric)
    right = labels.hard == y
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    grid = np.linspace(margins.min(), margins.max(), 400)
    axes.step(grid, noise.alpha_curve_.predict(grid), where="post", color=BLUE, label="α(x), isotonic")
    centres, shares, counts = _binned(margins, right)
    axes.scatter(
        centres, shares, s=10 + 3 * counts, color=ORANGE, alpha=0.6, label="V, share right per bin"
    )
    axes.axhline(noise.lower_bound, color=GREY, linestyle=":", label="lower bound")
    axes.set(
        xlabel=f"teacher's {noise.metric}",
        ylabel="chance that the teacher is right",
        ylim=(-0.02, 1.02),
        title=f"How far to trust the teacher ({len(y)} validation examples)",
    )
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _binned(margins: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ten bins of equal count: mean margin, share right, number of examples."""
    parts = np.array_split(np.argsort(margins, kind="stable"), min(10, len(margins)))
    return (
        np.array([margins[p].mean() for p in parts]),
        np.array([right[p].mean() for p in parts]),
        np.array([len(p) for p in parts]),
    )
