"""Speed of many halfspace runs against the plain way, a NumPy loop over single examples.

    python benchmarks/halfspace.py --csv results/halfspace/speed.csv

Both draw fresh points of the unit ball with a margin, add noise and take a SLaM step for each of
1 000 runs x 40 000 steps in d = 30 dimensions. The loop is timed on fewer steps and scaled up;
it is timed before and after, and the ratio uses the mean, because the machine may be shared.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np

from measuring import parser_of, write_csv
from noisyteacher.core.machine import hardware, versions
from noisyteacher.halfspace import Ball, NoisyHalfspace, RandomNoise, Slam, simulate

DIM, MARGIN, NOISE = 30, 0.05, 0.3
LOOP_EXAMPLES = 20_000


def vectorised(runs: int, steps: int, device: str) -> tuple[float, float, float]:
    """Seconds for all runs, processor seconds, and the mean error of the last iterates."""
    data = NoisyHalfspace(Ball(DIM, MARGIN), RandomNoise(NOISE))
    started, worked = time.perf_counter(), time.process_time()
    result = simulate(data, {"Slam": Slam()}, runs=runs, steps=steps, keep=2.0, device=device)
    error = float(result.traces["Slam"].errors[-1].mean())
    return time.perf_counter() - started, time.process_time() - worked, error


def numpy_loop(examples: int) -> float:
    """Seconds for so many single steps of one run, as one would write it down first."""
    rng = np.random.default_rng(0)
    w = np.zeros(DIM)
    alpha = 1 - NOISE
    started = time.perf_counter()
    for _ in range(examples):
        while True:
            x = rng.standard_normal(DIM)
            x *= rng.random() ** (1 / DIM) / np.linalg.norm(x)
            if abs(x[0]) >= MARGIN:
                break
        right = rng.random() < alpha
        y0 = float((x[0] > 0) == right)
        f = 1 / (1 + np.exp(-(w @ x)))
        w += (y0 - (alpha * f + (1 - alpha) * (1 - f))) * x
    return time.perf_counter() - started


def main() -> None:
    """Print the table and, on request, write it as CSV."""
    parser = parser_of(__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()

    vectorised(arguments.runs, 200, arguments.device)  # first calls load libraries
    before = numpy_loop(LOOP_EXAMPLES)
    seconds, worked, error = vectorised(arguments.runs, arguments.steps, arguments.device)
    after = numpy_loop(LOOP_EXAMPLES)
    examples = arguments.runs * arguments.steps
    loop = (before + after) / 2 / LOOP_EXAMPLES * examples
    load = os.getloadavg()[0]
    header = ("what", "seconds", "examples per second", "times faster", "note")
    rows = [
        ["noisyteacher", f"{seconds:.1f}", f"{examples / seconds:.3g}", f"{loop / seconds:.1f}",
         f"{arguments.runs} runs x {arguments.steps} steps, d = {DIM}; {worked:.1f} processor "
         f"seconds; mean error {error:.4f}"],
        ["NumPy loop", f"{loop:.0f}", f"{examples / loop:.3g}", "1.0",
         f"scaled up from {2 * LOOP_EXAMPLES} examples"],
        ["machine", "", "", "", f"{hardware(arguments.device)}; load {load:.1f}; "
         + ", ".join(f"{name} {version}" for name, version in versions().items())],
    ]  # fmt: skip
    for row in (header, *rows):
        print("  ".join(f"{cell:<20}" for cell in row[:4]) + row[4])
    write_csv(arguments.csv, [dict(zip(header, row, strict=True)) for row in rows], None)
    if seconds > 30 or loop / seconds < 20:
        print("Slower than 30 s, or less than 20 times the loop.", file=sys.stderr)


if __name__ == "__main__":
    main()
