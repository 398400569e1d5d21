"""The experiments behind ``noisyteacher halfspace``: what to run, cell by cell, and one row each.

A study can be killed and started again: rows are appended as they are finished, and a cell whose
rows are there is not run twice.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import append_line
from noisyteacher.core.integrity import seal
from noisyteacher.core.machine import commit, hardware, versions
from noisyteacher.halfspace.conditions import check_count, check_fraction, check_margin, check_noise
from noisyteacher.halfspace.learner import holdout_size
from noisyteacher.halfspace.rules import Backward, Logistic, Perceptron, Perspectron, Rule, Slam
from noisyteacher.halfspace.shapes import Ball, Gaussian, NearMargin, Shape, Sphere
from noisyteacher.halfspace.simulation import simulate, steps_to_error
from noisyteacher.halfspace.stream import NoisyHalfspace, RandomNoise
from noisyteacher.runs import RunFolder
from noisyteacher.runs.rows import read_lines

SHAPES = ("near-margin", "ball", "sphere", "gaussian")
StudyRow = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One problem: a shape, its margin γ, the error ε asked for, the noise rate η."""

    shape: str
    margin: float
    epsilon: float
    noise: float

    @classmethod
    def of(cls, row: StudyRow) -> Cell:
        """The cell that a row was measured on."""
        return cls(*(row[name] for name in _CELL_FIELDS))

    @property
    def gap(self) -> float:
        """|2α − 1|."""
        return 1.0 - 2.0 * self.noise

    def data(self) -> NoisyHalfspace:
        """The near-margin shape follows γ and ε, to stay hard; the others have 30 dimensions."""
        return NoisyHalfspace(self._shape(), RandomNoise(self.noise))

    def _shape(self) -> Shape:
        if self.shape == "near-margin":
            dim = math.ceil(1.0 / self.margin**2 - 1e-9) + 1
            return NearMargin(dim, self.margin, rare=min(1.0, 4.0 * self.epsilon))
        kinds = {"ball": Ball, "sphere": Sphere, "gaussian": Gaussian}
        return kinds[self.shape](30, self.margin)

    def seed(self, study_seed: int) -> int:
        """A seed of its own, so that the cells' errors are independent."""
        name = zlib.crc32(repr(self).encode())
        return int(np.random.SeedSequence((study_seed, name)).generate_state(1)[0])

    def steps(self, constant: float) -> int:
        """The theorem's T with this constant: constant / (gap·γ·ε)²."""
        return math.ceil(constant / (self.gap * self.margin * self.epsilon) ** 2)


_CELL_FIELDS = tuple(f.name for f in fields(Cell))


def all_rules(margin: float) -> dict[str, Rule]:
    """The learners with their anytime step sizes, by name."""
    return {
        "Slam": Slam(),
        "Backward": Backward(),
        "Backward, λ = η": Backward(slack=0.0),
        "Perspectron": Perspectron(margin),
        "Logistic": Logistic(),
        "Perceptron": Perceptron(),
    }


@dataclass(frozen=True)
class Study:
    """What to measure. Each sweep moves one of γ, ε, η away from the base point."""

    shapes: tuple[str, ...] = ("near-margin", "ball")
    margin: float = 0.2
    epsilon: float = 0.05
    noise: float = 0.2
    margins: tuple[float, ...] = (0.28, 0.2, 0.14, 0.1, 0.07)
    epsilons: tuple[float, ...] = (0.1, 0.05, 0.025, 0.0125)
    noises: tuple[float, ...] = (0.1, 0.2, 0.3, 0.35, 0.4)
    runs: int = 200
    max_steps: int = 65_000
    constant: float = 0.25  # a cell runs for constant / (gap·γ·ε)² steps, at most max_steps
    guarantee_shapes: tuple[str, ...] = SHAPES
    guarantee_margins: tuple[float, ...] = (0.4, 0.2, 0.1)
    guarantee_epsilons: tuple[float, ...] = (0.1, 0.05)
    guarantee_noises: tuple[float, ...] = (0.1, 0.3)
    guarantee_runs: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        for shape in (*self.shapes, *self.guarantee_shapes):
            if shape not in SHAPES:
                raise InputError(f"There is no shape {shape!r}; choose from {', '.join(SHAPES)}.")
        for margin in (self.margin, *self.margins, *self.guarantee_margins):
            check_margin(margin)
        for epsilon in (self.epsilon, *self.epsilons, *self.guarantee_epsilons):
            check_fraction("epsilon", epsilon)
        for noise in (self.noise, *self.noises, *self.guarantee_noises):
            check_noise(noise)
        for name in ("runs", "max_steps", "guarantee_runs"):
            check_count(name, getattr(self, name))
        if self.seed < 0:
            raise InputError(f"The seed must not be negative, and {self.seed} is.")

    def sweeps(self, shape: str) -> dict[str, list[Cell]]:
        """The cells by the variable that moves: "margin", "epsilon" or "gap"."""
        base = Cell(shape, self.margin, self.epsilon, self.noise)
        return {
            "margin": [replace(base, margin=margin) for margin in self.margins],
            "epsilon": [replace(base, epsilon=epsilon) for epsilon in self.epsilons],
            "gap": [replace(base, noise=noise) for noise in self.noises],
        }

    def jobs(self) -> list[tuple[str, Cell]]:
        """All cells of all sweeps, each once, and the grid on which the theorem is tried."""
        swept = [c for shape in self.shapes for sweep in self.sweeps(shape).values() for c in sweep]
        axes = (self.guarantee_shapes, self.guarantee_margins)
        grid = product(*axes, self.guarantee_epsilons, self.guarantee_noises)
        samples = [("samples", cell) for cell in dict.fromkeys(swept)]
        return samples + [("guarantee", Cell(*values)) for values in grid]


def smoke_study() -> Study:
    """The whole way in seconds; its numbers mean little."""
    return Study(
        shapes=("near-margin",),
        margins=(0.5, 0.4, 0.3),
        epsilons=(0.2, 0.1, 0.05),
        noises=(0.05, 0.1, 0.2),
        margin=0.4,
        epsilon=0.1,
        noise=0.1,
        runs=20,
        max_steps=600,
        guarantee_shapes=("near-margin",),
        guarantee_margins=(0.4,),
        guarantee_epsilons=(0.1,),
        guarantee_noises=(0.1,),
        guarantee_runs=40,
    )


def measure_samples(cell: Cell, study: Study, device: str = "cpu") -> list[StudyRow]:
    """Samples to error ε of every learner on one cell: one row each."""
    started = time.perf_counter()
    steps = min(cell.steps(study.constant), study.max_steps)
    seed = cell.seed(study.seed)
    rules = all_rules(cell.margin)
    result = simulate(cell.data(), rules, runs=study.runs, steps=steps, seed=seed, device=device)
    common = _row("samples", cell, study.runs, steps, seed, device)
    common["seconds"] = round(time.perf_counter() - started, 2)  # of all learners together
    return [
        common
        | {
            "learner": name,
            "rule": repr(rules[name]),
            "best": asdict(steps_to_error(result.steps, trace.best, cell.epsilon, seed)),
            "last": asdict(steps_to_error(result.steps, trace.errors, cell.epsilon, seed)),
        }
        for name, trace in result.traces.items()
    ]


def measure_guarantee(cell: Cell, study: Study, device: str = "cpu") -> list[StudyRow]:
    """How often SLaM has, and how often the hold-out finds, an iterate with error at most ε."""
    started = time.perf_counter()
    runs, seed = study.guarantee_runs, cell.seed(study.seed)
    steps = min(cell.steps(study.constant), study.max_steps)
    holdout = min(holdout_size(cell.epsilon, cell.gap, candidates=100), study.max_steps)
    result = simulate(
        cell.data(), {"Slam": Slam()}, runs=runs, steps=steps, seed=seed, holdout=holdout,
        device=device,
    )  # fmt: skip
    row = _row("guarantee", cell, runs, steps, seed, device) | {
        "learner": "Slam",
        "rule": repr(Slam()),
        "holdout": holdout,
        "exists": float((result.traces["Slam"].best[-1] <= cell.epsilon).mean()),
        "chosen": float((result.chosen_errors["Slam"] <= cell.epsilon).mean()),
    }
    row["seconds"] = round(time.perf_counter() - started, 2)
    return [row]


def _row(kind: str, cell: Cell, runs: int, steps: int, seed: int, device: str) -> StudyRow:
    shape = cell.data().shape
    return {
        "recipe": "halfspace",
        "kind": kind,
        **asdict(cell),
        "gap": cell.gap,
        "dim": shape.dim,
        "rare": shape.rare if isinstance(shape, NearMargin) else None,
        "runs": runs,
        "steps": steps,
        "seed": seed,
        "hardware": hardware(device),
        "versions": versions(),
        "commit": commit(),
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


Measurement = Callable[[Cell, Study, str], list[StudyRow]]
_MEASUREMENTS: dict[str, Measurement] = {
    "samples": measure_samples,
    "guarantee": measure_guarantee,
}


def load_rows(folder: Path) -> list[StudyRow]:
    """The rows that are there; a last line that was cut off is ignored."""
    return read_lines(RunFolder(folder).results, _parse_row)


def _parse_row(value: Any) -> StudyRow:
    if not isinstance(value, dict) or not {"kind", *_CELL_FIELDS} <= value.keys():
        raise TypeError(f"it has no {', '.join(_CELL_FIELDS)}")
    return value


def run_study(
    study: Study, folder: Path, *, device: str = "cpu", until: float = math.inf
) -> Iterator[tuple[int, int, str]]:
    """Run what is missing, yielding (cells done, cells in all, what was done) after each cell.

    Stops before the next cell once ``time.monotonic()`` has passed ``until``.
    """
    if device not in ("cpu", "cuda"):
        raise InputError(f"The device must be cpu or cuda, not {device!r}.")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("The device cuda was requested, but this machine has no GPU.")
    run = RunFolder(folder)
    with run.lock():
        run.claim(asdict(study))
        jobs, total = missing_cells(study, folder), len(study.jobs())
        for done, (kind, cell) in enumerate(jobs, total - len(jobs) + 1):
            if time.monotonic() > until:
                return
            rows = _MEASUREMENTS[kind](cell, study, device)
            # One write for the whole cell, so that a killed run leaves all of its rows or none.
            append_line(run.results, b"\n".join(orjson.dumps(seal(row)) for row in rows))
            yield done, total, f"{kind}: {describe(cell)}"


def missing_cells(study: Study, folder: Path) -> list[tuple[str, Cell]]:
    """What is still to be run, as (kind, cell)."""
    finished = [(row["kind"], Cell.of(row)) for row in load_rows(folder)]
    return [job for job in study.jobs() if job not in finished]


def describe(cell: Cell) -> str:
    """One short line for a progress report."""
    return f"{cell.shape}, γ={cell.margin:g}, ε={cell.epsilon:g}, η={cell.noise:g}"
