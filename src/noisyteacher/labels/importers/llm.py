"""JSON Lines of LLM answers with log-probabilities, to teacher labels.

A line is one provider's response (``responses.py``), whose answer's tokens become the probability
of each class (``answers.py``). The probabilities of the classes are made to sum to 1; what no class
got is the row's missing mass. A row whose classes got less than a millionth is rejected: it has no
label.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.io.classes import ClassAnswers
from noisyteacher.io.formats import line_blocks, name_files
from noisyteacher.io.ids import whole_numbers
from noisyteacher.labels.importers.answers import NO_CLASS, Answers
from noisyteacher.labels.importers.llm_rows import LlmRows, RejectedList
from noisyteacher.labels.importers.probability_files import ImportSettings
from noisyteacher.labels.importers.responses import (
    BadLineError,
    ChatPositions,
    Response,
    read_response,
    without_later_positions,
)
from noisyteacher.labels.teacher_labels import TeacherLabels

_LEAST_MASS = 1e-6
_MOST_MASS = 1.01  # log-probabilities are printed rounded

# What a line that is not a response does to code that expects one.
_SHAPE_ERRORS = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)

# Looking for later positions costs time, so only lines this much longer than others are searched.
_LONGER = 1.25
_MUCH_MISSING = 0.5
_EXAMPLES = 6


@dataclass(frozen=True)
class LlmImport:
    """Labels, and what became of every line."""

    labels: TeacherLabels
    lines: int  # that were not empty
    rejected: dict[str, int]  # lines without a label, by reason
    bad: int  # lines that could not be read, and were skipped
    off_list: int  # rows in the store whose own answer names no class
    never_named: tuple[str, ...]  # classes that no row gives any probability

    @property
    def mostly_missing(self) -> int:
        """Rows in the store with more than half of their mass on no class."""
        return int((self.labels.missing > _MUCH_MISSING).sum())


def import_llm(
    paths: Sequence[Path],
    classes: ClassAnswers,
    *,
    ids: npt.NDArray[Any] | None = None,
    skip_bad: bool = False,
    rejected: Path | None = None,
    settings: ImportSettings | None = None,
    on_block: Callable[[int, int], None] | None = None,
) -> LlmImport:
    """Read files of answers.

    ``ids``: one per non-empty line of all files, instead of those in the lines. ``skip_bad`` goes
    on after a line that cannot be read. ``rejected``: a file that lists every example that was
    refused, answered off-list or could not be read. ``on_block`` is told, now and then, how many
    more bytes and lines are done.
    """
    settings = settings or ImportSettings()
    if settings.logits:
        raise InputError("answers of an LLM come with log-probabilities, not with logits.")
    with RejectedList(rejected) as listed:
        reader = _Reader(Answers(classes), ids, skip_bad, listed)
        for path in paths:
            reader.read(path, on_block)
        result = reader.finish(settings, name_files(paths))
        listed.commit()
    return result


class _Reader:
    """Goes through the lines, one at a time, and keeps count."""

    def __init__(
        self,
        answers: Answers,
        ids: npt.NDArray[Any] | None,
        skip_bad: bool,
        listed: RejectedList,
    ) -> None:
        self._answers = answers
        self._read = LineReader(answers).read
        self._ids = ids
        self._skip_bad = skip_bad
        self._listed = listed
        self._rows = LlmRows(len(answers.names))
        self._models: set[str] = set()
        self._rejected: Counter[str] = Counter()
        self._examples: list[str] = []
        self._lines = self._bad = self._off_list = 0

    def read(self, path: Path, on_block: Callable[[int, int], None] | None) -> None:
        before = self._lines
        self._rows.start_file(path)
        for block in line_blocks(path):
            for number, line in enumerate(block.lines, block.first):
                if line and not line.isspace():
                    self._lines += 1
                    self._read_line(line, path, number)
            self._rows.pack()
            if on_block is not None:
                on_block(sum(map(len, block.lines)), len(block.lines))
        if self._lines == before:
            raise InputError(f"{path} is empty.")

    def _read_line(self, line: bytes, path: Path, number: int) -> None:
        try:
            response, mass, reason = self._read(line)
            name = response.id if self._ids is None else self._given_id(self._ids)
            if mass is None:
                self._reject(name, response, path, number, reason)
                return
            if type(name) is not str and type(name) is not int:
                raise BadLineError("has no custom_id or id that is text or a whole number")
        except BadLineError as error:
            self._skip(path, number, str(error))
            return
        self._rows.add(name, number, mass)
        self._models.add(response.model)
        if reason:
            self._off_list += 1
            self._listed.add(name, path, number, reason, response.text, kept=True)

    def _reject(self, name: Any, response: Response, path: Path, number: int, reason: str) -> None:
        self._rejected[reason] += 1
        if len(self._examples) < _EXAMPLES:
            self._examples.append(response.text[:80])
        self._listed.add(name, path, number, reason, response.text)

    def _skip(self, path: Path, number: int, problem: str) -> None:
        if not self._skip_bad:
            raise InputError(
                f"{path}, line {number} {problem}; skip_bad=True (--skip-bad) would go on without "
                "it."
            )
        self._bad += 1
        self._listed.add(None, path, number, f"bad line: {problem}", "")

    def _given_id(self, ids: npt.NDArray[Any]) -> Any:
        if self._lines > len(ids):
            raise InputError(f"{len(ids)} ids were given, but there are more answers than that.")
        return ids[self._lines - 1].item()

    def finish(self, settings: ImportSettings, where: str) -> LlmImport:
        if self._ids is not None and len(self._ids) != self._lines:
            raise InputError(f"{len(self._ids)} ids were given for {self._lines} answers.")
        if not len(self._rows):
            raise InputError(self._why_nothing())
        ids = self._rows.take_ids()
        if settings.int_ids:
            ids = whole_numbers(ids)
        self._rows.check_unique(ids)
        probs, missing = self._rows.take_probs()
        if settings.teacher is None:
            models = " + ".join(sorted(filter(None, self._models)))
            settings = replace(settings, teacher=models or None)
        silent = np.flatnonzero(probs.sum(axis=0) == 0)
        return LlmImport(
            labels=settings.make(ids, probs, self._answers.names, where=where, missing=missing),
            lines=self._lines,
            rejected=dict(self._rejected),
            bad=self._bad,
            off_list=self._off_list,
            never_named=tuple(self._answers.names[number] for number in silent),
        )

    def _why_nothing(self) -> str:
        reasons = ", ".join(f"{count} × {reason}" for reason, count in self._rejected.most_common())
        if self._bad:
            reasons = ", ".join(filter(None, (reasons, f"{self._bad} × bad line")))
        if self._rejected["no logprobs"]:
            hint = "ask for log-probabilities (logprobs and top_logprobs) with the answers"
        else:
            classes = first_few(self._answers.names)
            hint = f"the classes are {classes}, the answers {first_few(self._examples)}"
        return f"none of {self._lines} lines has a label ({reasons}): {hint}."


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
