"""Labels as users write them, to numbers of classes: names come before numbers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from noisyteacher.core.errors import InputError, NoisyTeacherWarning, first_few

# Without a sign and without leading zeros, and small enough for 64 bits.
WHOLE_NUMBER = r"^(0|[1-9][0-9]{0,17})$"

UNKNOWN = "-1"  # a label that is not known, as numbers have it
_BOOLEANS = {"false", "true"}
_SHOWN = 3  # numbers that a warning explains


def class_numbers(
    values: Any, classes: Sequence[str] | None, where: str = "y"
) -> npt.NDArray[np.int64]:
    """(n,) int64 class numbers of labels given as numbers or as class names.

    Whole numbers stay as they are; the caller checks their range. Text and booleans are matched by
    ``places_of``.

    Args:
        values: an array, tensor or sequence (n,) of whole numbers, class names or booleans.
        classes: the teacher's classes; None where they have no names, so that only numbers will do.
        where: how messages call the labels.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{where} must hold one class per row, but its rows differ.") from None
    if array.ndim != 1:
        raise InputError(f"{where} must hold one class per row, but has shape {array.shape}.")
    if array.dtype.kind in "iu":
        _check_called_by_place(classes or (), where)
        return array.astype(np.int64)
    listed = array.tolist()
    if not listed:
        return np.empty(0, np.int64)
    if array.dtype.kind == "b":
        listed = ["true" if value else "false" for value in listed]
    if not all(isinstance(name, str) for name in listed):
        raise InputError(f"{where} must hold class names or whole numbers, not {array.dtype}.")
    if classes is None:
        raise InputError(
            f"{where} holds class names such as {listed[0]!r}, and the teacher's classes have no "
            "names; give class numbers, or TeacherLabels that name the classes."
        )
    used = list(dict.fromkeys(listed))
    place = places_of(used, classes, where)
    strange = [name for name in used if name not in place]
    if strange:
        raise InputError(
            f"the labels {first_few(strange)} of {where} are no classes of this teacher; its "
            f"classes are {first_few(classes, 10)}."
        )
    return np.array([place[name] for name in listed], np.int64)


def _check_called_by_place(classes: Sequence[str], where: str) -> None:
    numbers = [name for name in classes if re.match(r"^-?[0-9]+$", name)]
    if numbers and list(classes) != [str(i) for i in range(len(classes))]:
        raise InputError(
            f"{where} holds whole numbers, and classes are called {first_few(numbers)}, which are "
            f"not their places; give {where} as class names."
        )


def is_unknown(label: str | None, classes: Sequence[str]) -> bool:
    """Whether a label says that it is not known; -1 does, unless a class is called so."""
    return not label or (label == UNKNOWN and UNKNOWN not in classes)


def places_of(used: Sequence[str], classes: Sequence[str], where: str) -> dict[str, int]:
    """Which of ``classes`` each label means; labels that are not in the answer mean none.

    Labels are class names. Whole numbers (0, 1, ...) are places where none of them is a name and
    no class is called by a number. Booleans, and 0 and 1 for them, are matched in any case.

    Args:
        used: the labels that there are, without those that are unknown.
        classes: the teacher's.
        where: the labels' place, for the warning that numbers are taken for places.
    """
    by_name = {name: place for place, name in enumerate(classes)}
    if any(name in by_name for name in used):
        return by_name
    folded = {name.casefold(): place for name, place in by_name.items()}
    if used and set(used) <= _BOOLEANS:
        if {"0", "1"} <= by_name.keys():
            return {"false": by_name["0"], "true": by_name["1"]}
        return folded
    if set(folded) == _BOOLEANS and set(used) <= {"0", "1"}:
        return {"0": folded["false"], "1": folded["true"]}
    called_by_numbers = any(re.match(r"^[-+]?[0-9.]+$", name) for name in classes)
    if called_by_numbers or not all(re.match(WHOLE_NUMBER, name) for name in used):
        return by_name
    _warn_of_places(used, classes, where)
    return {str(place): place for place in range(len(classes))}


def _warn_of_places(used: Sequence[str], classes: Sequence[str], where: str) -> None:
    """Say which class each number is taken for: the user may count in another order, or from 1."""
    taken = sorted(int(name) for name in used if int(name) < len(classes))
    if not taken:
        return
    told = f"{taken[0]} is taken for {classes[taken[0]]!r}"
    told += "".join(f", {place} for {classes[place]!r}" for place in taken[1:_SHOWN])
    more = ", ..." if len(taken) > _SHOWN else ""
    warnings.warn(
        f"The labels of {where} are numbers{'' if taken[0] == 0 else ', and none is 0'}: {told}"
        f"{more}, counted from 0 among the teacher's classes; give class names if that is wrong.",
        NoisyTeacherWarning,
        stacklevel=4,
    )
