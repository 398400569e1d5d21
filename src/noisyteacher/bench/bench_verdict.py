"""The verdict on a benchmark: the best use of the teacher against the best gold labels alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noisyteacher.bench.result_lines import Line, lead


def best_lines(found: Sequence[Line]) -> tuple[Line | None, Line | None]:
    """The best lines without and with a teacher after the last epoch; None where there is none."""
    measured = [line for line in found if line.accuracy["last"] is not None]
    alone = [line for line in measured if line.is_gold_only]
    taught = [line for line in measured if line.distillation is not None]
    return max(alone, key=_last, default=None), max(taught, key=_last, default=None)


def bench_verdict(found: Sequence[Line]) -> str:
    """One sentence, over all numbers of gold labels; empty where there is nothing to compare."""
    sizes = sorted({line.labeled for line in found})
    pairs = [best_lines([line for line in found if line.labeled == size]) for size in sizes]
    gaps = [_Gap(floor, best) for floor, best in pairs if floor is not None and best is not None]
    if not gaps:
        return ""
    if len(gaps) == 1:
        return gaps[0].verdict()
    told = ", ".join(f"{gap.points()} with {gap.best.labeled:,} gold labels" for gap in gaps)
    return f"The best use of the teacher's labels, compared with gold labels alone: {told}."


@dataclass(frozen=True)
class _Gap:
    """How far the best taught student is ahead of gold labels alone."""

    floor: Line
    best: Line

    @property
    def difference(self) -> float:
        return _last(self.best) - _last(self.floor)

    @property
    def half(self) -> float | None:
        """Half the 95% interval of the difference, trial by trial."""
        gap = lead(self.best, self.floor)
        return None if gap is None else gap.half_width

    def points(self) -> str:
        if self.half is None:
            return f"{self.difference:+.2f} points (one trial)"
        low, high = self.difference - self.half, self.difference + self.half
        return f"{self.difference:+.2f} points ({low:.2f} to {high:.2f})"

    def verdict(self) -> str:
        told = (
            f"{self.best.name} reaches {_last(self.best):.2f}% and gold labels alone "
            f"{_last(self.floor):.2f}%, {self.points()}."
        )
        if self.half is None:
            return f"One trial is only an indication: {told}"
        if self.difference - self.half > 0:
            return f"The teacher's labels were worth it: {told}"
        if self.difference + self.half < 0:
            return f"Gold labels alone do better: {told}"
        return f"The teacher's labels made no measurable difference: {told}"


def _last(line: Line) -> float:
    cell = line.accuracy["last"]
    return cell.mean if cell is not None else float("-inf")
