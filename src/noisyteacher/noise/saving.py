"""The noise model's settings and its JSON file; nothing is used before it is checked."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.core.integrity import read_json, sealed_json
from noisyteacher.noise.covariates import check_metric
from noisyteacher.noise.isotonic import ALWAYS, NEVER, Curves, Number, StepIsotonic

FORMAT = "noisyteacher.TeacherNoise"
VERSION = 1

LOWEST_ALPHA = 1e-3
ONE_OVER_K = "1/k"  # a lower bound of each row's own: one over the size of its shortlist

# JSON has no infinity.
_NAMED_CUTS = {"always": ALWAYS, "never": NEVER}


def lowest_alpha(lower_bound: Number | str) -> float:
    """What the alpha curve is cut off at: at 0 the loss of a wrong soft label is infinite."""
    return LOWEST_ALPHA if lower_bound == ONE_OVER_K else max(float(lower_bound), LOWEST_ALPHA)


def check_settings(**settings: Any) -> None:
    """Refuse settings of a noise model that cannot be meant."""
    check_each_setting(**settings)
    lower_bound, threshold = settings["lower_bound"], settings["threshold"]
    by_row = lower_bound == ONE_OVER_K
    if settings["k"] == "auto" and not by_row and lower_bound >= threshold:
        raise InputError(
            f'With k="auto", lower_bound must be below threshold, but {lower_bound} is not below '
            f"{threshold}: every shortlist would count as good enough."
        )


def check_each_setting(
    *, lower_bound: Any, k: Any, threshold: Any, metric: Any, per_class: Any, level: Any
) -> None:
    """Refuse settings that are wrong whatever the others are."""
    check_metric(metric)
    shares = {"lower_bound": lower_bound, "threshold": threshold, "level": level}
    if isinstance(lower_bound, str) and lower_bound == ONE_OVER_K:
        del shares["lower_bound"]
    for name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) <= 1:
            other = f' or "{ONE_OVER_K}"' if name == "lower_bound" else ""
            raise InputError(f"{name} must be a number from 0 to 1{other}, but it is {share!r}.")
    if not isinstance(per_class, bool):
        raise InputError(f"per_class must be True or False, but it is {per_class!r}.")
    if isinstance(k, str):
        if k not in ("auto", "level"):
            raise InputError(f'k must be an int, "level" or "auto", but it is {k!r}.')
    elif isinstance(k, bool) or not isinstance(k, Integral) or k < 2:
        raise InputError(f"A fixed k must be an int from 2 to L, but it is {k!r}.")


@dataclass(frozen=True)
class Learned:
    """What a fitted noise model knows."""

    num_classes: int
    classes: tuple[str, ...] | None  # their names, where the labels had any
    k: int | None  # of all examples; None when k(x) is per example
    pooled: Curves
    by_class: dict[int, Curves]


def write_noise(path: str | PathLike[str], settings: dict[str, Any], noise: Learned) -> None:
    """Write the file in one step: a killed writer leaves the old one."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "settings": settings,
        "num_classes": noise.num_classes,
        "classes": noise.classes,
        "k": noise.k,
        "pooled": _curves_to_json(noise.pooled),
        "per_class": {str(label): _curves_to_json(c) for label, c in noise.by_class.items()},
    }
    write_atomic(Path(path), sealed_json(content))


def read_noise(path: str | PathLike[str]) -> tuple[dict[str, Any], Learned]:
    """Read and check the settings and what was learned."""
    try:
        content = read_json(path, "fit and save the noise model again", note=True)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return _from_json(content)
    except _BrokenFileError as error:
        raise InputError(f"{path} is not a saved noise model: {error}.") from error


class _BrokenFileError(Exception):
    """What is wrong with the file, without its name."""


def _need(holds: bool | np.bool_, problem: str) -> None:
    if not holds:
        raise _BrokenFileError(problem)


def _curves_to_json(curves: Curves) -> dict[str, Any]:
    names = {value: name for name, value in _NAMED_CUTS.items()}
    cuts = None if curves.cuts is None else [names.get(c, c) for c in curves.cuts.tolist()]
    curve = curves.alpha_curve
    return {"n": curves.n, "knots": curve.knots_, "values": curve.values_, "cuts": cuts}


def _from_json(content: Any) -> tuple[dict[str, Any], Learned]:
    _need(isinstance(content, dict) and content.get("format") == FORMAT, f"no format {FORMAT!r}")
    _need(content.get("version") == VERSION, f"version {content.get('version')!r} is unknown")
    settings, num_classes, k = content.get("settings"), content.get("num_classes"), content.get("k")
    _check_saved_settings(settings)
    _need(_is_int(num_classes) and num_classes >= 2, f"num_classes is {num_classes!r}")
    classes = content.get("classes")
    _need(classes is None or _are_names(classes, num_classes), "classes do not fit num_classes")
    asked = settings["k"]
    if asked == "auto":
        _need(k is None, f"k is {k!r}")
    else:
        _need(_is_int(k) and 2 <= k <= num_classes and asked in (k, "level"), f"k is {k!r}")
    per_class = content.get("per_class")
    _need(isinstance(per_class, dict), "per_class is missing")
    labels = {str(label): label for label in range(num_classes)}
    for label in per_class:
        _need(label in labels, f"per_class has a class {label!r}")
    return settings, Learned(
        num_classes,
        None if classes is None else tuple(classes),
        k,
        _curves_from_json(content.get("pooled"), "pooled", num_classes, settings),
        {
            labels[label]: _curves_from_json(saved, f"class {label}", num_classes, settings)
            for label, saved in per_class.items()
        },
    )


def _check_saved_settings(settings: Any) -> None:
    _need(isinstance(settings, dict), "settings are missing")
    try:
        check_settings(**settings)
    except (TypeError, InputError) as error:
        raise _BrokenFileError(str(error).rstrip(".")) from error


def _curves_from_json(saved: Any, name: str, num_classes: int, settings: dict[str, Any]) -> Curves:
    _need(isinstance(saved, dict), f"{name} curves are missing")
    n = saved.get("n")
    _need(_is_int(n) and n >= 1, f"n of {name} is {n!r}")
    knots = _numbers(saved.get("knots"), f"knots of {name}")
    values = _numbers(saved.get("values"), f"values of {name}")
    _need(1 <= len(knots) == len(values) <= n, f"knots and values of {name} do not match")
    _need((np.diff(knots) > 0).all(), f"knots of {name} do not increase")
    _need((np.diff(values) >= 0).all(), f"values of {name} decrease")
    lowest = lowest_alpha(settings["lower_bound"])
    _need(values[0] >= lowest and values[-1] <= 1, f"values of {name} are not in [{lowest}, 1]")
    curve = StepIsotonic(lower_bound=lowest)
    curve.knots_, curve.values_ = knots, values
    auto = settings["k"] == "auto"
    cuts = _cuts_from_json(saved.get("cuts"), name, num_classes) if auto else None
    return Curves(curve, cuts, n)


def _cuts_from_json(saved: Any, name: str, num_classes: int) -> np.ndarray:
    _need(isinstance(saved, list), f"cuts of {name} are missing")
    _need(1 <= len(saved) < num_classes, f"{name} has {len(saved)} cuts")
    _need("always" not in saved[:-1], f'"always" is not the last cut of {name}')
    named = [_NAMED_CUTS.get(c, np.nan) if isinstance(c, str) else c for c in saved]
    return _numbers(named, f"cuts of {name}", allow_infinite=True)


def _numbers(saved: Any, name: str, *, allow_infinite: bool = False) -> np.ndarray:
    _need(isinstance(saved, list), f"{name} are missing")
    _need(all(type(x) in (int, float) for x in saved), f"{name} are not all numbers")
    numbers = np.array(saved, dtype=np.float64)
    sound = ~np.isnan(numbers) if allow_infinite else np.isfinite(numbers)
    _need(sound.all(), f"{name} are not all numbers")
    return numbers


def _are_names(saved: Any, count: int) -> bool:
    return (
        isinstance(saved, list)
        and len(saved) == len(set(map(str, saved))) == count
        and all(isinstance(name, str) for name in saved)
    )


def _is_int(value: Any) -> bool:
    return type(value) is int
