"""Which class a few sentences name: "This is clearly Sports, not World." names Sports.

A sentence is cut into clauses. A clause *asserts* the class it mentions if all its other words
are those of a plain statement ("the category of this text is"), and *denies* it if it holds a
negation. Anything else only *mentions* it, as "a world record" mentions World. The answer is the
class that is asserted, if there is exactly one, it is nowhere denied, and no other is mentioned
beside it; where a first or last line consists of a class alone, the other lines are taken for its
explanation. Whatever is in doubt names no class.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import NamedTuple

from noisyteacher.io.spelling import NO_CLASS, Spellings
from noisyteacher.labels.importers import lexicon
from noisyteacher.labels.importers.lexicon import (
    CLAUSE_END,
    WORD,
    CommonNames,
    are_common,
    stands_as_answer,
)
from noisyteacher.labels.importers.reading import (
    AMBIGUOUS,
    NEGATED,
    OFF_LIST,
    Reading,
    one_class,
    several_classes,
)

_LONGEST = 4000  # characters; of longer texts only the first and the last line are looked at
_MOST_WORDS = 40  # of a text that mentions a class without stating that it is the answer
# "Not only Sports" and "anything but Sports" say neither yes nor no to a clause.
_PARTIAL = re.compile(
    r"\bnot\s+(?:only|just|merely|necessarily|simply)\b"
    r"|\b(?:any|every|no)thing\s+but\b|\b(?:all|none|never)\s+but\b"
)
_SURE = re.compile(
    r"\b(?:i'm|i am|we're|we are)\s+(?:(?!not\b)\w+\s+)?(?:sure|certain|confident)\b(?:\s+that\b)?",
    re.IGNORECASE,
)
_LIST_MARKS = re.compile(r"^[ \t]*(?:\d+[.)]|[-*•>#]+)[ \t]+", re.MULTILINE)
_NUMBERS = re.compile(r"^[ \t]*\d+[.)][ \t]", re.MULTILINE)
_LEAD = re.compile(r"([^,.:;!?\n—–]+)([,.:!\n—–])")
# Of "Sports: 8" and "Irony: absent" the class is a key and no answer, whatever the value says.
_KEY_MARK = re.compile(r"[:=|→⇒>—–]|\s-")
_FEWEST_WORDS = 3  # of an explanation behind such a mark
_LONGEST_KEY = 3  # words; "Least likely: Sports" has a key, "It tells of a match: Sports" none

# "Is it X?", "Y or X?": the question mark is not that of a class called "X?".
_ASKS = re.compile(
    r"(?:^|[.!?\n])\W*(?:is|are|could|would|should|can|does|might)\b[^.!?\n]*\Z"
    r"|\b(?:(?:is|could|would|should|can|might|does)\s+(?:it|this|that)|whether)\b[^.!?\n]*\Z"
    r"|\bor\W+\Z",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?\n]")
_LIST_GAP = re.compile(r"[\s,/&|;+*•\"'`“”‘’]*\Z")
_LIST_SIGN = re.compile(r"[,/&|;+\n]")


class _Unit(NamedTuple):
    """A word, or the words that name a class."""

    text: str
    label: int
    start: int
    end: int
    common: bool = False  # the class is called by common words

    @property
    def named(self) -> bool:
        return self.label != NO_CLASS


@dataclass
class _Clause:
    """Some words; ``gap`` is what stands behind the last."""

    units: list[_Unit] = field(default_factory=list)
    gap: str = ""
    aside: bool = False  # a reason, up to the end of the sentence
    leads: bool = False  # a reason at the start of the sentence, up to its comma
    after_break: bool = False  # begins with "but" or the like

    @property
    def named(self) -> list[_Unit]:
        return [unit for unit in self.units if unit.named]

    @property
    def words(self) -> list[str]:
        return [unit.text for unit in self.units if not unit.named]

    @property
    def ends_sentence(self) -> bool:
        return _SENTENCE_END.search(self.gap) is not None

    def sets_condition(self) -> bool:
        return not lexicon.CONDITIONS.isdisjoint(self.words)


class Prose:
    """Reads sentences about L classes, which are called by any of the ``answers``."""

    def __init__(self, spellings: Spellings, answers: Iterable[str]) -> None:
        self.spellings = spellings
        listed = list(answers)
        self.common = CommonNames(listed)
        self._with_mark = {spellings.find(answer) for answer in listed if answer.endswith("?")}

    def read(self, text: str) -> Reading:
        """The classes that the text names."""
        numbered = len(_NUMBERS.findall(text)) > 1
        text = _SURE.sub("", _LIST_MARKS.sub("", text.replace("’", "'")))
        if len(text) > _LONGEST:
            lines = text.strip().splitlines()
            text = f"{lines[0]}\n{lines[-1]}" if len(lines) > 1 else ""
            if len(text) > _LONGEST:
                return Reading(OFF_LIST)
        told = _Statements(self, text)
        if all(unit.common or not unit.named for unit in told.units):
            lead = self._leading_word(told)
            if lead.classes or not any(unit.named for unit in told.units):
                return lead
        line = self._line_of_its_own(text)
        if line is not None:
            return line
        if _PARTIAL.search(text.lower()):
            return Reading(AMBIGUOUS)
        said = told.result()
        # "1. Sports\n2. World" is a ranking, or the options of the prompt.
        return Reading(AMBIGUOUS) if numbered and len(said.classes) > 1 else said

    def named_by(self, texts: Iterable[str]) -> set[int]:
        """The classes that some texts name, each by all of its words."""
        return set(map(self.spellings.find, texts)) - {NO_CLASS}

    def _leading_word(self, told: _Statements) -> Reading:
        """A class called by a common word, if the text begins with it: "Yes, because ..."."""
        text = told.text.strip()
        lead = _LEAD.match(text)
        label = NO_CLASS if lead is None else self.spellings.find(lead[1])
        others = self.named_by(WORD.findall(text.lower())) - {label}
        retracted = any(map(self.retracts, told.clauses))
        if lead is None or label == NO_CLASS or others or "?" in text or retracted:
            return Reading(OFF_LIST)
        if _KEY_MARK.match(lead[2]) and not _explains(text[lead.end() :]):
            return Reading(OFF_LIST)
        return one_class("prose", label, lead[1])

    def retracts(self, clause: _Clause) -> bool:
        """Whether a clause says "that is wrong" of the answer, and not "the order was wrong"."""
        words = set(clause.words)
        told = self.common.retractions if not clause.after_break else lexicon.RETRACTIONS
        reason = clause.aside and clause.units[0].text not in lexicon.CONCESSIONS
        return not reason and bool(words & told) and words <= lexicon.OF_ANSWERS

    def units(self, text: str) -> Iterator[_Unit]:
        """The words of a text, those that name a class together as one."""
        words = list(WORD.finditer(text))
        first = 0
        while first < len(words):
            most = min(first + self.spellings.most_words + 1, len(words))
            for last in range(most, first, -1):
                start, end = words[first].start(), words[last - 1].end()
                label, common = self._mention(text, start, end)
                if label != NO_CLASS:
                    mark = label in self._with_mark and text[end : end + 1] == "?"
                    behind = end + (mark and not _ASKS.search(text[:start]))
                    yield _Unit(text[start:end], label, start, behind, common)
                    first = last
                    break
            else:
                word = words[first]
                yield _Unit(word[0].lower(), NO_CLASS, word.start(), word.end())
                first += 1

    def _mention(self, text: str, start: int, end: int) -> tuple[int, bool]:
        """The class that some words name, and whether they are common words."""
        words = text[start:end]
        common = are_common(words)
        if common:
            may_name = self.common.holds(words) and stands_as_answer(text, start, end)
        else:
            letters = len(words) > 1 and any(map(str.isalpha, words))
            may_name = letters and not re.search(r"[.!?;:](?=\s)", words)
        named = may_name and "\n" not in words
        return self.spellings.find(words) if named else NO_CLASS, common

    def contradicts(self, label: int, text: str) -> bool:
        """Whether a text beside an answer takes it back, or states another class."""
        told = _Statements(self, text[:_LONGEST])
        return told.retracted or label in told.denied or bool(told.asserted.keys() - {label})

    def _line_of_its_own(self, text: str) -> Reading | None:
        """A class that is the whole first or last line, with its explanation in the others."""
        lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
        labels = list(map(self.spellings.find, lines))
        ends = {*labels[:1], *labels[-1:]} - {NO_CLASS}
        if not ends or NO_CLASS not in labels:  # without any other line, it is a list of classes
            return None
        if len(ends) > 1:
            return Reading(AMBIGUOUS)
        (label,) = ends
        line = lines[-1] if labels[-1] == label else lines[0]
        rest = "\n".join(o for o, named in zip(lines, labels, strict=True) if named != label)
        told = _Statements(self, rest)
        if label in told.denied:
            return Reading(NEGATED)
        others = {*labels, *told.asserted} - {NO_CLASS}
        others |= told.strays() if are_common(line) else set()
        if others - {label} or told.retracted:
            return Reading(AMBIGUOUS)
        return one_class("prose", label, line)


def _clauses(units: list[_Unit], text: str) -> Iterator[_Clause]:
    clause = _Clause()
    for unit, following in zip_longest(units, units[1:]):
        opens = not unit.named and _opens(unit.text, following, clause)
        starts_sentence = not clause.units and not clause.aside
        if opens and clause.units:
            yield clause
            clause = _Clause(aside=clause.aside)
        if opens:
            clause.aside |= unit.text in lexicon.REASONS | lexicon.LATE_REASONS | {"as"}
            clause.after_break = unit.text in lexicon.BREAKS
            # "Given the text, it is Sports": what follows the comma is no reason any more.
            clause.leads = clause.aside and starts_sentence
        clause.units.append(unit)
        gap = text[unit.end : None if following is None else following.start]
        if CLAUSE_END.search(gap):
            clause.gap = gap
            yield clause
            over = clause.ends_sentence or (clause.leads and "," in gap)
            clause = _Clause(aside=clause.aside and not over)
    if clause.units:
        yield clause


def _opens(word: str, following: _Unit | None, clause: _Clause) -> bool:
    """Whether a word begins a new clause."""
    last = clause.units[-1] if clause.units else None
    if word == "given" and last is not None and last.text in ("the", "this"):
        return False  # "the given text"
    if word in lexicon.BREAKS or word in lexicon.REASONS or word in ("rather", "instead"):
        return True
    if last is None or not clause.named or following is None:
        return False
    if word == "not":  # "Sports and not World"
        return following.named and (last.named or last.text == "and")
    if word == "as":
        return following.text in lexicon.AFTER_AS
    return word in lexicon.LATE_REASONS and last.text in lexicon.NOUNS


class _Statements:
    """What the clauses of a text assert, deny and mention."""

    def __init__(self, prose: Prose, text: str) -> None:
        self.text, self.units = text, list(prose.units(text))
        self.clauses = list(_clauses(self.units, text))
        self.asserted: dict[int, str] = {}
        self.denied: set[int] = set()
        self.mentioned: set[int] = set()
        self.retracted = self._asked = self._common_asserted = False
        self._prose, self._common = prose, prose.common
        self._quiet = True  # whether no clause so far tells anything but classes
        self._listed = True  # whether nothing but lists of classes stands between the classes
        denying = False
        for number, clause in enumerate(self.clauses):
            denying = self._take(clause, denying, number)
            silent = all(word in self._common.plain or _negates(word) for word in clause.words)
            self._quiet &= silent or clause.aside

    def _take(self, clause: _Clause, denying: bool, number: int) -> bool:
        """Sort the classes of a clause; whether it denies them, so that a list may go on."""
        words, first = clause.words, clause.units[0]
        labels = {unit.label for unit in clause.named}
        negated = any(map(_negates, words))
        if not labels:
            # "Obviously not" takes back what was said; "it does not mention politics" does not.
            back = negated and all(w in lexicon.FRAME or w in lexicon.NEGATIONS for w in words)
            self.retracted |= back or " ".join(words) in lexicon.DENIALS
            self.retracted |= self._prose.retracts(clause)
            # A clause may be a common name alone, such as "Other", where no answer stands.
            self.mentioned |= self._prose.named_by([self.text[first.start : clause.units[-1].end]])
            return denying and negated and not clause.after_break
        # "Not Sports, World or Business" denies all three.
        goes_on = first.named or first.text in lexicon.JOINING
        if negated or (denying and goes_on and not clause.after_break):
            if clause.aside and not negated:
                return False
            self.denied |= labels
            return not clause.ends_sentence or "\n" in clause.gap
        if not clause.aside and self._states(clause, number):
            for unit in clause.named:
                self.asserted.setdefault(unit.label, unit.text)
                self._common_asserted |= unit.common
            more = any(later.named for later in self.clauses[number + 1 :])
            self._listed &= not more or bool(_LIST_GAP.match(clause.gap.strip("*_ ")))
            return False
        self.mentioned |= labels
        if not clause.aside:
            self.retracted |= self._prose.retracts(clause)
            self._asked |= "?" in clause.gap
        return False

    def _states(self, clause: _Clause, number: int) -> bool:
        """Whether a clause asserts the classes that it mentions."""
        words, later = clause.words, self.clauses[number + 1 :]
        earlier = self.clauses[number - 1] if number else _Clause(gap=".")
        common = any(unit.common for unit in clause.named)
        behind = self.text[clause.units[-1].end :]
        return self._common.statement.issuperset(words) and not (
            "?" in clause.gap
            or self._attached(clause.named)
            or not self._joins(clause)
            or (later and later[0].sets_condition() and not clause.ends_sentence)
            or (earlier.sets_condition() and not earlier.ends_sentence)
            or (number and self._is_key(number - 1))
            or (not words and _KEY_MARK.search(clause.gap) and not _explains(behind))
            or (number and earlier.units[-1].text in lexicon.LISTS and "," not in earlier.gap)
            # "World News" may be another class.
            or (words and lexicon.THINGS.issuperset(words))
            # A class alone within a tale may be a part of it, as in 'the title is "Oil: Business"'.
            or (not words and (later or common) and not self._quiet)
            or _means_a_thing(clause)
        )

    def _is_key(self, number: int) -> bool:
        """Whether a clause is a key of something else than the answer, as in "Keywords: Sports"."""
        clause, before = self.clauses[number], self.clauses[max(number - 1, 0)]
        begins = number == 0 or before.ends_sentence
        plain = (self._common.statement | {"here's"}).issuperset(clause.words)
        short = len(clause.units) <= _LONGEST_KEY
        return begins and short and not plain and not clause.named and ":" in clause.gap

    def _attached(self, named: list[_Unit]) -> bool:
        """Whether a class is a part of a word with hyphens, as in "sports-related"."""
        text = self.text
        return any(
            re.search(r"\w[-/]\Z", text[: unit.start]) or re.match(r"[-/]\w", text[unit.end :])
            for unit in named
            # "Sports/World" is a list.
            if not any(abs(o.start - unit.end) == 1 or abs(unit.start - o.end) == 1 for o in named)
        )

    def _joins(self, clause: _Clause) -> bool:
        """Whether several classes of one clause stand in a list: "Sports or World"."""
        places = [place for place, unit in enumerate(clause.units) if unit.named]
        for one, other in pairwise(clause.units[places[0] : places[-1] + 1]):
            gap = self.text[one.end : other.start]
            if not _LIST_GAP.match(gap) or not (other.named or other.text in lexicon.JOINING):
                return False
            if one.named and other.named and not _LIST_SIGN.search(gap):
                return False
        return True

    def result(self) -> Reading:
        """What the text says as a whole."""
        if not self.asserted:
            return self._only_mention()
        if self.asserted.keys() & self.denied or self.retracted:
            return Reading(NEGATED)
        others = self.mentioned | (self.strays() if self._common_asserted else set())
        others -= self.asserted.keys()
        if self._asked or (self._common_asserted and (others or len(self.asserted) > 1)):
            return Reading(AMBIGUOUS)
        if len(self.asserted) == 1 and (not others or self._leads()):
            ((label, words),) = self.asserted.items()
            return one_class("prose", label, words)
        clean = self._listed and self._quiet and not self.denied and not self.mentioned
        clean &= not any(clause.after_break for clause in self.clauses)
        if not clean or not 1 < len(self.asserted) < len(self._prose.spellings.names):
            return Reading(AMBIGUOUS)
        return several_classes(tuple(sorted(self.asserted)))

    def strays(self) -> set[int]:
        """The classes called by common words that the text holds where no answer stands."""
        return self._prose.named_by(unit.text for unit in self.units if not unit.named)

    def _leads(self) -> bool:
        """Whether the text begins with the class alone, and goes on with an explanation."""
        first, follows = self.clauses[:2]
        alone = len(first.units) == 1 and first.units[0].named
        return alone and (follows.aside or bool(re.search(r"[.\n]", first.gap)))

    def _only_mention(self) -> Reading:
        """A class that is mentioned, not stated: taken if it is written as the class is."""
        if self.denied or self.retracted:
            return Reading(NEGATED)
        if len(self.mentioned) > 1:
            return Reading(AMBIGUOUS)
        doubts = self._common.contrasts | lexicon.CONDITIONS
        words = [unit.text for unit in self.units if not unit.named]
        places = [place for place, unit in enumerate(self.units) if unit.named]
        doubtful = any(word in doubts or _negates(word) for word in words) or "?" in self.text
        if doubtful or len(places) != 1 or len(self.units) > _MOST_WORDS:
            return Reading(OFF_LIST)
        written = self._is_written_as_class(places[0])
        unit = self.units[places[0]]
        return one_class("prose", unit.label, unit.text) if written else Reading(OFF_LIST)

    def _is_written_as_class(self, place: int) -> bool:
        """With the class's capital, within a sentence, and not in a name such as "World Cup"."""
        before, unit = self.units[place - 1], self.units[place]
        behind = self.units[place + 1 : place + 2]
        behind = [o for o in behind if not CLAUSE_END.search(self.text[unit.end : o.start])]
        placed = before.text in ("under", "into", "as", "it")
        return (
            place > 0
            and unit.text[0].isupper()
            and unit.text == self._prose.spellings.names[unit.label]
            and not self._attached([unit])
            and (placed or any(other.text in lexicon.KINDS for other in behind))
            and not any(self.text[other.start].isupper() for other in (before, *behind))
            and not re.search(r"[.!?:;\n]", self.text[before.end : unit.start])
        )


def _explains(text: str) -> bool:
    """Whether what stands behind "Sports:" may tell why, and is no value such as 8 or "absent"."""
    words = WORD.findall(_SENTENCE_END.split(text.lower().lstrip(" :=|-"), maxsplit=1)[0])
    if not words:
        return not text.strip(" \n|*_`\"'.:;-")
    return sum(map(str.isalpha, words)) >= _FEWEST_WORDS and not any(map(_negates, words))


def _negates(word: str) -> bool:
    return word in lexicon.NEGATIONS or word.endswith("n't")


def _means_a_thing(clause: _Clause) -> bool:
    """Whether the words mean what they say: "the best in the world", "I hate this"."""
    texts = ["", *(unit.text for unit in clause.units), ""]
    holders = {"the", "i", "we", "they", "you"}
    return any(
        (before in holders or "has" in clause.words) and after not in lexicon.NOUNS
        for before, unit, after in zip(texts, clause.units, texts[2:], strict=False)
        if unit.named
    )
