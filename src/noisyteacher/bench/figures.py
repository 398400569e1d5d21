"""The α(x) picture: how far a teacher can be trusted, as SVG and PNG."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from noisyteacher.core.files import write_atomic
from noisyteacher.methods.weighted import default_neighbours
from noisyteacher.noise import TeacherNoise
from noisyteacher.noise.confidence import confidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noisyteacher.labels import TeacherLabels

# Okabe and Ito's colours: distinct for colour-blind readers, and of different lightness in print.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"


def save_figure(figure: Figure, stem: str | Path) -> None:
    """Write ``stem.svg`` and ``stem.png``, each whole or not at all."""
    stem = Path(stem)
    # Without a date and random names inside, the same rows give the same bytes.
    with rc_context({"svg.hashsalt": "noisyteacher"}):
        for kind, metadata in (("svg", {"Date": None}), ("png", {})):
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
            write_atomic(stem.with_name(f"{stem.name}.{kind}"), buffer.getvalue())


def bare_axes(axes: Axes) -> None:
    """No frame where there is nothing to read off."""
    axes.spines[["top", "right"]].set_visible(False)


def draw_alpha_curve(
    noise: TeacherNoise, labels: TeacherLabels, y: np.ndarray, stem: str | Path
) -> None:
    """α against the teacher's margin: isotonic and k nearest neighbours, over V's answers."""
    margins = np.asarray(confidence(labels, 1, noise.metric))
    right = np.asarray(labels.hard == y)
    figure = Figure(figsize=(6, 4.4), layout="constrained")
    axes = figure.subplots()
    grid = np.linspace(margins.min(), margins.max(), 400)
    _draw_answers(axes, margins, right)
    near = default_neighbours(len(y))
    axes.plot(
        grid,
        nearest_mean(margins, right, grid, near),
        color=ORANGE,
        linewidth=1,
        linestyle="--",
        label=f"mean of the {near} nearest",
    )
    axes.step(
        grid,
        noise.alpha_curve_.predict(grid),
        where="post",
        color=BLUE,
        linewidth=2.2,
        label="α(x), isotonic",
    )
    axes.axhline(noise.lower_bound, color=GREY, linestyle=":", label="lower bound")
    axes.set(
        xlabel=f"teacher's {noise.metric}",
        ylabel="chance that the teacher is right",
        ylim=(-0.06, 1.06),
        title=f"How far to trust the teacher ({len(y)} validation examples)",
    )
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    bare_axes(axes)
    save_figure(figure, stem)


def _draw_answers(axes: Axes, margins: np.ndarray, right: np.ndarray) -> None:
    """One grey tick per example, at 1 where the teacher is right; jittered so that they show."""
    jitter = np.random.default_rng(0).uniform(-0.03, 0.03, len(margins))
    axes.scatter(
        margins,
        right + jitter,
        s=9,
        marker="|",
        color=GREY,
        alpha=0.6,
        label="V: right (1), wrong (0)",
    )


def nearest_mean(x: np.ndarray, values: np.ndarray, at: np.ndarray, near: int) -> np.ndarray:
    """(n,), (n,), (m,) -> (m,) mean value of the ``near`` nearest points."""
    order = np.argsort(np.abs(at[:, None] - x[None, :]), axis=1, kind="stable")[:, :near]
    return np.asarray(values[order].mean(1))
