"""One line of a file of answers to the probability of each class.

Where a provider gives log-probabilities, the tokens that name the class decide (``answers.py``):
the first ones, or in JSON and sentences those where the text has the class. The text
(``answer_text.py``) must agree, so that "Positive words, but a negative review" is no positive.
Without log-probabilities the text alone decides. Of several answers in one line the mean counts.
"""

from __future__ import annotations

import math
from typing import Any

import orjson

from noisyteacher.io.classes import ClassAnswers
from noisyteacher.labels.importers.answer_text import AnswerReader
from noisyteacher.labels.importers.answers import NO_CLASS, Answers, Positions, Remembered, Shares
from noisyteacher.labels.importers.one_label import least_confidence
from noisyteacher.labels.importers.reading import CUT_OFF, OFF_LIST, REFUSED, Reading
from noisyteacher.labels.importers.responses import (
    BadLineError,
    Response,
    Sample,
    find_id,
    read_response,
    without_later_positions,
)
from noisyteacher.labels.importers.usual_lines import only_choice

LOGPROBS = "logprobs"
_LEAST_MASS = 1e-6
_MOST_MASS = 1.01  # log-probabilities are printed rounded
LONGEST_REMEMBERED = 100  # characters; longer answers hardly repeat
_NOTHING = Reading(OFF_LIST)
_FROM_TEXT = frozenset(("class", "JSON", "prose", "marked", "choice"))  # their shares sum to 1
_NO_SHARES = Shares([], NO_CLASS)

# What a line that is not a response does to code that expects one.
SHAPE_ERRORS = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)

# Looking for later positions costs time, so only lines this much longer than others are searched.
_LONGER = 1.25

# (L,) probabilities or None, the rule by which they were found or the reason why there are none,
# and the classes named. Plain tuples, because making named ones takes a noticeable part of a
# line's time.
SampleLabel = tuple[list[float] | None, str, tuple[int, ...]]
LineLabel = tuple[Response, list[float] | None, str, tuple[int, ...]]


class LineReader:
    """Reads lines. Those of the usual kind cost little more than their JSON."""

    def __init__(
        self, classes: ClassAnswers, *, choices: str | None = None, answer_key: str | None = None
    ) -> None:
        self._texts = AnswerReader(classes, first_choice=choices, answer_key=answer_key)
        self._tokens = Answers(self._texts.with_options(classes))
        self._read_text = Remembered(self._texts.read, longest=LONGEST_REMEMBERED)
        self._count = len(classes)
        self._least = least_confidence(self._count)
        self._shortest = math.inf  # bytes of a line that has one position only

    def read(self, line: bytes) -> LineLabel:
        """The label of a line; ``BadLineError`` if it cannot be understood."""
        try:
            label = self._read_start(line) if len(line) > _LONGER * self._shortest else None
            if label is None:
                label = self._read_all(line)
        except orjson.JSONDecodeError as error:
            raise BadLineError(f"is not JSON ({error.msg}, column {error.colno})") from None
        except SHAPE_ERRORS as error:
            what = f"{type(error).__name__}: {error}"
            raise BadLineError(f"is not a response of a known shape ({what})") from None
        response, mass, rule, _ = label
        if mass is None or rule in _FROM_TEXT:
            return label
        total = sum(mass)
        if _LEAST_MASS <= total <= _MOST_MASS:
            return label
        if total < _LEAST_MASS:
            return response, None, CUT_OFF if rule == CUT_OFF else OFF_LIST, ()
        raise BadLineError(f"gives the classes a probability of {total:.4g} together")

    def label_of_text(self, text: str) -> SampleLabel:
        """The label of an answer that is text, without log-probabilities."""
        return self._by_text(self._read_text[text])

    def _read_all(self, line: bytes) -> LineLabel:
        parsed = orjson.loads(line)
        usual = self._read_usual(parsed, line)
        if usual is not None:
            return usual
        response = read_response(parsed)
        if response.problem:
            return response, None, response.problem, ()
        samples = response.samples
        if len(samples) > 1:
            return response, *self._shares([self._label(sample) for sample in samples])
        return response, *self._label(samples[0])

    def _read_usual(self, line: Any, whole: bytes = b"") -> LineLabel | None:
        """The label of a chat completion of one choice whose first token is the answer, or None.

        Nearly all lines with log-probabilities are of this kind, and the detours of the others
        would take longer than parsing does. ``whole`` is the line if all of it was parsed.
        """
        try:
            body, choice, text = only_choice(line)
            content = choice["logprobs"]["content"]
            mass, answer = self._tokens.share_out_fast(content) or _NO_SHARES
            named = (answer,)
            if self._read_text[text][1] != named:
                return None
            if whole and len(whole) < self._shortest:
                self._note_length(whole, len(content))
        except SHAPE_ERRORS:
            return None
        return Response(find_id(line), body.get("model"), ()), mass, LOGPROBS, named

    def _shares(self, labels: list[SampleLabel]) -> SampleLabel:
        """Several answers as one: the mean of what they say; those without a label are doubt."""
        told = [mass for mass, _, _ in labels if mass is not None]
        rules = [rule for mass, rule, _ in labels if mass is not None]
        if not told:
            return labels[0]
        mean = [sum(shares) / len(labels) for shares in zip(*told, strict=True)]
        named = {number for _, _, classes in labels for number in classes}
        return mean, max(set(rules), key=rules.count), tuple(named)

    def _label(self, sample: Sample) -> SampleLabel:
        text, positions, cut = sample
        if positions is None:
            reading = self._read_text[text]
            if cut and not _stands(reading, text):
                return None, CUT_OFF, ()
            return self._by_text(reading)
        mass, answer = self._tokens.share_out(positions)
        reading = self._read_text[text] if text else _NOTHING
        classes = reading.classes
        if classes == (answer,) or (answer >= 0 and not classes and (cut or not text)):
            return mass, LOGPROBS, (answer,)
        if len(classes) == 1:
            return self._further_on(positions, text, reading) or self._by_text(reading)
        if classes:
            return self._by_text(reading)
        if answer >= 0 or reading.rule == REFUSED:
            return None, reading.rule, ()
        return mass, OFF_LIST if answer == NO_CLASS else CUT_OFF, ()

    def _further_on(self, positions: Positions, text: str, reading: Reading) -> SampleLabel | None:
        """The probabilities at the tokens that name the class, as in JSON; None if not found."""
        after = text.rfind(f'"{reading.key}"') + len(reading.key) + 2 if reading.key else 0
        place = text.find(reading.words, after) if reading.key else text.rfind(reading.words)
        if place < 0 or not reading.words:
            return None
        end = 0
        for number in range(positions.number):
            end += len(positions.read(number).sampled)
            if end > place:
                mass, answer = self._tokens.share_out(positions, number)
                found = (answer,) == reading.classes and sum(mass) >= _LEAST_MASS
                return (mass, LOGPROBS, reading.classes) if found else None
        return None

    def _by_text(self, reading: Reading) -> SampleLabel:
        rule, classes, shares, confidence = reading[:4]
        if not classes:
            return None, rule, ()
        mass = [0.0] * self._count
        if confidence is not None:
            sure = max(confidence, self._least)
            mass = [(1 - sure) / (self._count - 1)] * self._count
            shares = (sure,)
        for number, share in zip(classes, shares, strict=True):
            mass[number] = share
        return mass, rule, classes

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
            return self._read_usual(orjson.loads(shorter))
        except orjson.JSONDecodeError:
            return None


def _stands(reading: Reading, text: str) -> bool:
    """Whether more text could not change what a text that was cut for length says."""
    if not reading.classes:
        return reading.rule == REFUSED
    return reading.rule not in ("prose", "several classes") or text.rstrip()[-1:] in ".!"
