"""What may be asked of a noise model."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from noisyteacher.core.errors import InputError
from noisyteacher.noise.confidence import check_metric
from noisyteacher.noise.isotonic import Number

LOWEST_ALPHA = 1e-3


def lowest_alpha(lower_bound: Number) -> float:
    """What alpha is cut off at from below: at 0 the loss of a wrong soft label is infinite."""
    return max(float(lower_bound), LOWEST_ALPHA)


def check_settings(
    *,
    lower_bound: Any,
    k: Any,
    threshold: Any,
    metric: Any,
    per_class: Any,
    level: Any,
) -> None:
    """Refuse settings that cannot be meant."""
    check_each_setting(
        lower_bound=lower_bound,
        k=k,
        threshold=threshold,
        metric=metric,
        per_class=per_class,
        level=level,
    )
    if k == "auto" and lower_bound >= threshold:
        raise InputError(
            f'With k="auto", lower_bound must be below threshold, but {lower_bound} is not below '
            f"{threshold}: every shortlist would count as good enough."
        )


def check_each_setting(
    *,
    lower_bound: Any,
    k: Any,
    threshold: Any,
    metric: Any,
    per_class: Any,
    level: Any,
) -> None:
    """Refuse settings that are wrong whatever the others are."""
    check_metric(metric)
    shares = {"lower_bound": lower_bound, "threshold": threshold, "level": level}
    for name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) <= 1:
            raise InputError(f"{name} must be a number from 0 to 1, but it is {share!r}.")
    if not isinstance(per_class, bool):
        raise InputError(f"per_class must be True or False, but it is {per_class!r}.")
    if isinstance(k, str):
        if k not in ("auto", "level"):
            raise InputError(f'k must be an int, "level" or "auto", but it is {k!r}.')
    elif isinstance(k, bool) or not isinstance(k, Integral) or k < 2:
        raise InputError(f"A fixed k must be an int from 2 to L, but it is {k!r}.")
