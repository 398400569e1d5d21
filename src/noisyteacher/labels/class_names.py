"""True labels as users write them, to places among the teacher's classes: names before numbers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from noisyteacher.core.errors import NoisyTeacherWarning
from noisyteacher.labels.text_ids import WHOLE_NUMBER

UNKNOWN = "-1"  # a label that is not known, as numbers have it
_BOOLEANS = {"false", "true"}
_SHOWN = 3  # numbers that a warning explains


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
