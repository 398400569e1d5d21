"""What an LLM's first tokens say about the classes.

Texts are compared after one normalization: Unicode NFC, case folded, runs of white space as one
space, and white space, quotation marks, asterisks, backticks, brackets and ``.,:;!?`` removed at
both ends. So "Positive.", " positive" and "**positive**" are one answer. The markers that some
tokenizers print for a space or a line break (``▁``, ``Ġ``, ``Ċ``) count as white space.

How the probability of the first tokens is shared out:

- A candidate token that is a whole answer, or the beginning of answers of one class only, gives its
  probability to that class.
- A candidate that begins answers of several classes ("un" for "unsure" and "unhappy"; white space
  or a quotation mark begins them all) says nothing yet, so its probability goes to no class.
- The sampled token is looked at more closely, because the file says what came after it. If it only
  begins an answer, or an answer of another class begins with it ("no", "not sure"), its
  probability is shared out by the candidates of the next position, put behind it, in the same
  way; and so on along the sampled tokens. A whole answer that does not go on to a longer one
  there keeps its probability. Where the next position is missing, the first two rules hold.
- Everything else is missing mass: other words, and whatever is not among the listed candidates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from math import exp
from typing import Any, NamedTuple, TypeVar

from noisyteacher.core.errors import InputError
from noisyteacher.io.classes import ClassAnswers

NO_CLASS = -1
SEVERAL_CLASSES = -2

_WRAPPING = " \t\r\n\"'*`“”‘’«»()[]{}<>.,:;!?"
_SPACE_MARKERS = str.maketrans({"▁": " ", "Ġ": " ", "Ċ": "\n"})
_MOST_REMEMBERED = 1 << 18

_ValueT = TypeVar("_ValueT")


class Position(NamedTuple):
    """One place in an answer: the sampled token, and all candidates, the sampled one among them."""

    sampled: str
    candidates: list[tuple[str, float]]  # tokens with their log-probabilities


class Positions(NamedTuple):
    """The places of an answer, each read only when asked for."""

    number: int
    read: Callable[[int], Position]


class Meaning(NamedTuple):
    """What a text says: the class it counts for, and whether what follows could change that."""

    label: int  # NO_CLASS, SEVERAL_CLASSES, or the number of the class
    whole: bool  # a whole answer, not only the beginning of one
    unsettled: bool


class Shares(NamedTuple):
    """Probability of each class, not normalized, and what the sampled answer itself says."""

    mass: list[float]
    answer: int


class Answers:
    """The answers of L classes, with a memory of the texts met so far."""

    def __init__(self, classes: ClassAnswers) -> None:
        self.names = tuple(classes)
        self._whole: dict[str, int] = {}
        self._beginnings: dict[str, set[int]] = {}
        for number, (name, answers) in enumerate(classes.items()):
            for answer in answers:
                self._add(answer, number, name)
        self._meanings = Remembered(self.meaning)
        self._labels = Remembered(lambda token: self.meaning(token).label)
        # Whole answers that nothing behind them could change.
        self._settled = Remembered(lambda token: self.meaning(token)[1:] == (True, False))

    def _add(self, answer: str, number: int, name: str) -> None:
        text = _from_start(answer).rstrip(_WRAPPING)
        if not text:
            raise InputError(
                f"the answer {answer!r} of class {name!r} holds nothing but white space and "
                "punctuation."
            )
        other = self._whole.setdefault(text, number)
        if other != number:
            raise InputError(
                f"classes {self.names[other]!r} and {name!r} have the same answer, {answer!r}, "
                "when case and punctuation are ignored."
            )
        for length in range(len(text)):
            self._beginnings.setdefault(text[:length], set()).add(number)

    def meaning(self, text: str) -> Meaning:
        """What a text says that stands at the start of an answer."""
        start = _from_start(text)
        begun = self._beginnings.get(start, set())
        whole = self._whole.get(start.rstrip(_WRAPPING), NO_CLASS)
        if whole != NO_CLASS:
            return Meaning(whole, whole=True, unsettled=bool(begun - {whole}))
        label = SEVERAL_CLASSES if len(begun) > 1 else min(begun, default=NO_CLASS)
        return Meaning(label, whole=False, unsettled=bool(begun))

    def share_out(self, positions: Positions, first: int = 0) -> Shares:
        """The probability of each class, by the rules above, from the ``first`` position on."""
        mass = [0.0] * len(self.names)
        meanings = self._meanings
        before, weight, whole_before = "", 1.0, NO_CLASS
        for number in range(first, positions.number):
            sampled, candidates = positions.read(number)
            said = meanings[before + sampled]
            follow = said.unsettled and number + 1 < positions.number
            followed = 0.0
            for token, logprob in candidates:
                if follow and token == sampled:
                    followed += exp(logprob)
                    continue
                label = meanings[before + token][0]
                if label == NO_CLASS:
                    label = whole_before
                if label >= 0:
                    mass[label] += weight * exp(logprob)
            if not follow:
                return Shares(mass, whole_before if said.label == NO_CLASS else said.label)
            before += sampled
            weight *= followed
            whole_before = said.label if said.whole else NO_CLASS
        return Shares(mass, NO_CLASS)

    def share_out_fast(self, content: list[dict[str, Any]]) -> Shares | None:
        """The same for the content of a chat completion whose first token is a whole answer.

        Nearly all lines of nearly all files are of this kind. None for the others.
        """
        first = content[0]
        sampled = first["token"]
        if not self._settled[sampled]:
            return None
        labels = self._labels
        mass = [0.0] * len(self.names)
        sampled_listed = False
        for candidate in first.get("top_logprobs") or ():
            token = candidate["token"]
            label = labels[token]
            if label >= 0:
                mass[label] += exp(candidate["logprob"])
                if token == sampled:
                    sampled_listed = True
        answer = labels[sampled]
        if not sampled_listed:
            mass[answer] += exp(first["logprob"])
        return Shares(mass, answer)


class Remembered(dict[str, _ValueT]):
    """A function of texts. Tokens repeat from line to line, so that most look-ups are hits."""

    def __init__(self, function: Callable[[str], _ValueT], longest: int = 1 << 20) -> None:
        super().__init__()
        self._function, self._longest = function, longest

    def __missing__(self, text: str) -> _ValueT:
        value = self._function(text)
        if len(text) <= self._longest:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[text] = value
        return value


def _from_start(text: str) -> str:
    plain = unicodedata.normalize("NFC", text.translate(_SPACE_MARKERS)).casefold()
    return re.sub(r"\s+", " ", plain).lstrip(_WRAPPING)
