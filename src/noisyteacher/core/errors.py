"""Errors and warnings for users; every folder may import this file."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

# What a user may catch; the functions below are for other folders of the package.
__all__ = ["InputError", "MissingIdsError", "NoisyTeacherWarning", "UnknownLabelsError"]

_PACKAGE = str(Path(__file__).parents[1])
# In a thread that the package started: the frame that called the package.
started_by: ContextVar[FrameType | None] = ContextVar("started_by", default=None)


class InputError(ValueError):
    """The caller's input is wrong; the message is one sentence that names the problem."""


class UnknownLabelsError(InputError):
    """A table has labels that are not classes."""


class MissingIdsError(InputError, KeyError):
    """Some of the requested ids do not exist."""

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return str(self.args[0]) if self.args else ""


class NoisyTeacherWarning(UserWarning):
    """A warning about a result that is valid but needs attention."""


def warn(text: str) -> None:
    """Issue a NoisyTeacherWarning at the line of the user's code that called the package."""
    caller = calling_frame()
    warnings.warn_explicit(
        text,
        NoisyTeacherWarning,
        caller.f_code.co_filename,
        caller.f_lineno,
        module=caller.f_globals.get("__name__"),
        registry=caller.f_globals.setdefault("__warningregistry__", {}),
    )


def calling_frame() -> FrameType:
    """The frame that called the package; the outermost one where the package was started."""
    if (caller := started_by.get()) is not None:
        return caller
    frame: FrameType | None = sys._getframe()
    caller = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            caller = frame.f_back or frame
        frame = frame.f_back
    return caller


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as "1 example" or "2 examples"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_LONGEST = 80  # characters of an item


def in_short(item: object) -> str:
    """Its repr, of which a long one is cut in the middle."""
    text = repr(item)
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}…{text[-half:]}"


def first_few(items: Iterable[object], limit: int = 5) -> str:
    """The first few items for an error message: ``"'a', 'b', 'c' and 7 more"``."""
    listed = list(items)
    shown = ", ".join(map(in_short, listed[:limit]))
    more = len(listed) - limit
    return f"{shown} and {more} more" if more > 0 else shown
