"""What an answer says, as the rules that read it hand it on."""

from __future__ import annotations

from typing import NamedTuple

# Why an answer names no class.
REFUSED, EMPTY, CUT_OFF = "refused", "empty answer", "cut off"
OFF_LIST, NEGATED, AMBIGUOUS = "off-list", "negated", "ambiguous"


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
