"""What an answer says, as the rules that read it hand it on, and how sure it says it is."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from noisyteacher.io.user_tables import with_capitals

# Why an answer names no class.
REFUSED, EMPTY, CUT_OFF = "refused", "empty answer", "cut off"
OFF_LIST, NEGATED, AMBIGUOUS = "off-list", "negated", "ambiguous"

# How answers state a confidence: "Sports (90%)", ``"confidence": 0.9``.
CONFIDENCE_KEYS = with_capitals(
    "confidence", "probability", "score", "certainty", "prob", "likelihood"
)
_NUMBER = r"(\d{1,3}(?:[.,]\d+)?|[.]\d+)"
# What stands in front of a confidence goes with it. No pattern begins with it: a long run of such
# signs, as models repeat them that do not find an end, would be tried from each of its places.
_SEPARATORS = ",;:|([–—-" + "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())
_STATED = re.compile(
    r"(?:\b(?:with|and)\b\s*)?(?:my\s+)?\*{0,2}\b"
    r"(?:confidence|probability|certainty|likelihood|conf)\b\*{0,2}"
    r"(?:\s+(?:score|level|rating))?\*{0,2}\s*(?:is|of|[:=~≈])?\s*\*{0,2}\s*"
    rf"(?:{_NUMBER}\s*(%|/\s*100\b|/\s*10\b)?|(?:very\s+)?(?:high|medium|moderate|low)\b)"
    r"\*{0,2}[)\]]?",
    re.IGNORECASE,
)
_PERCENT = re.compile(
    rf"(?:\b(?:with|i am|i'm)\b\s*)?(?:about\s+|~|≈)?{_NUMBER}\s*(%)\s*"
    r"(?:confident|confidence|sure|certain|certainty|probability|likely|chance)\b"
    r"(?:\s+(?:that|of))?[)\]]?",
    re.IGNORECASE,
)
BESIDE = re.compile(
    rf"^(.*?[^\s,;:=|(\[–—-])[\s,;:=|(\[–—-]++{_NUMBER}\s*(%)?\s*[)\]]?[.!]?$", re.DOTALL
)


class Reading(NamedTuple):
    """The classes that an answer names, with their shares and the rule; or the reason for none."""

    rule: str
    classes: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    confidence: float | None = None
    words: str = ""  # those that name the class
    key: str = ""  # of JSON


def one_class(rule: str, label: int, words: str) -> Reading:
    """A class, by the words that name it."""
    return Reading(rule, (label,), (1.0,), words=words.strip())


def several_classes(labels: tuple[int, ...]) -> Reading:
    """Classes that share the probability evenly."""
    return Reading("several classes", labels, (1 / len(labels),) * len(labels))


def key_words(key: str) -> list[str]:
    """The words of a key of JSON: predictedLabel, predicted_label."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key)
    return re.findall(r"[^\W_]+", spaced.lower())


def confidence_in(given: dict[str, Any]) -> float | None:
    """The confidence that an object states, if it states one."""
    found = []
    for key, value in given.items():
        if set(key_words(key)) & set(CONFIDENCE_KEYS):
            if isinstance(value, str):
                match = re.fullmatch(rf"\s*{_NUMBER}\s*(%)?\s*", value)
                number = None if match is None else read_number(match[1], match[2])
            elif isinstance(value, int | float) and not isinstance(value, bool):
                number = read_number(f"{value:g}", None)
            else:
                number = None
            found.append(number)
    return found[0] if len(set(found)) == 1 else None


def stated_confidence(text: str) -> tuple[str, float | None]:
    """The text without a stated confidence, and that as a number if it is one."""
    found: list[float | None] = []
    for pattern in (_PERCENT, _STATED):
        rest, end = "", 0
        for match in pattern.finditer(text):
            found.append(read_number(match[1], match[2]) if match[1] else None)
            rest += text[end : match.start()].rstrip(_SEPARATORS) + " "
            end = match.end()
        text = rest + text[end:]
    return text, found[0] if len(set(found)) == 1 else None


def read_number(text: str, unit: str | None) -> float | None:
    """A probability from 0 to 1; None for numbers on a scale that nobody names."""
    number = float(text.replace(",", "."))
    if unit:
        number /= 10 if unit.endswith("10") else 100
    elif 10 < number <= 100:
        number /= 100
    return number if 0 <= number <= 1 else None
