"""One line of LLM output to the probability of each class, quickly."""

from __future__ import annotations

import math
import re

import orjson

from noisyteacher.labels.importers.answers import NO_CLASS, Answers
from noisyteacher.labels.importers.responses import (
    BadLineError,
    ChatPositions,
    Response,
    read_response,
)

_LEAST_MASS = 1e-6
_MOST_MASS = 1.01  # log-probabilities are printed rounded

# What a line that is not a response does to code that expects one.
_SHAPE_ERRORS = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)

_BETWEEN_POSITIONS = re.compile(rb'\}\]\}, ?\{"token":')
_END_OF_POSITIONS = b"}]}]"
# Looking for later positions costs time, so only lines this much longer than others are searched.
_LONGER = 1.25


# What a line says: the response, (L,) probabilities or None, and what is wrong with the answer or
# "". A plain tuple, because making a named one takes a noticeable part of a line's time.
LineLabel = tuple[Response, list[float] | None, str]


class LineReader:
    """Reads lines. Those of the usual kind cost little more than their JSON."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._shortest = math.inf  # bytes of a line that has one position only

    def read(self, line: bytes) -> LineLabel:
        """The label of a line; ``BadLineError`` if it cannot be understood."""
        try:
            label = self._read_start(line) if len(line) > _LONGER * self._shortest else None
            if label is None:
                label = self._read_all(line)
        except orjson.JSONDecodeError as error:
            raise BadLineError(f"is not JSON ({error.msg}, column {error.colno})") from None
        except _SHAPE_ERRORS as error:
            what = f"{type(error).__name__}: {error}"
            raise BadLineError(f"is not a response of a known shape ({what})") from None
        response, mass, reason = label
        if mass is None:
            return label
        total = sum(mass)
        if _LEAST_MASS <= total <= _MOST_MASS:
            return label
        if total < _LEAST_MASS:
            return response, None, reason or "off-list"
        raise BadLineError(f"gives the classes a probability of {total:.4g} together")

    def _read_all(self, line: bytes) -> LineLabel:
        response = read_response(orjson.loads(line))
        positions = response.positions
        if positions is None:
            return response, None, response.problem
        if type(positions) is ChatPositions:
            if len(line) < self._shortest:
                self._note_length(line, len(positions))
            quick = self._answers.share_out_fast(positions.content)
            if quick is not None:
                return response, quick, ""
        mass, answer = self._answers.share_out(positions)
        reason = "" if answer >= 0 else "off-list" if answer == NO_CLASS else "cut off"
        return response, mass, reason

    def _note_length(self, line: bytes, positions: int) -> None:
        only_one = line if positions == 1 else without_later_positions(line)
        if only_one is not None:
            self._shortest = min(self._shortest, len(only_one))

    def _read_start(self, line: bytes) -> LineLabel | None:
        """The label if the first position settles it, without reading the later ones."""
        shorter = without_later_positions(line)
        if shorter is None:
            return None
        try:
            response = read_response(orjson.loads(shorter))
        except (orjson.JSONDecodeError, BadLineError):
            return None
        if type(response.positions) is not ChatPositions:
            return None
        mass = self._answers.share_out_fast(response.positions.content)
        return None if mass is None else (response, mass, "")


def without_later_positions(line: bytes) -> bytes | None:
    """The line of a chat completion with the first of several positions only; None if unsure.

    In JSON the marks between two positions cannot stand inside a string: its quotation marks would
    have a backslash. Those at the end can; what is left is then no JSON, and all is read after all.
    From several choices the first position of the first one is left, and the end of the last.
    """
    between = _BETWEEN_POSITIONS.search(line)
    if between is None:
        return None
    end = line.rfind(_END_OF_POSITIONS, between.end())
    return None if end < 0 else line[: between.start() + 3] + line[end + 3 :]
