"""The errors and warnings a user can meet; every folder may import this file."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parents[1])


class InputError(ValueError):
    """Something the caller gave is wrong; the message is one sentence that says what and how."""


class UnknownLabelsError(InputError):
    """A table has labels that are no classes."""


class MissingIdsError(InputError, KeyError):
    """Ids were asked for that are not there."""

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return str(self.args[0]) if self.args else ""


class NoisyTeacherWarning(UserWarning):
    """The result stands, but the user should know something about it."""


def warn(text: str) -> None:
    """Tell the user something about a result that stands, at the line that called this package."""
    frame: FrameType | None = sys._getframe()
    depth = ours = 1
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            ours = depth
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, NoisyTeacherWarning, stacklevel=ours + 1)


def counted(number: int, noun: str) -> str:
    """Such as "1 example" or "2 examples"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_LONGEST = 80  # characters of an item


def in_short(item: object) -> str:
    """Its repr, of which a long one is cut in the middle."""
    text = repr(item)
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}…{text[-half:]}"


def first_few(items: Iterable[object], limit: int = 5) -> str:
    """Name the first few items for an error message: ``"'a', 'b', 'c' and 7 more"``."""
    listed = list(items)
    shown = ", ".join(map(in_short, listed[:limit]))
    more = len(listed) - limit
    return f"{shown} and {more} more" if more > 0 else shown
