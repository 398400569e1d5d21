"""Choose hyper-parameters on S, which no training and no noise model has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from noisyteacher.core.errors import InputError
from noisyteacher.methods import Method
from noisyteacher.train.config import TrainConfig
from noisyteacher.train.engine import Trained, train
from noisyteacher.train.job import Job, TrainData


@dataclass(frozen=True)
class Tuned:
    """The method that did best, and how every candidate did (percent, in the grid's order)."""

    best: Method
    scores: tuple[tuple[Method, float], ...]
    judged_on: str
    students: tuple[Trained, ...]


def expand(method: Method, grid: Mapping[str, Sequence[object]]) -> list[Method]:
    """Every combination of the grid's values; ``"inner.lower_bound"`` reaches into a wrapper."""
    if not grid:
        raise InputError("The grid is empty.")
    empty = [name for name, values in grid.items() if not len(values)]
    if empty:
        raise InputError(f"The grid has no value for {empty[0]!r}.")
    candidates = []
    for values in product(*grid.values()):
        candidate = method
        for name, value in zip(grid, values, strict=True):
            candidate = _with_field(candidate, name.split("."), value)
        candidates.append(candidate)
    return candidates


def _with_field(owner: Any, path: list[str], value: object) -> Any:
    known = [f.name for f in fields(owner)] if is_dataclass(owner) else []
    if path[0] not in known:
        raise InputError(
            f"{owner!r} has no hyper-parameter {path[0]!r}; it has {', '.join(known) or 'none'}."
        )
    if len(path) > 1:
        value = _with_field(getattr(owner, path[0]), path[1:], value)
    return replace(owner, **{path[0]: value})


def tune(
    method: Method,
    grid: Mapping[str, Sequence[object]],
    make_job: Callable[[Method], Job],
    data: TrainData,
    config: TrainConfig,
    *,
    out: str | Path | None = None,
    device: str | None = None,
    cohort: int = 8,
    quiet: bool = False,
    paper_protocol: bool = False,
) -> Tuned:
    """Train the whole grid (as cohorts on a GPU) and keep what does best on S.

    ``make_job`` turns one candidate into a job; its name must tell the candidates apart. A
    candidate's score is its accuracy on S at the epoch that S itself picks. ``paper_protocol``
    compares by the best test epoch instead: for reproducing the paper's tables, never for a claim.
    """
    candidates = expand(method, grid)
    jobs = [make_job(candidate) for candidate in candidates]
    if not paper_protocol and any(len(job.selection) == 0 for job in jobs):
        raise InputError("Tuning needs the selection set S, and a job has none.")
    if paper_protocol and data.test_y is None:
        raise InputError("paper_protocol needs a test part, and there is none.")
    students = train(jobs, data, config, out=out, device=device, cohort=cohort, quiet=quiet)
    scores = [_score(student, paper_protocol) for student in students]
    best = max(range(len(candidates)), key=lambda i: scores[i])
    return Tuned(
        candidates[best],
        tuple(zip(candidates, scores, strict=True)),
        "the best test epoch" if paper_protocol else "S",
        tuple(students),
    )


def _score(student: Trained, paper_protocol: bool) -> float:
    records = student.history.curve
    seen = [r.test if paper_protocol else r.selection for r in records]
    # A student that failed before its first evaluation can never be the best.
    return max((value for value in seen if value is not None), default=float("-inf"))
