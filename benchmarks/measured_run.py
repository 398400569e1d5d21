"""``noisyteacher``, with its time, its peak memory and the passes over a streamed pool measured.

    python benchmarks/measured_run.py FILE distill --stream ...

The time is that after all modules are imported. One pass is one evaluation of loss and gradient
over all gold and pool rows; their number, their rows and their time are written to FILE as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import orjson

import noisyteacher.auditing
import noisyteacher.labels.importers
import noisyteacher.pipeline
import noisyteacher.report  # noqa: F401
from measuring import peak_gib
from noisyteacher.cli import main
from noisyteacher.train import solver
from noisyteacher.train.pool_shards import PreparedPool


@dataclass
class Measured:
    """Figures of one run: seconds of the processor and on the clock, of all and of its passes."""

    seconds: float = 0.0
    clock: float = 0.0
    peak_gib: float = 0.0
    passes: int = 0
    pass_rows: int = 0  # of the pool, in each
    pass_seconds: float = 0.0
    pass_clock: float = 0.0


def measure_passes(found: Measured) -> None:
    """Replace the solver's objective and the pool's reader by ones that count."""
    evaluate, read = solver._Objective.__call__, PreparedPool.__iter__
    rows = 0  # read from disk in this evaluation

    def counted(self: PreparedPool) -> Iterator[solver.Block]:
        nonlocal rows
        for block in read(self):
            rows += len(block.columns)
            yield block

    def timed(self: solver._Objective, flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal rows
        rows, clock, processor = 0, time.monotonic(), time.process_time()
        value = evaluate(self, flat)
        if rows:  # students of the part in memory read nothing
            found.passes, found.pass_rows = found.passes + 1, rows
            found.pass_clock += time.monotonic() - clock
            found.pass_seconds += time.process_time() - processor
        return value

    PreparedPool.__iter__ = counted  # type: ignore[method-assign]
    solver._Objective.__call__ = timed  # type: ignore[method-assign]


if __name__ == "__main__":
    out, found = Path(sys.argv.pop(1)), Measured()
    measure_passes(found)
    began, processor = time.monotonic(), time.process_time()
    try:
        main()
    finally:
        found.clock = time.monotonic() - began
        found.seconds = time.process_time() - processor
        found.peak_gib = peak_gib()
        out.write_bytes(orjson.dumps(asdict(found)))
