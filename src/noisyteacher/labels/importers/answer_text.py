"""What an answer of an LLM says, by its text: a class, a few classes, probabilities, or none.

The rules, in order; the first that fits decides:

- ``class``: the text is a class, in any spelling (``io/spelling.py``), perhaps in markdown, tags
  such as ``<answer>``, or behind the ``<think>…</think>`` of a reasoning model;
- ``choice``: the letter or number of an option, if the prompt had options;
- ``JSON``: an object with a class under a key such as ``label`` or ``category``, fenced or not;
- ``marked``: "Answer: Sports", "**Category:** Sports";
- ``prose``: a few sentences that name one class (``prose.py``);
- ``several classes``: a list of classes, which share the probability evenly;
- ``probabilities``: a number for each of several classes, which sum to 1.

A confidence that the answer states ("Sports (90%)") is its probability. When in doubt, a text names
no class: the reason is then "refused", "empty answer", "cut off", "negated", "ambiguous" or
"off-list".
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from noisyteacher.core.errors import InputError
from noisyteacher.core.probabilities import SUM_TOLERANCE
from noisyteacher.io.classes import ClassAnswers
from noisyteacher.io.spelling import NO_CLASS, Spellings, bare
from noisyteacher.labels.importers.prose import AMBIGUOUS, OFF_LIST, Prose
from noisyteacher.labels.importers.prose_words import RETRACTIONS, word_set
from noisyteacher.labels.importers.stated_confidence import (
    BESIDE,
    CONFIDENCE_KEYS,
    confidence_in,
    key_words,
    read_number,
    stated_confidence,
)

REFUSED, EMPTY, CUT_OFF = "refused", "empty answer", "cut off"
ANSWER_KEYS = re.findall(
    r"\w+",
    """
    label labels class classes category categories classification answer prediction predicted
    topic sentiment intent verdict choice option rating grade emotion genre stance severity
    priority department output result response value tag type name
    """,
)
# A key with one of these tells of another class than the answer's.
_OTHER_KEYS = word_set(
    """
    not no non excluded rejected wrong incorrect alternative alternatives second secondary
    runner previous old input original example least unlikely other possible available all
    candidate candidates options choices reason reasoning explanation gold true expected
    """
)

_THINKING = "think|thinking|thought|reasoning|analysis|scratchpad"
_THOUGHT = re.compile(rf"<({_THINKING})\b[^>]*>.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_THOUGHT_END = re.compile(rf".*</(?:{_THINKING})\s*>", re.IGNORECASE | re.DOTALL)
_THOUGHT_START = re.compile(rf"<(?:{_THINKING})\b[^>]*>", re.IGNORECASE)
_CHANNEL = re.compile(r".*<\|channel\|>final\b.*?<\|message\|>", re.DOTALL)
_SPECIAL = re.compile(r"<\|[^|<>]*\|>|</?(?:b|strong|i|em|p|u|code|span|s|br)\s*/?>", re.IGNORECASE)
_TAG = re.compile(
    r"<(answer|final_answer|label|category|class|classification|output|result|prediction)>"
    r"(.*?)</\1>",
    re.IGNORECASE | re.DOTALL,
)
_BOXED = re.compile(r"\\boxed\{\s*(?:\\(?:text|textbf|mathrm)\{)?([^{}]*)\}")
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n?(.*?)```", re.DOTALL)
_LIST_MARK = re.compile(r"^\s*(?:[-*•>+]+|#{1,6}|\d{1,3}[.)]|\(?[A-Za-z][.)])\s+")

_MARKER = re.compile(
    r"(?:^|(?<=[.!?;,])[ \t]+|\n)[ \t#>*_`\"'-]*((?:[^\W\d]+[ \t]+){0,4}?(?:"
    + "|".join(key for key in ANSWER_KEYS if key not in ("labels", "classes", "categories"))
    + r"))[ \t*_`\"']*(?:[:=]|->|→|⇒)[ \t*_`]*\n?[ \t]*([^\n]+)",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"(?:the |my )?(?:\w+ )?(?:answer|option|choice|category|label|class|topic|sentiment)"
    r" (?:is|would be|should be) (?:option |choice )?(\S[^\n]*)\Z",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m|i am|we['’]?re|we are)\s+(?:very\s+|so\s+|really\s+)?"
    r"(?:sorry|unable|not able|not comfortable|afraid)"
    r"|sorry|apologies|i (?:must )?apologi[sz]e|(?:unfortunately,?\s+)?i\s+(?:can['’]?t|can ?not"
    r"|won['’]?t|will not|must (?:decline|refuse)|have to decline|do(?:n['’]?t| not) feel)"
    r"|as an? (?:ai|large language|language)\b|this (?:content|request) (?:violates|cannot))",
    re.IGNORECASE,
)

_QUOTED_PAIR = re.compile(r"""["']?([\w ]+?)["']?\s*:\s*(?:"([^"\n]*)"|'([^'\n]*)')""")


class Reading(NamedTuple):
    """What an answer says: the rule by which, and the classes with their shares; or why none."""

    rule: str
    classes: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    confidence: float | None = None
    words: str = ""  # those that name the class
    key: str = ""  # of JSON


class AnswerReader:
    """Reads answers about some classes.

    Args:
        classes: each class with its answers.
        first_choice: "A", "1" or "0" if the prompt listed the classes as options so; they are
            then counted on in the classes' order.
        answer_key: the key of the answer in JSON; None: the usual ones.
    """

    def __init__(
        self,
        classes: ClassAnswers,
        *,
        first_choice: str | None = None,
        answer_key: str | None = None,
    ) -> None:
        self._spellings = Spellings(classes)
        self._prose = Prose(self._spellings, itertools.chain(*classes.values()))
        self._key = answer_key
        self._options = {} if first_choice is None else self._count_on(first_choice)

    def _count_on(self, first: str) -> dict[str, int]:
        count = len(self._spellings.names)
        if first.upper() == "A" and count <= 26:
            options = {chr(ord("a") + number): number for number in range(count)}
        elif first in ("0", "1"):
            options = {str(number + int(first)): number for number in range(count)}
        else:
            raise InputError(
                f"choices (--choices) must be A, 1 or 0, not {first!r}; letters are enough for "
                "26 classes."
            )
        for option, number in options.items():
            other = self._spellings.find(option)
            if other not in (number, NO_CLASS):
                raise InputError(
                    f"the choice {option.upper()!r} stands for {self._spellings.names[number]!r}, "
                    f"but it is also an answer of {self._spellings.names[other]!r}."
                )
        return options

    def with_options(self, classes: ClassAnswers) -> ClassAnswers:
        """The classes with their options among their answers, for tokens."""
        names = {number: option for option, number in self._options.items()}
        return {
            name: (*answers, names[number]) if number in names else answers
            for number, (name, answers) in enumerate(classes.items())
        }

    def read(self, text: str) -> Reading:
        """What the text of an answer says."""
        label = self._spellings.find(text)
        if label != NO_CLASS:
            return _one("class", label, text)
        text = _CHANNEL.sub("", text)
        text = _THOUGHT_END.sub("", _THOUGHT.sub("", text))
        if _THOUGHT_START.search(text):
            return Reading(CUT_OFF)
        text = _SPECIAL.sub("", text).strip()
        if not text:
            return Reading(EMPTY)
        inner = [found[2] for found in _TAG.finditer(text)] or _BOXED.findall(text)
        if inner:
            return _agreed([self._read_inner(part.strip()) for part in inner])
        return self._read_inner(text)

    def _read_inner(self, text: str) -> Reading:
        said = self._short(text)
        if said is not None:
            return said
        parsed = list(_json_values(text))
        if parsed:
            return _agreed([self.read_value(value) for value in parsed])
        if text.lstrip("`json \n").startswith("{"):
            return self._broken_json(text)
        fenced = _FENCE.findall(text)
        if len(fenced) == 1 and (said := self._short(fenced[0].strip())) is not None:
            return said
        return self._with_confidence(text)

    def _short(self, text: str) -> Reading | None:
        """A class, or an option, and nothing else."""
        label = self._spellings.find(text)
        if label != NO_CLASS:
            return _one("class", label, text)
        option = self._option(text)
        if option is not None:
            return option
        marked = _LIST_MARK.match(text)
        if marked and "\n" not in text.strip():
            label = self._spellings.find(text[marked.end() :])
            letter = self._options.get(bare(marked[0]), label)
            if label != NO_CLASS and letter == label:
                return _one("class", label, text[marked.end() :])
        return None

    def _option(self, text: str) -> Reading | None:
        """An option's letter or number, perhaps with the class behind it: "B) Sports"."""
        if not self._options or len(text) > 200:
            return None
        found = re.fullmatch(
            r"(?:option|choice|answer)?\s*[(\[*\"'`]*([a-z]|\d{1,3})[)\]*\"'`]*"
            r"(?:\s*[.:)\]-]+\s*(.*)|\s+[(](.*)[)])?",
            text.strip(),
            re.IGNORECASE | re.DOTALL,
        )
        if found is None or found[1].lower() not in self._options:
            return None
        label, rest = self._options[found[1].lower()], (found[2] or found[3] or "").strip()
        if rest and not (text[:1].isdigit() and rest[:1].isdigit()):
            named = self._spellings.find(rest)
            if named != label:
                return Reading(AMBIGUOUS)
        elif rest:
            return None
        return _one("choice", label, found[1])

    def _with_confidence(self, text: str) -> Reading:
        pairs = self._pairs(text)
        if pairs is not None:
            return pairs
        rest, confidence = stated_confidence(text)
        said = self._short(rest.strip()) if rest != text and rest.strip() else None
        if said is None:
            beside = BESIDE.match(text)
            number = None if beside is None else read_number(beside[2], beside[3])
            sure = beside is not None and (beside[3] or re.match(r"[01]?[.,]\d", beside[2]))
            if beside is not None and sure and number is not None:
                said = self._short(beside[1])
                confidence = number if said is not None else confidence
        if said is None:
            said = self._sentences(rest)
        return said._replace(confidence=confidence) if len(said.classes) == 1 else said

    def _sentences(self, text: str) -> Reading:
        marked = self._marked(text)
        if marked is not None:
            return marked
        stated = _STATEMENT.match(text)
        said = None if stated is None else self._short(stated[1])
        if said is not None:
            return said._replace(rule="prose" if said.rule == "class" else said.rule)
        if _REFUSAL.match(text):
            return Reading(REFUSED)
        fenced = _FENCE.findall(text)
        return self._prose_reading(_FENCE.sub(r"\n\1\n", text) if fenced else text, "prose")

    def _prose_reading(self, text: str, rule: str) -> Reading:
        said = self._prose.read(text)
        if len(said.classes) == 1:
            return _one(rule, said.classes[0], said.words)
        return _several(said.classes) if said.classes else Reading(said.reason)

    def _marked(self, text: str) -> Reading | None:
        """What stands behind "Answer:" or the like; where that is no class, there is none."""
        matches = [
            match
            for match in _MARKER.finditer(text)
            if not _OTHER_KEYS & set(match[1].lower().split())
        ]
        if not matches:
            return None
        rest = text[matches[-1].end() :]
        if RETRACTIONS & set(re.findall(r"\w+", rest.lower())) and self._prose.retracts(rest):
            return Reading(AMBIGUOUS)
        found = [(match[1].lower(), match[2]) for match in matches]
        final = [value for key, value in found if "final" in key]
        return _agreed([self._behind_marker(value) for value in final or [v for _, v in found]])

    def _behind_marker(self, value: str) -> Reading:
        short = self._short(value.strip())
        if short is not None:
            return short._replace(rule="marked" if short.rule == "class" else short.rule)
        return self._prose_reading(value, "marked")

    def _pairs(self, text: str) -> Reading | None:
        """Classes with a number each: "Sports: 0.9, World: 0.1"."""
        parts = [part for part in re.split(r"[\n;]+|,(?!\d)", text) if part.strip(" *-•`")]
        found: dict[int, float] = {}
        if len(parts) < 2:
            return None
        for part in parts:
            beside = BESIDE.match(part.strip())
            if beside is None:
                return None
            label = self._spellings.find(_LIST_MARK.sub("", beside[1]))
            number = read_number(beside[2], beside[3])
            if label == NO_CLASS or number is None or label in found:
                return None
            found[label] = number
        return _distribution(found)

    def read_value(self, value: Any, depth: int = 0) -> Reading:
        """What a value of JSON says."""
        if isinstance(value, str):
            said = self._read_inner(value.strip()) if value.strip() else Reading(EMPTY)
        elif isinstance(value, bool) or (isinstance(value, int | float) and value == value):
            text = str(value).lower() if isinstance(value, bool) else f"{value:g}"
            said = self._short(text) or Reading(OFF_LIST)
        elif isinstance(value, list) and depth < 4:
            return self._read_list(value, depth)
        elif isinstance(value, dict) and depth < 4:
            return self._read_object(value, depth)
        else:
            return Reading(OFF_LIST)
        if said.rule in ("class", "marked", "prose"):
            said = said._replace(rule="JSON")
        return said

    def _read_list(self, values: Sequence[Any], depth: int) -> Reading:
        if len(values) == 1:
            return self.read_value(values[0], depth + 1)
        said = [self.read_value(value, depth + 1) for value in values]
        if not said or any(len(one.classes) != 1 for one in said):
            return Reading(AMBIGUOUS if said else EMPTY)
        numbers = {one.classes[0]: one.confidence for one in said}
        if len(numbers) == len(said) and None not in numbers.values():
            return _distribution({label: number or 0.0 for label, number in numbers.items()})
        if any(isinstance(value, dict) for value in values):
            return Reading(AMBIGUOUS)
        return _several(tuple(sorted(numbers)), said[0])

    def _read_object(self, value: dict[str, Any], depth: int) -> Reading:
        given = {str(key): item for key, item in value.items()}
        named = {key: self._spellings.find(key) for key in given}
        scored = [
            key for key, label in named.items() if label != NO_CLASS and _is_score(given[key])
        ]
        if scored and len(scored) == len(given) and self._key is None:
            return self._scores({named[key]: given[key] for key in scored}, len(scored))
        keys = _answer_keys(given) if self._key is None else [self._key] * (self._key in given)
        if not keys and len(given) == 1:
            ((key, inner),) = given.items()
            if isinstance(inner, dict | list) and not _OTHER_KEYS & set(key_words(key)):
                return self.read_value(inner, depth + 1)
        if not keys:
            return Reading(OFF_LIST)
        said = self.read_value(given[keys[0]], depth + 1)
        for key in keys[1:]:
            other = self.read_value(given[key], depth + 1)
            if said.classes and other.classes and other.classes != said.classes:
                return Reading(AMBIGUOUS)
        if len(said.classes) != 1:
            return said
        confidence = said.confidence
        if confidence is None:
            confidence = confidence_in(given)
        return said._replace(confidence=confidence, key=said.key or keys[0])

    def _scores(self, scores: dict[int, Any], keys: int) -> Reading:
        """An object from classes to numbers, or to true and false."""
        if len(scores) < keys:
            return Reading(AMBIGUOUS)
        if all(isinstance(score, bool) for score in scores.values()):
            true = tuple(sorted(label for label, score in scores.items() if score))
            if len(true) == 1:
                return _one("JSON", true[0], "")
            return _several(true) if true else Reading(OFF_LIST)
        if any(isinstance(score, bool) for score in scores.values()):
            return Reading(AMBIGUOUS)
        numbers = {label: float(score) for label, score in scores.items()}
        if len(numbers) == 1:
            ((label, number),) = numbers.items()
            certain = 0.5 < number <= 1
            return (
                _one("JSON", label, "")._replace(confidence=number)
                if certain
                else Reading(AMBIGUOUS)
            )
        return _distribution(numbers)

    def _broken_json(self, text: str) -> Reading:
        """An object that was cut off, or written as Python does."""
        pairs = {
            found[1].strip(): found[2] or found[3] or "" for found in _QUOTED_PAIR.finditer(text)
        }
        return self._read_object(pairs, 3) if pairs else Reading(CUT_OFF)


def _one(rule: str, label: int, words: str) -> Reading:
    return Reading(rule, (label,), (1.0,), words=words.strip())


def _several(labels: tuple[int, ...], like: Reading | None = None) -> Reading:
    if like is not None and len(labels) == 1:
        return like
    return Reading("several classes", labels, (1 / len(labels),) * len(labels))


def _distribution(numbers: dict[int, float]) -> Reading:
    total = sum(numbers.values())
    if abs(total - 100) <= 100 * SUM_TOLERANCE:
        numbers = {label: number / 100 for label, number in numbers.items()}
        total /= 100
    if abs(total - 1) > SUM_TOLERANCE or min(numbers.values()) < 0:
        return Reading(AMBIGUOUS)
    labels = tuple(sorted(numbers))
    return Reading("probabilities", labels, tuple(numbers[label] / total for label in labels))


def _agreed(readings: list[Reading]) -> Reading:
    """The one thing that all say."""
    first = readings[0]
    if all(other.classes == first.classes for other in readings[1:]):
        return first
    return Reading(AMBIGUOUS)


def _json_values(text: str) -> Iterator[Any]:
    """The JSON objects in a text, and lists that are all of it."""
    fenced = [part.strip() for part in _FENCE.findall(text)]
    whole = next((part for part in fenced if part[:1] in "{["), text)
    if whole[:1] == "[":
        try:
            yield json.loads(whole)
        except ValueError:
            return
        return
    decoder, start = json.JSONDecoder(), text.find("{")
    while start >= 0:
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
        else:
            if isinstance(value, dict) and value:
                yield value
        start = text.find("{", start)


def _answer_keys(given: dict[str, Any]) -> list[str]:
    """The keys that may hold the answer, the likeliest first."""
    ranked = []
    for key in given:
        words = key_words(key)
        ranks = [ANSWER_KEYS.index(word) for word in words if word in ANSWER_KEYS]
        told = not _OTHER_KEYS & set(words) and not set(words) & set(CONFIDENCE_KEYS)
        if ranks and told and len(words) <= 4:
            ranked.append(("final" not in words, min(ranks), len(words), key))
    return [key for *_, key in sorted(ranked)]


def _is_score(value: Any) -> bool:
    return isinstance(value, bool | int | float)
