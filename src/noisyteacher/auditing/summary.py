"""The audit for people: plain lines that fit a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

import numpy as np

from noisyteacher.auditing.findings import Finding
from noisyteacher.auditing.numbers import Numbers
from noisyteacher.auditing.recommend import Recommendation

_WIDTH = 96
_CLASSES_SHOWN, _MARGINS_SHOWN, _NAME_SHOWN = 10, 6, 22


def summarise(numbers: Numbers, findings: Sequence[Finding], recommendation: Recommendation) -> str:
    """Numbers, then what they say, then what to do."""
    lines = [
        *_heading(numbers),
        "",
        *_quality(numbers),
        "",
        *_trust(numbers),
        "",
        *_classes(numbers),
        "",
        "Findings",
        *(_item("!" if finding.warning else "-", finding.text) for finding in findings),
        "",
        *_advice(recommendation),
    ]
    return "\n".join(lines)


def _heading(numbers: Numbers) -> Iterator[str]:
    kept = "all" if numbers.stored == numbers.num_classes else f"top {numbers.stored}"
    yield f"Audit of the teacher {numbers.teacher or '(unnamed)'}"
    pool = f"pool {numbers.pool_rows} rows" if numbers.pool_rows else "no pool"
    yield f"V {numbers.val_rows} rows, {pool}, {kept} of {numbers.num_classes} classes"
    yield f"(95 % intervals in brackets, from {numbers.replicates} bootstrap replicates of V)"


def _quality(numbers: Numbers) -> Iterator[str]:
    quality = numbers.quality
    yield _line("accuracy", f"{quality.accuracy:.1%}")
    shown = [k for k in (2, 3, 5, 10, 20) if k in quality.top_k and k < numbers.num_classes]
    for k in shown:
        yield _line(f"top-{k} accuracy", f"{quality.top_k[k]:.1%}")
    after = f"{quality.temperature:.2f}"
    yield _line("temperature on V", after)
    for name, label in (("log_loss", "log-loss"), ("brier", "Brier score"), ("ece", "ECE")):
        before, later = getattr(quality.before, name), getattr(quality.after, name)
        yield _line(label, f"{before:.3f}; at that temperature {later:.3f}")
    if numbers.drift is not None:
        for name in ("margin", "entropy"):
            pair = getattr(numbers.drift, name)
            yield _line(
                f"{name}, V and pool",
                f"mean {pair.val_mean:.3f} and {pair.pool_mean:.3f}; distance "
                f"{pair.distance:.3f}, p = {pair.p_value:.2g}",
            )
    if numbers.probe is not None:
        yield _line("gold labels alone", f"{numbers.probe.accuracy:.1%}")


def _trust(numbers: Numbers) -> Iterator[str]:
    curve, trust = numbers.curve, numbers.trust
    yield "alpha by margin, from the least to the most confident of the pool"
    for at in np.linspace(0, len(curve.margin) - 1, _MARGINS_SHOWN).round().astype(int).tolist():
        value, low, high = (column[at] for column in (curve.alpha, curve.low, curve.high))
        bar = "#" * round(30 * value)
        yield f"  {curve.margin[at]:.3f}  {value:.2f} ({low:.2f} to {high:.2f})  {bar}"
    whose = "pool" if numbers.pool_rows else "V"
    yield _line(f"{whose} at the lower bound", f"{trust.share_at_lower_bound:.1%}")
    yield _line("mean alpha", f"{trust.mean_alpha:.3f}")
    yield _line("worth in gold labels", f"{trust.effective_labels:.0f} of {trust.rows}")
    yield _line("k(x), median", f"{trust.k_median:.0f}")


def _classes(numbers: Numbers) -> Iterator[str]:
    seen = [c for c in numbers.per_class.classes if c.gold_rows or c.predicted_rows]
    worst = sorted(seen, key=lambda c: 2.0 if c.precision is None else c.precision)
    yield f"{'class':<24}{'gold':>6}{'said':>6}{'right':>8}{'found':>8}{'pool':>8}  often is"
    for c in worst[:_CLASSES_SHOWN]:
        right, share = _percent(c.precision), _percent(c.recall)
        often = _shortened(c.confused_with or "")
        yield (
            f"{_shortened(c.name):<24}{c.gold_rows:>6}{c.predicted_rows:>6}{right:>8}{share:>8}"
            f"{_percent(c.pool_share):>8}  {often}".rstrip()
        )
    if len(seen) > _CLASSES_SHOWN:
        yield f"and {len(seen) - _CLASSES_SHOWN} more classes, with more right answers"


def _advice(recommendation: Recommendation) -> Iterator[str]:
    yield f"Recommendation: {recommendation.method}"
    if recommendation.without_views != recommendation.method:
        yield f"  without two views: {recommendation.without_views}"
    yield from (_item("-", reason) for reason in recommendation.reasons)
    yield _item("-", f"Compare with {', '.join(recommendation.rivals)}.")


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_SHOWN else f"{name[: _NAME_SHOWN - 1]}…"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _line(label: str, value: str) -> str:
    return f"{label:<24}{value}"


def _item(mark: str, text: str) -> str:
    return fill(text, _WIDTH, initial_indent=f"{mark} ", subsequent_indent="  ")
