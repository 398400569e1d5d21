"""Figures as SVG and PNG: the paper's comparisons from results lines, and a run's α(x).

Colour-blind safe, and readable in black and white.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from noisyteacher.bench.result_lines import Line, TrialMean, lead, teacher_accuracies
from noisyteacher.core.files import write_atomic
from noisyteacher.methods import Fidelity, Method, PolyLoss, SLaM, TaylorCE, Temperature, Vanilla
from noisyteacher.methods.robust import default_neighbours
from noisyteacher.noise import TeacherNoise, confidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noisyteacher.labels import TeacherLabels

# Okabe and Ito's colours; markers and dashes tell the lines apart where colours cannot.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
GREY = "#777777"

# Labels of one store are a little better or worse without a larger A: no other teacher.
_TEACHERS_DIFFER = 1.0
_ACCURACY = "test accuracy, last epoch (%)"


def save_figure(
    figure: Figure, stem: str | Path, *, dpi: int = 150, fonts: str = "path"
) -> list[Path]:
    """Write ``stem.svg`` and ``stem.png``, each whole or not at all; gives the two files.

    ``fonts`` is "path", which looks the same everywhere, or "none" for text as text.
    """
    written = []
    # Without a date and random names inside, the same rows give the same bytes.
    with rc_context({"svg.hashsalt": "noisyteacher", "svg.fonttype": fonts}):
        for kind, metadata in (("svg", {"Date": None}), ("png", {})):
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
            written.append(Path(f"{stem}.{kind}"))
            write_atomic(written[-1], buffer.getvalue())
    return written


def new_figure(
    width: float, height: float, panels: int = 1, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with a row of panels, which have no frame where there is nothing to read off."""
    figure = Figure(figsize=(width, height), layout="constrained")
    row = list(figure.subplots(1, panels, squeeze=False, **shared)[0])
    for axes in row:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, row


def draw_alpha_curve(
    noise: TeacherNoise, labels: TeacherLabels, y: np.ndarray, stem: str | Path
) -> None:
    """α against the teacher's margin: isotonic and k nearest neighbours, over V's answers."""
    margins = np.asarray(confidence(labels, 1, noise.metric))
    right = np.asarray(labels.hard == y)
    figure, (axes,) = new_figure(6, 4.4)
    grid = np.linspace(margins.min(), margins.max(), 400)
    # One tick per example, at 1 where the teacher is right; jittered so that they show.
    jitter = np.random.default_rng(0).uniform(-0.03, 0.03, len(margins))
    ticks: dict[str, Any] = {"s": 9, "marker": "|", "color": GREY, "alpha": 0.6}
    axes.scatter(margins, right + jitter, label="V: right (1), wrong (0)", **ticks)
    near = default_neighbours(len(y))
    dashed: dict[str, Any] = {"color": COLOURS[1], "linewidth": 1, "linestyle": "--"}
    means = nearest_mean(margins, right, grid, near)
    axes.plot(grid, means, label=f"mean of the {near} nearest", **dashed)
    steps: dict[str, Any] = {"where": "post", "color": COLOURS[0], "linewidth": 2.2}
    axes.step(grid, noise.alpha_curve_.predict(grid), label="α(x), isotonic", **steps)
    if not isinstance(noise.lower_bound, str):
        axes.axhline(noise.lower_bound, color=GREY, linestyle=":", label="lower bound")
    axes.set(
        xlabel=f"teacher's {noise.metric}",
        ylabel="chance that the teacher is right",
        ylim=(-0.06, 1.06),
        title=f"How far to trust the teacher ({len(y)} validation examples)",
    )
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save_figure(figure, stem)


def nearest_mean(x: np.ndarray, values: np.ndarray, at: np.ndarray, near: int) -> np.ndarray:
    """(n,), (n,), (m,) -> (m,) mean value of the ``near`` nearest points."""
    order = np.argsort(np.abs(at[:, None] - x[None, :]), axis=1, kind="stable")[:, :near]
    return np.asarray(values[order].mean(1))


def draw_sizes(title: str, kind: str | None, found: Sequence[Line]) -> Figure | None:
    """Accuracy against the size of A, of every method that ran with two sizes or more.

    The paper's best test epochs of that kind stand hollow beside them. What ran with one size only
    makes no line; the rankings show it.
    """
    named: dict[str, list[Line]] = {}
    for line in _in_overview(found):
        named.setdefault(_short_name(line), []).append(line)
    groups = {name: group for name, group in named.items() if len({x.labeled for x in group}) > 1}
    kept = [x for group in groups.values() for x in group]
    if not any(x.distillation == kind for x in kept):
        return None
    figure, (axes,) = new_figure(7.5, 4.6 + 0.2 * len(groups))
    sizes = sorted({x.labeled for x in kept})
    hollow: str | None = "hollow: the paper's best test epoch"
    for i, (name, group) in enumerate(groups.items()):
        _draw_line(axes, group, sizes, line_look(i), name)
        printed = [(x.labeled, paper.mean) for x in group if (paper := x.paper_in(kind))]
        if printed:
            look = line_look(i) | {"markerfacecolor": "white", "linestyle": "none"}
            axes.plot(*zip(*printed, strict=True), **look, label=hollow)
            hollow = None
    teachers = {size: teacher_accuracies([x for x in kept if x.labeled == size]) for size in sizes}
    single = [(size, values[0]) for size, values in teachers.items() if len(values) == 1]
    if single:
        axes.plot(
            *zip(*single, strict=True), color=GREY, linestyle="--", linewidth=1, label="the teacher"
        )
    _finish(axes, "", sizes)
    figure.suptitle(title, fontsize=11)
    # Names can be as long as the figure is wide.
    figure.legend(loc="outside lower left", frameon=False, fontsize=8)
    return figure


def draw_ranking(title: str, kind: str | None, found: Sequence[Line]) -> Figure | None:
    """One size of A: a row per method, the best on top, the paper's figure hollow beside it."""
    ranked = sorted(_in_overview(found), key=Line.mean)
    if not ranked:
        return None
    cells = [c for x in ranked if (c := x.accuracy["last"]) is not None]
    figure, (axes,) = new_figure(8.5, 1.6 + 0.32 * len(ranked))
    points = line_look(0) | {"linestyle": "none", "capsize": 2, "label": "here, last epoch"}
    means, stds = [c.mean for c in cells], [c.std or 0.0 for c in cells]
    axes.errorbar(means, range(len(ranked)), xerr=stds, **points)
    printed = [(paper.mean, i) for i, x in enumerate(ranked) if (paper := x.paper_in(kind))]
    if printed:
        hollow = line_look(1) | {"markerfacecolor": "white", "linestyle": "none"}
        axes.plot(*zip(*printed, strict=True), **hollow, label="the paper, best test epoch")
    for i, accuracy in enumerate(teacher_accuracies(ranked)):
        label = "_" if i else "the teacher"
        axes.axvline(accuracy, color=COLOURS[-1], linestyle="--", linewidth=1, label=label)
    axes.set(xlabel="test accuracy (%); in brackets: trials", ylim=(-0.6, len(ranked) - 0.4))
    figure.suptitle(f"{title}, {ranked[0].labeled} labels", fontsize=11)
    names = [f"{_short_name(x)} ({x.trials})" for x in ranked]
    axes.set_yticks(range(len(ranked)), names, fontsize=8)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower right", ncols=3, frameon=False, fontsize=8)
    return figure


def draw_other_losses(title: str, found: Sequence[Line]) -> Figure | None:
    """Each base loss that ran, alone and inside SLaM: one panel per loss, Taylor-CE among them."""
    pairs: dict[str, tuple[Method, Method]] = {
        "cross-entropy": (Vanilla(), SLaM()),
        "Taylor-CE, order 2": (TaylorCE(), SLaM(base=TaylorCE())),
        "PolyLoss, ε = 2": (PolyLoss(), SLaM(base=PolyLoss())),
    }
    ran = {name: [_of(found, method) for method in pair] for name, pair in pairs.items()}
    alone, inside = ({x.labeled for x in group} for group in ran["Taylor-CE, order 2"])
    sizes = sorted(alone & inside)
    if not sizes:
        return None
    shown = {
        name: groups
        for name, groups in ran.items()
        if any(x.labeled in sizes for group in groups for x in group)
    }
    figure, panels = new_figure(1 + 3 * len(shown), 3.6, len(shown), sharey=True)
    for axes, (name, groups) in zip(panels, shown.items(), strict=True):
        for i, group in enumerate(groups):
            _draw_line(axes, group, sizes, line_look(1 - i), "with SLaM" if i else "alone")
        _finish(axes, name, sizes)
        axes.legend(frameon=False, fontsize=8)
    for axes in panels[1:]:
        axes.set_ylabel("")
    figure.suptitle(title)
    return figure


def draw_fidelity(title: str, found: Sequence[Line]) -> Figure | None:
    """Fidelity weighting alone and with SLaM, over β, one group of β per size of A."""
    weighted = [(m, x) for x in found if isinstance(m := x.parsed, Fidelity)]
    if not weighted:
        return None
    sizes = sorted({x.labeled for _, x in weighted})
    betas = sorted({m.beta for m, _ in weighted})
    place = {
        (s, b): i * (len(betas) + 1) + j for i, s in enumerate(sizes) for j, b in enumerate(betas)
    }
    figure, (axes,) = new_figure(max(6.0, 0.45 * len(place) + 2), 4)
    for i, (inner, label) in enumerate(((Vanilla(), "fidelity"), (SLaM(), "fidelity + SLaM"))):
        for size in sizes:
            group = [(m, x) for m, x in weighted if x.labeled == size and m.inner == inner]
            group.sort(key=lambda pair: pair[0].beta)
            at = [place[size, m.beta] for m, _ in group]
            cells = [x.accuracy["last"] for _, x in group]
            _draw_cells(axes, at, cells, line_look(1 - i), label if size == sizes[0] else None)
    unnamed: str | None = "SLaM alone"
    for line in _of(found, SLaM()):
        value = line.accuracy["last"]
        if line.labeled in sizes and value is not None:
            ends = [place[line.labeled, betas[0]] - 0.4, place[line.labeled, betas[-1]] + 0.4]
            axes.plot(ends, [value.mean] * 2, color=COLOURS[2], linewidth=2.5, label=unnamed)
            unnamed = None
    axes.set(ylabel=_ACCURACY, title=title)
    axes.set_xticks(list(place.values()), [f"{b:g}" for _, b in place], rotation=90, fontsize=8)
    for size in sizes:
        middle = (place[size, betas[0]] + place[size, betas[-1]]) / 2
        below = ("data", "axes fraction")
        _annotate(axes, f"{size} labels", (middle, 0), (0, 6), xycoords=below, ha="center")
    axes.set_xlabel("β, for each size of A")
    axes.margins(y=0.15)
    axes.legend(frameon=False, fontsize=8)
    return figure


def draw_temperature(title: str, found: Sequence[Line]) -> Figure | None:
    """The best pair of temperatures per size of A, vanilla and SLaM, by the paper's protocol."""
    tempered = [
        (m, x)
        for x in found
        if isinstance(m := x.parsed, Temperature) and x.accuracy["best_test"] is not None
    ]
    if not tempered:
        return None
    sizes = sorted({x.labeled for _, x in tempered})
    figure, (axes,) = new_figure(6.5, 4.2)
    for i, (inner, label) in enumerate(((Vanilla(), "vanilla"), (SLaM(), "SLaM"))):
        groups: dict[int, list[tuple[Temperature, Line]]] = {}
        for m, x in tempered:
            if m.inner == inner:
                groups.setdefault(x.labeled, []).append((m, x))
        best = [max(group, key=lambda pair: pair[1].mean("best_test")) for group in groups.values()]
        if best:
            tried = max(map(len, groups.values()))
            name = f"{label}, best of {tried} pairs of temperatures"
            lines = [x for _, x in best]
            _draw_line(axes, lines, sizes, line_look(1 - i), name, accuracy="best_test")
        for m, x in best:
            at = (x.labeled, x.mean("best_test"))
            pair = f"$t_A$={m.t_a:g}, $t_B$={m.t_b:g}"
            _annotate(axes, pair, at, (0, 8 if i else -14), ha="center", fontsize=7)
    _finish(axes, title, sizes)
    axes.set_ylabel("test accuracy, best test epoch (%)")
    axes.margins(x=0.12, y=0.2)
    axes.legend(frameon=False, fontsize=8)
    return figure


def draw_gain(title: str, found: Sequence[Line]) -> Figure | None:
    """SLaM's lead over vanilla distillation against the teacher's accuracy."""
    figure, (axes,) = new_figure(6, 4)
    for i, hard in enumerate((False, True)):
        points = _gains(found, hard)
        if len(points) > 1 and points[-1][0] - points[0][0] >= _TEACHERS_DIFFER:
            teacher, leads = zip(*points, strict=True)
            label = "hard labels" if hard else "soft labels"
            _draw_cells(axes, teacher, leads, line_look(i), label)
            for at, gain in points:
                _annotate(axes, f"({gain.n})", (at, gain.mean), (6, 6))
    if not axes.lines:
        return None
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(
        xlabel="teacher's test accuracy (%); in brackets: trials",
        ylabel="SLaM minus vanilla, last epoch (points)",
        title=title,
    )
    axes.legend(frameon=False)
    return figure


def _gains(found: Sequence[Line], hard: bool) -> list[tuple[float, TrialMean]]:
    """(teacher's accuracy, lead) per size of A that has a trial of both."""
    slam = {x.labeled: x for x in _of(found, SLaM(hard=hard))}
    points = [
        (x.teacher_accuracy, gain)
        for x in _of(found, Vanilla(hard=hard))
        if x.labeled in slam
        and x.teacher_accuracy is not None
        and (gain := lead(slam[x.labeled], x)) is not None
    ]
    return sorted(points, key=lambda point: point[0])


# -- parts ----------------------------------------------------------------------------------------


def line_look(i: int) -> dict[str, Any]:
    """Colour, marker and dashes of line number i."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        "marker": MARKERS[i % len(MARKERS)],
        "linestyle": DASHES[i % len(DASHES)],
    }


def _in_overview(found: Sequence[Line]) -> list[Line]:
    """Grids of fidelity and temperature have figures of their own."""
    finished = [x for x in found if x.accuracy["last"] is not None]
    return [x for x in finished if not isinstance(x.parsed, Fidelity | Temperature)]


def _of(found: Sequence[Line], method: Method) -> list[Line]:
    return [x for x in found if x.parsed == method]


def _short_name(line: Line) -> str:
    """Without the repetition of gold, which all lines of a figure share and its title tells."""
    return line.name.removesuffix(f", gold ×{line.gold_repeat}")


def _draw_line(
    axes: Axes,
    group: Sequence[Line],
    sizes: Sequence[int],
    look: dict[str, Any],
    label: str,
    accuracy: str = "last",
) -> None:
    """Over all sizes of the figure: a line that went on over a size not run would tell of it."""
    by_size = {x.labeled: x.accuracy[accuracy] for x in group}
    _draw_cells(axes, sizes, [by_size.get(size) for size in sizes], look, label)


def _draw_cells(
    axes: Axes,
    at: Sequence[float],
    cells: Sequence[TrialMean | None],
    look: dict[str, Any],
    label: str | None,
) -> None:
    if any(cells):
        means = [nan if c is None else c.mean for c in cells]
        stds = [nan if c is None else c.std or 0.0 for c in cells]
        axes.errorbar(at, means, yerr=stds, capsize=2, label=label, **look)


def _annotate(
    axes: Axes, text: str, at: tuple[float, float], shift: tuple[int, int], **look: Any
) -> None:
    """Write a text beside a point, ``shift`` in typographic points."""
    axes.annotate(text, at, **({"fontsize": 8} | look), xytext=shift, textcoords="offset points")


def _finish(axes: Axes, title: str, sizes: Sequence[int]) -> None:
    axes.set(xlabel="size of A (gold labels)", ylabel=_ACCURACY, title=title)
    axes.xaxis.set_major_locator(FixedLocator(list(sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelrotation=45 if len(sizes) > 3 else 0)
