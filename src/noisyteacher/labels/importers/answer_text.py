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

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from noisyteacher.core.errors import InputError
from noisyteacher.core.probabilities import SUM_TOLERANCE
from noisyteacher.io.classes import ClassAnswers
from noisyteacher.io.spelling import NO_CLASS, Spellings, bare
from noisyteacher.labels.importers.lexicon import word_set
from noisyteacher.labels.importers.prose import Prose
from noisyteacher.labels.importers.reading import (
    AMBIGUOUS,
    BESIDE,
    CONFIDENCE_KEYS,
    CUT_OFF,
    EMPTY,
    OFF_LIST,
    REFUSED,
    Reading,
    confidence_in,
    key_words,
    one_class,
    read_number,
    several_classes,
    stated_confidence,
)

# The keys of answers in JSON, the likeliest first.
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
    not no non excluded rejected wrong incorrect worst sub parent alternative alternatives
    second secondary runner previous old input original example least unlikely other possible
    available all candidate candidates options choices reason reasoning explanation gold true
    expected
    """
)

_THINKING = "think|thinking|thought|reasoning|analysis|scratchpad"
# What a reasoning model writes before its answer, removed in this order.
_THOUGHTS = (
    re.compile(r"\A.*<\|channel\|>final\b.*?<\|message\|>", re.DOTALL),
    re.compile(rf"<({_THINKING})\b[^>]*>.*?</\1\s*>", re.IGNORECASE | re.DOTALL),
    re.compile(rf"\A.*</(?:{_THINKING})\s*>", re.IGNORECASE | re.DOTALL),
)
_THOUGHT_START = re.compile(rf"<(?:{_THINKING})\b[^>]*>", re.IGNORECASE)
_SPECIAL = re.compile(r"<\|[^|<>]*\|>|</?(?:b|strong|i|em|p|u|code|span|s|br)\s*/?>", re.IGNORECASE)
_TAG = re.compile(
    r"<(answer|final_answer|label|category|class|classification|output|result|prediction)>"
    r"(.*?)</\1>",
    re.IGNORECASE | re.DOTALL,
)
_BOXED = re.compile(r"\\boxed\{\s*(?:\\(?:text|textbf|mathrm)\{)?([^{}]*)\}")
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n?(.*?)```", re.DOTALL)
_OPTION = re.compile(
    r"(?:option|choice|answer)?\s*[(\[*\"'`]*([a-z]|\d{1,3})[)\]*\"'`]*"
    r"(?:\s*[.:)\]-]+\s*(.*)|\s+[(](.*)[)])?",
    re.IGNORECASE | re.DOTALL,
)
_LIST_MARK = re.compile(r"^\s*(?:[-*•>+]+|#{1,6}|\d{1,3}[.)]|\(?[A-Za-z][.)])\s+")

_MARKER = re.compile(
    r"(?:^|(?<=[.!?;,])[ \t]+|\n)[ \t#>*_`\"'-]*((?:[^\W\d]+[ \t]+){0,4}?(?:"
    + "|".join(key for key in ANSWER_KEYS if key not in ("labels", "classes", "categories"))
    + r"))[ \t*_`\"']*(?:[:=]|->|→|⇒)[ \t*_`]*\n?[ \t]*([^\n]+)",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"(?:the |my )?(?:(\w+) )?(?:answer|option|choice|category|label|class|topic|sentiment)"
    r" (?:is|would be|should be) (?:option |choice )?(\S[^\n]*)\Z",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\W*(?:(?:yes|no)\W+)?(?:(?:i['’]?m|i am|we['’]?re|we are)\s+(?:very\s+|so\s+|really\s+)?"
    r"(?:sorry|unable|not able|not comfortable|afraid)"
    r"|sorry|apologies|i (?:must )?apologi[sz]e|(?:unfortunately,?\s+)?i\s+(?:can['’]?t|can ?not"
    r"|won['’]?t|will not|must (?:decline|refuse)|have to decline|do(?:n['’]?t| not) feel)"
    r"|as an? (?:ai|large language|language)\b|this (?:content|request) (?:violates|cannot))",
    re.IGNORECASE,
)
# "Yes, please provide the text." is no answer to a question either.
_OFFER = re.compile(r"\W*(?:yes|no)\W+(?:please|how|i can|i['’]?ll|i['’]?d)\b", re.IGNORECASE)

_JSON = json.JSONDecoder(parse_int=float)  # a number of any length is one
_QUOTED = re.compile(r"""["']?([\w ]+?)["']?\s*:\s*(?:"([^"\n]*)"|'([^'\n]*)')""")


class AnswerReader:
    """Recognizes classes in the answers of an LLM.

    Args:
        classes: each class with its synonyms.
        first_choice: "A", "1" or "0" if the prompt listed the classes as options; the other options
            follow in the order of the classes.
        answer_key: the key of the class in JSON answers; by default the usual ones.
    """

    def __init__(
        self,
        classes: ClassAnswers,
        *,
        first_choice: str | None = None,
        answer_key: str | None = None,
    ) -> None:
        self._spellings = Spellings(classes)
        self._prose = Prose(self._spellings, chain(*classes.values()))
        self._key = answer_key
        self._options = {} if first_choice is None else self._count_on(first_choice)

    def _count_on(self, first: str) -> dict[str, int]:
        names = self._spellings.names
        if first.upper() == "A" and len(names) <= 26:
            options = {chr(ord("a") + number): number for number in range(len(names))}
        elif first in ("0", "1"):
            options = {str(number + int(first)): number for number in range(len(names))}
        else:
            raise InputError(
                f"choices (--choices) must be A, 1 or 0, not {first!r}; letters are enough for "
                "26 classes."
            )
        for option, number in options.items():
            other = self._spellings.find(option)
            if other not in (number, NO_CLASS):
                raise InputError(
                    f"the choice {option.upper()!r} stands for {names[number]!r}, but it is also "
                    f"an answer of {names[other]!r}."
                )
        return options

    def with_options(self, classes: ClassAnswers) -> ClassAnswers:
        """The classes with their options as further answers, to match tokens."""
        if not self._options:
            return classes
        pairs = zip(classes.items(), self._options, strict=True)
        return {name: (*answers, option) for (name, answers), option in pairs}

    def read(self, text: str) -> Reading:
        """The classes that the text of an answer names."""
        label = self._spellings.find(text)
        if label != NO_CLASS:
            return one_class("class", label, text)
        for thought in _THOUGHTS:
            text = thought.sub("", text)
        if _THOUGHT_START.search(text):
            return Reading(CUT_OFF)
        text = _SPECIAL.sub("", text).strip()
        if not text:
            return Reading(EMPTY)
        inner = [found[2] for found in _TAG.finditer(text)] or _BOXED.findall(text)
        return _agreed([self._read_inner(part.strip()) for part in inner or [text]])

    def _read_inner(self, text: str) -> Reading:
        said = self._short(text)
        if said is not None:
            return said
        parsed = list(_json_values(text))
        if parsed:
            said = _agreed([self.read_value(value) for value in parsed])
            return self._unless_contradicted(said, re.split(r"[}\]]", text)[-1])
        if text.lstrip("`json \n").startswith("{"):  # cut off, or written as Python does
            pairs = {
                found[1].strip(): found[2] or found[3] or "" for found in _QUOTED.finditer(text)
            }
            return self._read_object(pairs, 3) if pairs else Reading(CUT_OFF)
        fenced = _FENCE.findall(text)
        if len(fenced) == 1 and (said := self._short(fenced[0].strip())) is not None:
            return said
        return self._pairs(text) or self._with_confidence(text)

    def _short(self, text: str) -> Reading | None:
        """A class, or an option, and nothing else."""
        label = self._spellings.find(text)
        if label != NO_CLASS:
            return one_class("class", label, text)
        marked = _LIST_MARK.match(text)
        option = self._option(text)
        if option is None and marked and "\n" not in text.strip():
            label = self._spellings.find(text[marked.end() :])
            letter = self._options.get(bare(marked[0]), label)
            if label != NO_CLASS and letter == label:
                return one_class("class", label, text[marked.end() :])
        return option

    def _option(self, text: str) -> Reading | None:
        """An option's letter or number, perhaps with the class behind it: "B) Sports"."""
        found = _OPTION.fullmatch(text.strip()) if self._options and len(text) <= 200 else None
        label = self._options.get(found[1].lower()) if found else None
        if found is None or label is None:
            return None
        rest = (found[2] or found[3] or "").strip()
        if text[:1].isdigit() and rest[:1].isdigit():
            return None  # a decimal number
        if rest and self._spellings.find(rest) != label:
            return Reading(AMBIGUOUS)
        return one_class("choice", label, found[1])

    def _with_confidence(self, text: str) -> Reading:
        rest, confidence = stated_confidence(text)
        said = self._short(rest.strip()) if rest != text and rest.strip() else None
        beside = BESIDE.match(text) if said is None else None
        if beside is not None and (beside[3] or re.match(r"[01]?[.,]\d", beside[2])):
            number = read_number(beside[2], beside[3])
            said = None if number is None else self._short(beside[1])
            if said and number is not None and number * len(self._spellings.names) < 1:
                return Reading(AMBIGUOUS)  # "Sports: 0.1" leaves most to classes it does not name
            confidence = confidence if said is None else number
        if said is None:
            said = self._sentences(rest)
        return said._replace(confidence=confidence) if len(said.classes) == 1 else said

    def _sentences(self, text: str) -> Reading:
        marked = self._marked(text)
        if marked is not None:
            return marked
        stated = _STATEMENT.match(text)
        said = None if stated is None else self._short(stated[2])
        if stated and said and (stated[1] or "").lower() not in _OTHER_KEYS:
            return _found_by("prose", said)
        if _REFUSAL.match(text):
            return Reading(REFUSED)
        if _OFFER.match(text):
            return Reading(OFF_LIST)
        return self._prose.read(_FENCE.sub(r"\n\1\n", text))

    def _marked(self, text: str) -> Reading | None:
        """What stands behind "Answer:" or the like; where that is no class, there is none."""
        found = [
            match
            for match in _MARKER.finditer(text)
            if _OTHER_KEYS.isdisjoint(match[1].lower().split())
        ]
        if not found:
            return None
        values = [match[2] for match in found if "final" in match[1].lower()]
        values = values or [match[2] for match in found]
        said = [self._short(value.strip()) or self._prose.read(value) for value in values]
        # A model that goes on behind its answer invents the next example, and labels it.
        first = self._spellings.find(text.splitlines()[0])
        agreed = _agreed(said)
        if agreed.classes and first not in (NO_CLASS, *agreed.classes):
            return Reading(AMBIGUOUS)
        return _found_by("marked", self._unless_contradicted(agreed, text[found[-1].end() :]))

    def _unless_contradicted(self, said: Reading, after: str) -> Reading:
        """The reading, unless the text behind the answer takes it back or states another class."""
        one = len(said.classes) == 1
        contradicted = one and self._prose.contradicts(said.classes[0], after)
        return Reading(AMBIGUOUS) if contradicted else said

    def _pairs(self, text: str) -> Reading | None:
        """Classes with a number each: "Sports: 0.9, World: 0.1"."""
        parts = [part for part in re.split(r"[\n;]+|,(?!\d)", text) if part.strip(" *-•`")]
        found: dict[int, float] = {}
        for part in parts if len(parts) > 1 else ():
            beside = BESIDE.match(part.strip())
            if beside is None:
                return None
            label = self._spellings.find(_LIST_MARK.sub("", beside[1]))
            number = read_number(beside[2], beside[3])
            if label == NO_CLASS or number is None or label in found:
                return None
            found[label] = number
        return _distribution(found) if found else None

    def read_value(self, value: Any, depth: int = 0) -> Reading:
        """The classes that a JSON value names."""
        if isinstance(value, list) and depth < 4:
            return self._read_list(value, depth)
        if isinstance(value, dict) and depth < 4:
            return self._read_object(value, depth)
        if isinstance(value, str):
            said = self._read_inner(value.strip()) if value.strip() else Reading(EMPTY)
        elif isinstance(value, int | float) and value == value:
            text = str(value).lower() if isinstance(value, bool) else f"{value:g}"
            said = self._short(text) or Reading(OFF_LIST)
        else:
            said = Reading(OFF_LIST)
        return _found_by("JSON", said)

    def _read_list(self, values: Sequence[Any], depth: int) -> Reading:
        said = [self.read_value(value, depth + 1) for value in values]
        if len(said) == 1:
            return said[0]
        if not said or any(len(one.classes) != 1 for one in said):
            return Reading(AMBIGUOUS if said else EMPTY)
        numbers = {one.classes[0]: one.confidence for one in said}
        if len(numbers) == len(said) and None not in numbers.values():
            return _distribution({label: number or 0.0 for label, number in numbers.items()})
        if any(isinstance(value, dict) for value in values):
            return Reading(AMBIGUOUS)
        return said[0] if len(numbers) == 1 else several_classes(tuple(sorted(numbers)))

    def _read_object(self, given: dict[str, Any], depth: int) -> Reading:
        if self._key is None:
            named = [self._spellings.find(key) for key in given]
            scored = all(isinstance(item, int | float) for item in given.values())
            if given and scored and NO_CLASS not in named:
                return _scores(dict(zip(named, given.values(), strict=True)), len(given))
        keys = _answer_keys(given) if self._key is None else [self._key] * (self._key in given)
        if not keys:
            ((key, inner),) = given.items() if len(given) == 1 else [("", None)]
            if isinstance(inner, dict | list) and _OTHER_KEYS.isdisjoint(key_words(key)):
                return self.read_value(inner, depth + 1)
            return Reading(OFF_LIST)
        said, *others = (self.read_value(given[key], depth + 1) for key in keys)
        if said.classes and any(o.classes not in ((), said.classes) for o in others):
            return Reading(AMBIGUOUS)
        if len(said.classes) != 1:
            return said
        confidence = confidence_in(given) if said.confidence is None else said.confidence
        return said._replace(confidence=confidence, key=said.key or keys[0])


def _found_by(rule: str, reading: Reading) -> Reading:
    """The outermost rule by which a class was found is the one that is told."""
    inner = reading.rule in ("class", "marked", "prose")
    return reading._replace(rule=rule) if inner else reading


def _scores(scores: dict[int, Any], keys: int) -> Reading:
    """An object from classes to numbers, or to true and false."""
    true = tuple(sorted(label for label, score in scores.items() if score is True))
    booleans = sum(isinstance(score, bool) for score in scores.values())
    if len(scores) < keys or 0 < booleans < len(scores):
        return Reading(AMBIGUOUS)
    if booleans:
        many = several_classes(true) if true else Reading(OFF_LIST)
        return one_class("JSON", true[0], "") if len(true) == 1 else many
    numbers = {label: float(score) for label, score in scores.items()}
    if len(numbers) > 1:
        return _distribution(numbers)
    ((label, number),) = numbers.items()
    certain = one_class("JSON", label, "")._replace(confidence=number)
    return certain if 0.5 < number <= 1 else Reading(AMBIGUOUS)


def _distribution(numbers: dict[int, float]) -> Reading:
    total = sum(numbers.values())
    if abs(total - 100) <= 100 * SUM_TOLERANCE:
        numbers = {label: number / 100 for label, number in numbers.items()}
        total /= 100
    if not (abs(total - 1) <= SUM_TOLERANCE and min(numbers.values()) >= 0):  # or NaN
        return Reading(AMBIGUOUS)
    labels = tuple(sorted(numbers))
    return Reading("probabilities", labels, tuple(numbers[label] / total for label in labels))


def _agreed(readings: list[Reading]) -> Reading:
    """The one thing that all say."""
    alike = all(other.classes == readings[0].classes for other in readings)
    return readings[0] if alike else Reading(AMBIGUOUS)


def _json_values(text: str) -> Iterator[Any]:
    """The JSON objects in a text, and lists that are all of it."""
    fenced = [part.strip() for part in _FENCE.findall(text)]
    whole = next((part for part in fenced if part[:1] in "{["), text)
    if whole[:1] == "[":
        with suppress(ValueError, RecursionError):
            yield _JSON.decode(whole)
        return
    start = text.find("{")
    while start >= 0:
        try:
            value, start = _JSON.raw_decode(text, start)
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
