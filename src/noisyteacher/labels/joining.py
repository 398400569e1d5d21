"""Label stores of different examples as one."""

from __future__ import annotations

from collections.abc import Sequence

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.io.ids import is_text, repeated_ids
from noisyteacher.labels.teacher_labels import TeacherLabels


def join_labels(parts: Sequence[TeacherLabels]) -> TeacherLabels:
    """Labels of different examples under each other, bit for bit as they were."""
    if not parts:
        raise InputError("No teacher labels were given.")
    first = parts[0]
    for part in parts[1:]:
        if part.classes != first.classes or part.k != first.k:
            raise InputError(
                f"Label stores to join must have the same classes, and as many stored of each row: "
                f"top {first.k} of {first_few(first.classes, 10)}, and top {part.k} of "
                f"{first_few(part.classes, 10)}."
            )
    if len({is_text(part.ids) for part in parts}) > 1:
        raise InputError("Label stores to join must all have ids of text, or all of numbers.")
    joined = first.followed_by(parts[1:])
    if repeated := repeated_ids(joined.ids):
        raise InputError(f"Label stores share ids: {first_few(repeated)}.")
    return joined
