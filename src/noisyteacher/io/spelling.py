"""Class names as people and models spell them: "sci_tech", "SciTech" and "**Sci/Tech**." are one.

Two spellings are compared in two steps, and a spelling that fits several classes fits none:

1. Unicode NFKC, case folded, white space as one space, punctuation removed at both ends;
2. without separators at all, and with "&" as "and" too. White space inside a word is no separator
   ("a typical" is not "atypical"), and what makes a number another one stays ("-1", "1.5", "A-").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

NO_CLASS = -1

# Removed at both ends; a "#" only in front, where it marks a heading.
_WRAPPING = " \t\r\n\"'*`_~“”‘’„«»()[]{}<>.,:;!?•·–—|\\"
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufe0f\ufeff]")
# Signs that are part of a name: C, C++ and C# are three.
_GAP = re.compile(r"(?:[^\w+#$%@=^~<>€£¥]|_)+")
_NUMBER_SIGNS = "-−.,/:"
_CAMEL = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")


def plain(text: str) -> str:
    """The text as step 1 compares it, but with its punctuation."""
    folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    return " ".join(folded.replace("’", "'").split())


def bare(text: str) -> str:
    """The text as step 1 compares it. The sign of a number stays."""
    return _unwrapped(plain(text))


def _unwrapped(spelled: str) -> str:
    return spelled.lstrip(_WRAPPING + "#").rstrip(_WRAPPING)


class _Joined(NamedTuple):
    """A text as step 2 compares it, where it had white space, and where any gap."""

    text: str
    spaces: frozenset[int]
    gaps: frozenset[int]


def _join(text: str) -> _Joined:
    pieces: list[str] = []
    spaces, gaps = set(), set()
    length = end = 0
    for gap in _GAP.finditer(text):
        word = text[end : gap.start()]
        end = gap.end()
        kept = _kept(gap[0], word, text[end : end + 1])
        pieces += (word, kept)
        length += len(word) + len(kept)
        if length and end < len(text):
            gaps.add(length)
            if gap[0].isspace():
                spaces.add(length)
    pieces.append(text[end:])
    return _Joined("".join(pieces), frozenset(spaces), frozenset(gaps))


def spelling_key(text: str) -> str:
    """The same for texts that differ in spelling only."""
    return _join(plain(text)).text or plain(text)


def _kept(gap: str, before: str, after: str) -> str:
    """What stays of the characters between two words."""
    if after.isdigit() and not before[-1:].isalpha():
        if not before:
            return gap[-1].replace("−", "-") if gap[-1] in "-−." else ""
        return next((sign for sign in gap if sign in _NUMBER_SIGNS), " ")
    if not after and before and gap[0] in "-−":
        return "-"
    return ""


class Spellings:
    """Finds the class that a text names, in any of the spellings of its answers."""

    def __init__(self, answers: Mapping[str, Iterable[str]]) -> None:
        self.names = tuple(answers)
        self._bare: dict[str, int] = {}
        self._joined: dict[str, list[tuple[int, frozenset[int]]]] = {}
        self.most_words = 1
        for number, spelled in enumerate(answers.values()):
            for answer in spelled:
                self._add(answer, number)

    def _add(self, answer: str, number: int) -> None:
        key = bare(answer) or plain(answer)
        if self._bare.setdefault(key, number) != number:
            self._bare[key] = NO_CLASS
        parts = _CAMEL.sub("/", answer)
        self.most_words = max(self.most_words, len(re.findall(r"\w+", parts.replace("_", " "))))
        for spelled in {plain(parts), plain(parts).replace("&", " and ")}:
            joined = _join(spelled)
            if any(map(str.isalnum, joined.text)):
                self._joined.setdefault(joined.text, []).append((number, joined.gaps))

    def find(self, text: str) -> int:
        """The number of the class that the whole text names, or ``NO_CLASS``."""
        spelled = plain(text)
        key = _unwrapped(spelled) or spelled
        number = self._bare.get(key)
        signed = key[:1].isdigit() and re.search(r"[-−.<>~]$", spelled[: spelled.find(key)])
        if number is not None and not signed:
            return number
        variants = {spelled, spelled.replace("&", " and ")}
        found = {number for variant in variants for number in self._fitting(variant)}
        return found.pop() if len(found) == 1 else NO_CLASS

    def _fitting(self, spelled: str) -> set[int]:
        joined = _join(spelled)
        listed = self._joined.get(joined.text, ())
        numbers = {number for number, _ in listed}
        if len(numbers) > 1:
            return numbers
        return {number for number, gaps in listed if joined.spaces <= gaps}
