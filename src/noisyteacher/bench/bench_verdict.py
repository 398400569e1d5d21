"""The verdict on a benchmark: the best use of the teacher against the best gold labels alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noisyteacher.bench.result_lines import Line, TrialMean, lead


def best_lines(found: Sequence[Line]) -> tuple[Line | None, Line | None]:
    """The best lines without and with a teacher after the last epoch; None where there is none."""
    measured = [line for line in found if line.accuracy["last"] is not None]
    alone = [line for line in measured if line.is_gold_only]
    taught = [line for line in measured if line.distillation is not None]
    return max(alone, key=Line.mean, default=None), max(taught, key=Line.mean, default=None)


def bench_verdict(found: Sequence[Line]) -> str:
    """One sentence, over all numbers of gold labels; empty where there is nothing to compare."""
    sizes = sorted({line.labeled for line in found})
    of_sizes = [best_lines([line for line in found if line.labeled == size]) for size in sizes]
    pairs = [(floor, best) for floor, best in of_sizes if floor is not None and best is not None]
    if not pairs:
        return ""
    if len(pairs) == 1:
        return _verdict(*pairs[0])
    told = ", ".join(
        f"{_points(_gap(floor, best))} with {best.labeled:,} gold labels" for floor, best in pairs
    )
    return f"The best use of the teacher's labels, compared with gold labels alone: {told}."


def _gap(floor: Line, best: Line) -> TrialMean:
    """How far the best is ahead, with the spread of the difference within trials."""
    paired = lead(best, floor) or TrialMean(0.0, None)
    return replace(paired, mean=best.mean() - floor.mean())


def _points(gap: TrialMean) -> str:
    spread = "one trial" if gap.half_width is None else f"{gap.low:.2f} to {gap.high:.2f}"
    return f"{gap.mean:+.2f} points ({spread})"


def _verdict(floor: Line, best: Line) -> str:
    gap = _gap(floor, best)
    told = (
        f"{best.name} reaches {best.mean():.2f}% and gold labels alone {floor.mean():.2f}%, "
        f"{_points(gap)}."
    )
    if gap.half_width is None:
        return f"One trial is only an indication: {told}"
    if gap.low > 0:
        return f"The teacher's labels were worth it: {told}"
    if gap.high < 0:
        return f"Gold labels alone do better: {told}"
    return f"The teacher's labels made no measurable difference: {told}"
