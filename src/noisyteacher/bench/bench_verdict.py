"""The verdict on a benchmark: the best taught student against the best of gold labels alone."""

from __future__ import annotations

from collections.abc import Sequence

from noisyteacher.bench.result_lines import Line, lead


def best_lines(found: Sequence[Line]) -> tuple[Line | None, Line | None]:
    """The best lines without and with a teacher after the last epoch; None where there is none."""
    measured = [line for line in found if line.accuracy["last"] is not None]
    alone = [line for line in measured if line.is_gold_only]
    taught = [line for line in measured if line.distillation is not None]
    return max(alone, key=_last, default=None), max(taught, key=_last, default=None)


def bench_verdict(found: Sequence[Line]) -> str:
    """A sentence for each number of gold labels; empty where there is nothing to compare."""
    sizes = sorted({line.labeled for line in found})
    told = [_verdict([line for line in found if line.labeled == size]) for size in sizes]
    return " ".join(sentence for sentence in told if sentence)


def _verdict(found: Sequence[Line]) -> str:
    floor, best = best_lines(found)
    if floor is None or best is None:
        return ""
    gap = lead(best, floor)
    half = None if gap is None else gap.half_width
    difference = _last(best) - _last(floor)
    among = f"with {best.labeled} gold labels, {best.name} reaches {_last(best):.2f} %"
    against = f"gold labels alone {_last(floor):.2f} %"
    among = among[0].upper() + among[1:]
    if half is None:
        spread = "one trial, so this is no more than an indication"
    else:
        spread = f"{difference - half:.2f} to {difference + half:.2f} over {best.trials} trials"
    told = f"{among} and {against}: {difference:+.2f} points ({spread})."
    if half is not None and difference - half > 0:
        return f"The teacher's labels were worth it. {told}"
    if half is not None and difference + half < 0:
        return f"Gold labels alone do better. {told}"
    return told


def _last(line: Line) -> float:
    cell = line.accuracy["last"]
    return cell.mean if cell is not None else float("-inf")
