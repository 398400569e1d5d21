"""What methods cost: preparation for 45 000 pool rows, and SLaM's step against vanilla's.

    python benchmarks/methods.py --csv benchmarks/methods.csv

Preparation (noise model and all, passes of models excluded) is measured for every method on
100 classes; the step for ResNet-56 v1, 100 classes, batch 256, both students in the same run, in
turns, so that neither has the better moment.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch

from engine import CLASSES, jobs_for, make_data
from measuring import parser_of, told, write_csv
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    ALL_METHODS,
    Fidelity,
    Method,
    Rows,
    SLaM,
    Temperature,
    Vanilla,
    fit_and_prepare,
)
from noisyteacher.train import TrainConfig
from noisyteacher.train.distributed import Processes
from noisyteacher.train.job import DeviceData
from noisyteacher.train.student_run import StudentRun

GOLD, VAL, POOL = 5_000, 500, 45_000
# Methods without defaults of their own.
ARGUMENTS = {Fidelity: {"beta": 1.0}, Temperature: {"t_a": 1.0, "t_b": 2.0}}


def make_problem(seed: int = 0) -> tuple[Rows, TeacherLabels]:
    """A teacher that is right about half of the time, with all the extras a method may need."""
    rng = np.random.default_rng(seed)
    n = GOLD + VAL + POOL
    truth = rng.integers(0, CLASSES, n)
    logits = rng.normal(size=(n, CLASSES)).astype(np.float32)
    logits[np.arange(n), truth] += rng.exponential(2.5, n).astype(np.float32)
    views = rng.dirichlet(np.ones(CLASSES), (n, 2)).astype(np.float32)
    extras = {
        "embedding": rng.normal(size=(n, 64)).astype(np.float32),
        "view_mean": views,
        "view_std": (0.1 * views).astype(np.float32),
    }
    labels = TeacherLabels.from_logits(np.arange(n), logits, extras=extras)
    y = np.where(np.arange(n) < GOLD + VAL, truth, -1)
    val = np.arange(GOLD, GOLD + VAL)
    return Rows(np.arange(n), y, val, truth[val], CLASSES), labels


def prepare_seconds(method: Method, rows: Rows, labels: TeacherLabels) -> dict[str, float]:
    began = time.perf_counter()
    columns = fit_and_prepare(method, rows, labels).columns
    result = {"prepare_seconds": time.perf_counter() - began}
    if method.refresh_every():
        probs = torch.rand(len(columns), CLASSES).softmax(1)
        val = torch.rand(len(rows.val_ids), CLASSES).softmax(1)
        began = time.perf_counter()
        method.refresh(probs, val, columns)
        result["refresh_seconds"] = time.perf_counter() - began
    return result


def step_ratio(device: str, rounds: int, steps: int) -> dict[str, float]:
    """Median seconds of SLaM's and vanilla's step, and their ratio."""
    data, labels, y = make_data(6_000)
    config = TrainConfig(epochs=1, batch_size=256, steps_per_epoch=steps)
    shared = DeviceData.build(data, torch.device(device))
    runs = {}
    for method in (Vanilla(), SLaM()):
        (job,) = jobs_for([method], 56, data, labels, y)
        runs[method] = StudentRun(job, shared, config, Processes())
        if device == "cuda":
            runs[method].capture()
    seconds: dict[Method, list[float]] = {method: [] for method in runs}
    for _ in range(rounds + 1):
        for method, run in runs.items():
            run.start_epoch(0)
            run.join_stream()
            began = time.perf_counter()
            for step in range(steps):
                run.advance(step)
            run.join_stream()
            seconds[method].append((time.perf_counter() - began) / steps)
    vanilla, slam = (statistics.median(seconds[m][1:]) for m in runs)
    return {"vanilla_step": vanilla, "slam_step": slam, "slam_over_vanilla": slam / vanilla}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    found: list[dict[str, object]] = []

    def add(what: str, figures: dict[str, float]) -> None:
        found.extend(told({"what": what, "measure": m, "value": v}) for m, v in figures.items())

    rounds, steps = (20, 50) if args.device == "cuda" else (5, 1)
    add("step", step_ratio(args.device, rounds, steps))
    rows, labels = make_problem()
    for kind in ALL_METHODS:
        method = kind(**ARGUMENTS.get(kind, {}))
        add(repr(method), prepare_seconds(method, rows, labels))
    write_csv(args.csv, found, args.device)


if __name__ == "__main__":
    main()
