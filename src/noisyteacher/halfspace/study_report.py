"""What a study shows: exponents beside the theory, the guarantee, the caveats, and the figures.

In figures learners differ in colour (Okabe and Ito's, safe for colour-blind readers), in line style
and in marker, so that a grey print tells them apart too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from torch import Tensor

from noisyteacher.bench.figures import new_figure, save_figure
from noisyteacher.halfspace import theory
from noisyteacher.halfspace.shapes import Ball, long_servedio
from noisyteacher.halfspace.simulation import Exponent, Reached, Simulation, fit_exponent, simulate
from noisyteacher.halfspace.stream import NoisyHalfspace, RandomNoise
from noisyteacher.halfspace.study import Cell, Study, StudyRow, all_rules

SYMBOLS = {"margin": "1/γ", "epsilon": "1/ε", "gap": "1/(1−2η)"}

CAVEATS = (
    "The theory bounds, from above and with large constants, the worst distribution with margin γ. "
    "These are a few distributions over a short range: an exponent below the theory's, or above "
    "it, is no contradiction, and one that meets it is no proof.",
    "near-margin changes with the problem (d ≈ 1/γ², a share 4ε of the points is rare): its "
    "exponents are those of a hard family, not of one distribution. The ball has d = 30 throughout "
    "and loses its hardest points as γ grows.",
    "'best' counts samples until some iterate is good, as the theorem does; 'last' asks the "
    "iterate of that moment. Neither counts the hold-out labels that find the good iterate.",
    "Where backward correction has a larger exponent than SLaM, look at its line with λ = η: the "
    "difference comes from the slack in λ, not from correcting backward. Its proved 1/γ⁴ is an "
    "upper bound, and nothing here shows that it must need as many.",
    "Plain logistic regression has no guarantee. It is quick where every point has the same margin "
    "(near-margin); on the ball it stops short, and on Long and Servedio's points (error figure) "
    "it ends with half of them wrong.",
)

_LOOKS = {
    "Slam": ("#0072B2", "-", "o"),
    "Backward": ("#D55E00", "--", "s"),
    "Backward, λ = η": ("#E69F00", (0, (3, 1)), "v"),
    "Perspectron": ("#009E73", "-.", "^"),
    "Logistic": ("#CC79A7", ":", "D"),
    "Perceptron": ("#555555", (0, (5, 1, 1, 1, 1, 1)), "x"),
}

_LEAST_ERROR = 1e-3


@dataclass(frozen=True)
class ExponentRow:
    """One learner, one shape, one variable."""

    shape: str
    variable: str  # "margin", "epsilon" or "gap"
    learner: str
    best: Exponent | None
    last: Exponent | None
    proved: float | None


def reached(row: StudyRow, which: str) -> Reached:
    """Read "best" or "last" of a samples row back."""
    return Reached(**row[which])


def sweep_rows(rows: Sequence[StudyRow], cells: Sequence[Cell], learner: str) -> list[StudyRow]:
    """The samples rows of these cells, in order, where they were run."""
    found = {
        Cell.of(row): row for row in rows if row["kind"] == "samples" and row["learner"] == learner
    }
    return [found[cell] for cell in cells if cell in found]


def exponents(study: Study, rows: Sequence[StudyRow]) -> list[ExponentRow]:
    """Fit every sweep of every learner."""
    fitted = []
    for shape in study.shapes:
        for variable, cells in study.sweeps(shape).items():
            for learner, proved in theory.PROVED.items():
                chosen = sweep_rows(rows, cells, learner)
                values = [float(row[variable]) for row in chosen]
                best = fit_exponent(values, [reached(row, "best") for row in chosen])
                last = fit_exponent(values, [reached(row, "last") for row in chosen])
                fitted.append(ExponentRow(shape, variable, learner, best, last, proved[variable]))
    return fitted


def exponent_text(exponent: Exponent | None) -> str:
    """``1.9 [1.7, 2.1]``, or a dash where fewer than three cells were reached."""
    if exponent is None:
        return "–"
    return f"{exponent.slope:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"


Lines = tuple[list[str], list[list[str]]]  # a table's header and its lines


@dataclass(frozen=True)
class Summary:
    """All that is printed after a study."""

    exponents: list[ExponentRow]
    guarantee: list[StudyRow]
    consistency: list[StudyRow]
    caveats: tuple[str, ...] = CAVEATS

    def rows(self) -> list[StudyRow]:
        """What was derived from the measured rows, for machines."""
        return [{"kind": "exponent", **asdict(row)} for row in self.exponents] + self.consistency

    def tables(self) -> dict[str, Lines]:
        """Title -> header and lines."""
        return {
            "Exponents of the number of samples, with 95 % intervals": self._exponent_lines(),
            "SLaM: runs with an error of at most ε after T steps, a quarter of 1/((1−2η)γε)²":
                self._guarantee_lines(),
            "Is the truth the only minimiser of the population loss?": self._consistency_lines(),
        }  # fmt: skip

    def _exponent_lines(self) -> Lines:
        header = ["shape", "variable", "learner", "best iterate", "last iterate", "proved, at most"]
        return header, [
            [row.shape, SYMBOLS[row.variable], row.learner,
             exponent_text(row.best), exponent_text(row.last),
             "–" if row.proved is None else f"{row.proved:g}"]
            for row in self.exponents
        ]  # fmt: skip

    def _guarantee_lines(self) -> Lines:
        header = ["shape", "γ", "ε", "η", "T", "runs", "some iterate", "hold-out labels", "chosen"]
        return header, [
            [row["shape"], f"{row['margin']:g}", f"{row['epsilon']:g}", f"{row['noise']:g}",
             str(row["steps"]), str(row["runs"]), f"{100 * row['exists']:.1f} %",
             str(row["holdout"]), f"{100 * row['chosen']:.1f} %"]
            for row in self.guarantee
        ]  # fmt: skip

    def _consistency_lines(self) -> Lines:
        header = ["classes", "k", "α", "mix", "loss of the truth", "least loss", "answer"]
        return header, [
            [str(row["classes"]), str(row["k"]), f"{row['alpha']:g}", row["normalize"],
             f"{row['truth_loss']:.6f}", f"{row['loss']:.6f}", "yes" if row["holds"] else "no"]
            for row in self.consistency
        ]  # fmt: skip


def summarize_study(study: Study, rows: Sequence[StudyRow]) -> Summary:
    """Fit the exponents and check the consistency proposition."""
    guarantee = [row for row in rows if row["kind"] == "guarantee"]
    return Summary(exponents(study, rows), guarantee, consistency_rows())


def consistency_rows() -> list[StudyRow]:
    """The proposition just above and just below α = 1/k, and where its printed form fails."""
    cases = [(3, 2, 0.3), (3, 2, 0.6), (4, 3, 0.32), (4, 3, 0.35), (4, 4, 0.1), (4, 3, 0.6)]
    rows = []
    for classes, k, alpha in cases:
        for normalize in ("k-1", "none"):
            point = theory.SupportPoint(truth=0, alpha=alpha, shortlist=tuple(range(k)))
            found = theory.check_consistency([point], classes, normalize)
            rows.append({
                "kind": "consistency", "classes": classes, "k": k, "alpha": alpha,
                "normalize": normalize, "truth_loss": float(found.truth_loss[0]),
                "loss": float(found.loss[0]), "minimiser": found.minimiser[0].round(4).tolist(),
                "holds": found.holds,
            })  # fmt: skip
    return rows


# -- figures --------------------------------------------------------------------------------------


def draw_landscape(alpha: float = 0.75, margin: float = 0.2, reach: float = 12.0) -> Figure:
    """The population SLaM loss of a linear student in the plane, its gradient, Algorithm 3's step.

    The paper's figure: the loss is not convex, but downhill points to w*. Far from w* the gradient
    almost vanishes; the step of Algorithm 3, the gradient divided by r, does not.
    """
    sample = NoisyHalfspace(Ball(2, margin), RandomNoise(1 - alpha)).sample(1000)
    x = torch.from_numpy(sample.x)
    truth0 = torch.from_numpy(sample.truth > 0).float()
    figure = Figure(figsize=(11, 3.9), layout="constrained")
    left, middle, right = figure.subplots(1, 3, sharex=True, sharey=True)

    axis = np.linspace(-reach, reach, 41)
    s = _plane(axis) @ x.T
    losses = theory.slam_loss(s, theory.noisy_chance(truth0, alpha), alpha)
    loss = losses.mean(1).reshape(41, 41).numpy()
    shades = left.contourf(axis, axis, loss, levels=12, cmap="cividis")
    left.contour(axis, axis, loss, levels=12, colors="white", linewidths=0.4)
    figure.colorbar(shades, ax=left, shrink=0.7, label="loss")
    left.set_title(f"Population SLaM loss, α = {alpha:g}")

    _draw_field(figure, middle, x, reach, lambda s: -theory.expected_slam_slope(s, truth0, alpha))
    middle.set_title("Downhill, −gradient")
    _draw_field(figure, right, x, reach, lambda s: (2 * alpha - 1) * (truth0 - torch.sigmoid(s)))
    right.set_title("Algorithm 3's expected step")
    for axes in (left, middle, right):
        axes.set(xlabel="w₁    (w* points to the right)", aspect="equal")
    left.set_ylabel("w₂")
    return figure


def _plane(axis: np.ndarray) -> Tensor:
    """All weights (n², 2) of a square grid, w₁ running fastest."""
    first, second = np.meshgrid(axis, axis)
    return torch.from_numpy(np.stack([first.ravel(), second.ravel()], 1)).float()


def _draw_field(
    figure: Figure, axes: Axes, x: Tensor, reach: float, multiple: Callable[[Tensor], Tensor]
) -> None:
    """Arrows of unit length along the mean of multiple(w·x)·x, its length as the background."""
    axis = np.linspace(-reach, reach, 41)
    size = np.log10(np.linalg.norm(_field(axis, x, multiple), axis=2))
    shades = axes.contourf(
        axis, axis, size, levels=np.linspace(-3, -0.5, 11), cmap="cividis", extend="both"
    )
    figure.colorbar(shades, ax=axes, shrink=0.7, label="log₁₀ of its length", format="%.1f")
    coarse = np.linspace(-0.88 * reach, 0.88 * reach, 9)
    arrows = _field(coarse, x, multiple)
    arrows /= np.linalg.norm(arrows, axis=2, keepdims=True)
    axes.quiver(
        coarse, coarse, arrows[..., 0], arrows[..., 1],
        color="white", edgecolor="black", linewidth=0.4, scale=13, width=0.009, pivot="mid",
    )  # fmt: skip


def _field(axis: np.ndarray, x: Tensor, multiple: Callable[[Tensor], Tensor]) -> np.ndarray:
    """(n, n, 2)."""
    arrows = multiple(_plane(axis) @ x.T) @ x / len(x)
    return arrows.reshape(len(axis), len(axis), 2).numpy()


def draw_errors(simulations: Mapping[str, Simulation]) -> Figure:
    """Mean error of the last iterate against samples, one panel a problem."""
    figure, panels = new_figure(3.9 * len(simulations), 3.6, len(simulations), sharey=True)
    for axes, (title, simulation) in zip(panels, simulations.items(), strict=True):
        for name, trace in simulation.traces.items():
            colour, style, marker = _LOOKS[name]
            mean = np.maximum(trace.errors.mean(1), _LEAST_ERROR)
            axes.plot(simulation.steps, mean, color=colour, linestyle=style, marker=marker,
                      markersize=4, markevery=max(1, len(mean) // 8), label=name)  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="samples", ylim=(0.9 * _LEAST_ERROR, 0.7))
        axes.set_title(title, fontsize=10)
    panels[0].set_ylabel(
        f"error of the last iterate, mean of the runs\n(drawn at {_LEAST_ERROR:g} where less)"
    )
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def draw_claims(simulation: Simulation, cell: Cell) -> Figure:
    """w·w* and ‖w‖ of SLaM along the iterations, beside the two claims of the proof."""
    steps, trace = simulation.steps, simulation.traces["Slam"]
    figure, (left, right) = new_figure(8.4, 3.7, 2)
    _draw_band(left, steps, trace.correlation, "w·w*, median and quartiles")
    # The iterate after step t decides step t + 1; each kept one stands for those up to the next.
    summed = np.concatenate([[0.5], trace.errors.mean(1)])[:-1]
    below = theory.drift(cell.margin, cell.gap) * np.cumsum(np.diff(steps, prepend=0) * summed)
    left.plot(steps, below, color="black", linestyle="--", label="claim 1: (gap·γ/2)·Σ error")
    left.set(title="Claim 1: w·w* grows while w errs", ylabel="w·w*")
    _draw_band(right, steps, trace.norm, "‖w‖, median and quartiles")
    right.plot(
        steps, np.sqrt(theory.NORM_GROWTH * steps), color="black", linestyle="--",
        label="claim 2: √((2/e + 1)·T)",
    )  # fmt: skip
    right.set(title="Claim 2: ‖w‖ stays below √T", ylabel="‖w‖")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="steps T")
        axes.legend(frameon=False, fontsize=8)
    return figure


def draw_all(
    study: Study, rows: Sequence[StudyRow], folder: Path, device: str = "cpu"
) -> list[Path]:
    """Draw every picture of a study into ``folder``; gives the files."""
    base = Cell("near-margin", study.margin, study.epsilon, study.noise)
    problems = {
        f"ball, d = 30, γ = 0.1, η = {study.noise:g}": (
            NoisyHalfspace(Ball(30, 0.1), RandomNoise(study.noise)), 0.1,
        ),
        f"near-margin, d = {base.data().shape.dim}, γ = {base.margin:g}, η = {study.noise:g}": (
            base.data(), base.margin,
        ),
        f"Long–Servedio, d = 2, γ = 0.025, η = {study.noise:g}": (
            NoisyHalfspace(long_servedio(0.025), RandomNoise(study.noise)), 0.025,
        ),
    }  # fmt: skip
    steps = min(study.max_steps, 20_000)
    simulations = {
        title: simulate(
            data, all_rules(margin), runs=study.runs, steps=steps, seed=study.seed, keep=1.2,
            device=device,
        )
        for title, (data, margin) in problems.items()
    }  # fmt: skip
    figures = {
        "landscape": draw_landscape(),
        "errors": draw_errors(simulations),
        "claims": draw_claims(simulations[list(problems)[1]], base),
    }
    figures |= {f"samples-{shape}": draw_samples(study, rows, shape) for shape in study.shapes}
    return [
        path
        for name, figure in figures.items()
        for path in save_figure(figure, folder / name, dpi=95, fonts="none")
    ]


def draw_samples(study: Study, rows: Sequence[StudyRow], shape: str) -> Figure:
    """Samples until some iterate is good, against 1/γ, 1/ε and 1/(1−2η), with the fits."""
    figure, panels = new_figure(11, 3.7, 3, sharey=True)
    fits = {(f.variable, f.learner): f.best for f in exponents(study, rows) if f.shape == shape}
    for axes, (variable, cells) in zip(panels, study.sweeps(shape).items(), strict=True):
        axes.set(xscale="log", yscale="log", xlabel=SYMBOLS[variable])
        for learner in _LOOKS:
            _draw_sweep(axes, sweep_rows(rows, cells, learner), variable, learner)
            fit = fits[variable, learner]
            if fit is not None:
                ends = np.array([1 / getattr(cells[0], variable), 1 / getattr(cells[-1], variable)])
                colour, style, _ = _LOOKS[learner]
                axes.plot(ends, fit.constant * ends**fit.slope, color=colour, linestyle=style,
                          label=f"{learner}: {fit.slope:.2f}")  # fmt: skip
        places = [1 / getattr(cell, variable) for cell in cells]
        axes.set_xticks(places, [f"{place:.3g}" for place in places])
        axes.xaxis.set_minor_formatter(NullFormatter())
        _draw_theory(axes, places)
        axes.legend(frameon=False, fontsize=7, title="exponents", title_fontsize=8)
    panels[0].set_ylabel("samples until half of the runs\nhad an iterate with error ≤ ε")
    figure.suptitle(f"{shape}: γ = {study.margin:g}, ε = {study.epsilon:g}, η = {study.noise:g}, "
                    "but for the one that moves", fontsize=10)  # fmt: skip
    return figure


def _draw_sweep(axes: Axes, rows: Sequence[StudyRow], variable: str, learner: str) -> None:
    colour, _, marker = _LOOKS[learner]
    for row in rows:
        best = reached(row, "best")
        if best.steps is None:
            continue
        place = 1 / row[variable]
        axes.plot(place, best.steps, color=colour, marker=marker, markersize=4, linestyle="none")
        axes.plot(
            [place, place],
            [best.low or best.steps, best.high or best.steps],
            color=colour,
            linewidth=1,
        )


def _draw_theory(axes: Axes, places: Sequence[float]) -> None:
    """A line of slope 2 through the upper left corner's samples, for the eye."""
    low, high = axes.get_ylim()
    ends = np.array([min(places), max(places)])
    start = low * (high / low) ** 0.15
    axes.plot(ends, start * (ends / ends[0]) ** 2, color="black", linewidth=0.8, label="slope 2")


def _draw_band(axes: Axes, steps: np.ndarray, values: np.ndarray, label: str) -> None:
    colour, style, marker = _LOOKS["Slam"]
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=1)
    axes.plot(steps, middle, color=colour, linestyle=style, marker=marker, markersize=4,
              markevery=max(1, len(steps) // 8), label=label)  # fmt: skip
    axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
