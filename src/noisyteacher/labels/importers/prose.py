"""Which class a few sentences name: "This is clearly Sports, not World." names Sports.

A sentence is cut into clauses. A clause *asserts* the class it mentions if all its other words
are those of a plain statement ("the category of this text is"), and *denies* it if it holds a
negation. Anything else only *mentions* it, as "a world record" mentions World. The answer is the
class that is asserted, if there is exactly one, it is nowhere denied, and no other is mentioned
beside it; where a first or last line consists of a class alone, the other lines are taken for its
explanation. Whatever is in doubt names no class.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from noisyteacher.io.spelling import NO_CLASS, Spellings
from noisyteacher.labels.importers.common_names import (
    CLAUSE_END,
    WORD,
    CommonNames,
    stands_as_answer,
)
from noisyteacher.labels.importers.prose_words import (
    AFTER_AS,
    BREAKS,
    CONDITIONS,
    DENIALS,
    FRAME,
    JOINING,
    LATE_REASONS,
    LISTS,
    NEGATIONS,
    NOUNS,
    REASONS,
    RETRACTIONS,
    THINGS,
)

OFF_LIST = "off-list"
NEGATED = "negated"
AMBIGUOUS = "ambiguous"

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


class Said(NamedTuple):
    """The classes that a text names, or none and the reason why not; ``words`` name the first."""

    classes: tuple[int, ...]
    reason: str = ""
    words: str = ""


class _Unit(NamedTuple):
    """A word, or the words that name a class."""

    text: str
    label: int
    start: int
    end: int
    common: bool = False  # the class is called by common words


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
        return [unit for unit in self.units if unit.label != NO_CLASS]

    @property
    def words(self) -> list[str]:
        return [unit.text for unit in self.units if unit.label == NO_CLASS]


class Prose:
    """Reads sentences about L classes, which are called by any of the ``answers``."""

    def __init__(self, spellings: Spellings, answers: Iterable[str]) -> None:
        self._spellings = spellings
        listed = list(answers)
        self._common = CommonNames(listed)
        self._with_mark = {spellings.find(answer) for answer in listed if answer.endswith("?")}

    def read(self, text: str) -> Said:
        """The classes that the text names."""
        text = _SURE.sub("", _LIST_MARKS.sub("", text.replace("’", "'")))
        if len(text) > _LONGEST:
            lines = text.strip().splitlines()
            text = f"{lines[0]}\n{lines[-1]}" if len(lines) > 1 else ""
            if len(text) > _LONGEST:
                return Said((), OFF_LIST)
        units = list(self._units(text))
        if all(unit.label == NO_CLASS or unit.common for unit in units):
            lead = self._leading_word(text)
            if lead.classes or all(unit.label == NO_CLASS for unit in units):
                return lead
        line = self._line_of_its_own(text)
        if line is not None:
            return line
        if _PARTIAL.search(text.lower()):
            return Said((), AMBIGUOUS)
        return self._sort(text, units).result()

    def _leading_word(self, text: str) -> Said:
        """A class called by a common word, if the text begins with it: "Yes, because ..."."""
        lead = re.match(r"([^,.:;!?\n—–]+)[,.:!\n—–]", text.strip())
        label = NO_CLASS if lead is None else self._spellings.find(lead[1])
        words = WORD.findall(text.lower())
        others = {self._spellings.find(word) for word in words} - {label, NO_CLASS}
        retracted = bool(RETRACTIONS & set(words)) and self.retracts(text)
        if lead is None or label == NO_CLASS or others or retracted or "?" in text:
            return Said((), OFF_LIST)
        return Said((label,), words=lead[1])

    def _sort(self, text: str, units: list[_Unit]) -> _Reading:
        return _Reading(list(_clauses(units, text)), text, self._spellings, self._common)

    def retracts(self, text: str) -> bool:
        """Whether a text behind an answer takes it back."""
        clauses = _clauses(list(self._units(text)), text)
        return any(_retracts(clause, self._common) for clause in clauses)

    def _units(self, text: str) -> Iterator[_Unit]:
        words = list(WORD.finditer(text))
        first = 0
        while first < len(words):
            most = min(first + self._spellings.most_words + 1, len(words))
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
        if "\n" in words:
            return NO_CLASS, False
        if self._common.is_common(words):
            named = self._common.holds(words) and stands_as_answer(text, start, end)
            return self._spellings.find(words) if named else NO_CLASS, True
        if len(words) < 2 or not any(map(str.isalpha, words)):
            return NO_CLASS, False
        if re.search(r"[.!?;:](?=\s)", words):
            return NO_CLASS, False
        return self._spellings.find(words), False

    def _line_of_its_own(self, text: str) -> Said | None:
        """A class that is the whole first or last line, with its explanation in the others."""
        lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
        if len(lines) < 2:
            return None
        ends = {self._line_label(lines[0]): lines[0], self._line_label(lines[-1]): lines[-1]}
        ends.pop(NO_CLASS, None)
        if not ends:
            return None
        if all(self._line_label(line) != NO_CLASS for line in lines):
            return None  # a list of classes
        if len(ends) > 1:
            return Said((), AMBIGUOUS)
        ((label, line),) = ends.items()
        rest = "\n".join(other for other in lines if self._line_label(other) != label)
        others = {self._line_label(other) for other in lines} - {NO_CLASS, label}
        reading = self._sort(rest, list(self._units(rest)))
        if label in reading.denied:
            return Said((), NEGATED)
        if others or reading.asserted.keys() - {label} or reading.retracted:
            return Said((), AMBIGUOUS)
        if self._common.is_common(line) and reading.strays() - {label}:
            return Said((), AMBIGUOUS)
        return Said((label,), words=line)

    def _line_label(self, line: str) -> int:
        return self._spellings.find(line)


def _clauses(units: list[_Unit], text: str) -> Iterator[_Clause]:
    clause = _Clause()
    for number, unit in enumerate(units):
        following = units[number + 1] if number + 1 < len(units) else None
        opens = unit.label == NO_CLASS and _opens(unit.text, following, clause)
        starts_sentence = not clause.units and not clause.aside
        if opens and clause.units:
            yield clause
            clause = _Clause(aside=clause.aside)
        if opens:
            clause.aside |= unit.text in REASONS or unit.text in LATE_REASONS or unit.text == "as"
            clause.after_break = unit.text in BREAKS
            # "Given the text, it is Sports": what follows the comma is no reason any more.
            clause.leads = clause.aside and starts_sentence
        clause.units.append(unit)
        until = units[number + 1].start if number + 1 < len(units) else len(text)
        gap = text[unit.end : until]
        if CLAUSE_END.search(gap):
            clause.gap = gap
            yield clause
            ended = _SENTENCE_END.search(gap) is not None
            led = clause.leads and "," in gap
            clause = _Clause(aside=clause.aside and not ended and not led)
    if clause.units:
        yield clause


def _opens(word: str, following: _Unit | None, clause: _Clause) -> bool:
    """Whether a word begins a new clause."""
    if word == "given" and clause.units and clause.units[-1].text in ("the", "this"):
        return False  # "the given text"
    if word in BREAKS or word in REASONS or word in ("rather", "instead"):
        return True
    if not clause.named or following is None:
        return False
    if word == "not":  # "Sports and not World"
        last = clause.units[-1]
        return following.label != NO_CLASS and (last.label != NO_CLASS or last.text == "and")
    if word == "as":
        return following.text in AFTER_AS
    return word in LATE_REASONS and clause.units[-1].text in NOUNS


def _retracts(clause: _Clause, common: CommonNames) -> bool:
    words = set(clause.words)
    if words & common.retractions:
        return True
    if clause.aside or not words & common.doubtful:
        return False
    return words <= FRAME | JOINING | BREAKS | NEGATIONS | common.doubtful


class _Reading:
    """What the clauses of a text assert, deny and mention."""

    def __init__(
        self, clauses: list[_Clause], text: str, spellings: Spellings, common: CommonNames
    ) -> None:
        self.asserted: dict[int, str] = {}
        self.denied: set[int] = set()
        self.mentioned: set[int] = set()
        self.retracted = self._asked = False
        self._text, self._names, self._spellings = text, spellings.names, spellings
        self._clauses, self._common = clauses, common
        self._common_asserted = False
        self._quiet = True  # whether no clause so far tells anything but classes
        self._listed = True  # whether nothing but lists of classes stands between the classes
        denying = False
        for number, clause in enumerate(clauses):
            denying = self._take(clause, denying, number)
            silent = all(word in common.plain or word.endswith("n't") for word in clause.words)
            self._quiet &= silent or clause.aside

    def _take(self, clause: _Clause, denying: bool, number: int) -> bool:
        """Sort the classes of a clause; whether it denies them, so that a list may go on."""
        words, named = clause.words, clause.named
        labels = {unit.label for unit in named}
        negated = any(word in NEGATIONS or word.endswith("n't") for word in words)
        if not named:
            # "Obviously not" takes back what was said; "it does not mention politics" does not.
            back = negated and all(word in FRAME or word in NEGATIONS for word in words)
            self.retracted |= back or " ".join(words) in DENIALS
            self.retracted |= _retracts(clause, self._common)
            self.mentioned |= {label for label in (self._find(clause),) if label != NO_CLASS}
            return False if clause.after_break or not negated else denying
        # "Not Sports, World or Business" denies all three.
        starts_with_class = clause.units[0].label != NO_CLASS or clause.units[0].text in JOINING
        if negated or (denying and starts_with_class and not clause.after_break):
            if clause.aside and not negated:
                return False
            self.denied |= labels
            ended = bool(_SENTENCE_END.search(clause.gap)) and "\n" not in clause.gap
            return not ended
        if clause.aside:
            self.mentioned |= labels
            return False
        if self._states(clause, number):
            for unit in named:
                self.asserted.setdefault(unit.label, unit.text)
                self._common_asserted |= unit.common
            self._note_gap(clause, number)
        else:
            self.mentioned |= labels
            self.retracted |= _retracts(clause, self._common)
            self._asked |= "?" in clause.gap
        return False

    def _find(self, clause: _Clause) -> int:
        """The class that is called by a word such as "Other", if a clause is that word alone."""
        return self._spellings.find(self._text[clause.units[0].start : clause.units[-1].end])

    def _states(self, clause: _Clause, number: int) -> bool:
        """Whether a clause asserts the classes that it mentions."""
        words, later = clause.words, self._clauses[number + 1 :]
        earlier = self._clauses[number - 1] if number else None
        frame = self._common.frame
        if not all(word in frame or word in JOINING or word in BREAKS for word in words):
            return False
        if "?" in clause.gap or self._attached(clause.named) or not self._joins(clause):
            return False
        if later and CONDITIONS & set(later[0].words) and not _SENTENCE_END.search(clause.gap):
            return False
        if earlier and CONDITIONS & set(earlier.words) and not _SENTENCE_END.search(earlier.gap):
            return False
        if earlier and earlier.units[-1].text in LISTS and "," not in earlier.gap:
            return False
        if words and all(word in THINGS for word in words):
            return False  # "World News" may be another class
        # A class alone within a tale may be a part of it, as in 'the title is "Oil: Business"'.
        common = any(unit.common for unit in clause.named)
        if not words and (later or common) and not self._quiet:
            return False
        return not any(self._is_a_thing(unit, clause) for unit in clause.named)

    @staticmethod
    def _is_a_thing(unit: _Unit, clause: _Clause) -> bool:
        """Whether the words mean what they say: "the best in the world", "has business there"."""
        place = clause.units.index(unit)
        before = clause.units[place - 1].text if place else ""
        after = clause.units[place + 1].text if place + 1 < len(clause.units) else ""
        return (before == "the" or "has" in clause.words) and after not in NOUNS

    def _attached(self, named: list[_Unit]) -> bool:
        """Whether a class is a part of a word with hyphens, as in "sports-related"."""
        text = self._text
        return any(
            re.search(r"\w[-/]\Z", text[: unit.start]) or re.match(r"[-/]\w", text[unit.end :])
            for unit in named
            if not self._between_classes(unit, named)
        )

    @staticmethod
    def _between_classes(unit: _Unit, named: list[_Unit]) -> bool:
        return any(abs(o.start - unit.end) == 1 or abs(unit.start - o.end) == 1 for o in named)

    def _joins(self, clause: _Clause) -> bool:
        """Whether several classes of one clause stand in a list: "Sports or World"."""
        named = clause.named
        for one, other in itertools.pairwise(named):
            inside = [u for u in clause.units if one.end <= u.start < other.start]
            if not all(unit.text in JOINING for unit in inside):
                return False
            if not inside and not _LIST_SIGN.search(self._text[one.end : other.start]):
                return False
            ends = [one.end, *(u.end for u in inside)], [*(u.start for u in inside), other.start]
            if not all(_LIST_GAP.match(self._text[a:b]) for a, b in zip(*ends, strict=True)):
                return False
        return True

    def _note_gap(self, clause: _Clause, number: int) -> None:
        more = any(later.named for later in self._clauses[number + 1 :])
        if more and not _LIST_GAP.match(clause.gap.strip("*_ ")):
            self._listed = False
        if more and re.search(r"[.]\s+\Z", clause.gap) and "\n" not in clause.gap:
            self._listed = False

    def result(self) -> Said:
        if not self.asserted:
            return self._only_mention()
        if self.asserted.keys() & self.denied or self.retracted:
            return Said((), NEGATED)
        if self._asked:
            return Said((), AMBIGUOUS)
        others = self.mentioned - self.asserted.keys()
        if self._common_asserted:
            others |= self.strays() - self.asserted.keys()
            if others or len(self.asserted) > 1:
                return Said((), AMBIGUOUS)
        if len(self.asserted) == 1:
            ((label, words),) = self.asserted.items()
            return (
                Said((label,), words=words) if not others or self._leads() else Said((), AMBIGUOUS)
            )
        clean = self._listed and self._quiet and not self.denied and not self.mentioned
        clean &= not any(clause.after_break for clause in self._clauses)
        if not clean or len(self.asserted) == len(self._names):
            return Said((), AMBIGUOUS)
        return Said(tuple(sorted(self.asserted)))

    def strays(self) -> set[int]:
        """The classes called by common words that the text holds where no answer stands."""
        words = {u.text for c in self._clauses for u in c.units if u.label == NO_CLASS}
        return {self._spellings.find(word) for word in words} - {NO_CLASS}

    def _leads(self) -> bool:
        """Whether the text begins with the class alone, and goes on with an explanation."""
        first = self._clauses[0]
        if len(first.units) != 1 or not first.named:
            return False
        follows = self._clauses[1]
        return follows.aside or bool(re.search(r"[.\n:—–]|\s-\s", first.gap))

    def _only_mention(self) -> Said:
        """A class that is mentioned, not stated: taken if it is written as the class is."""
        if self.denied or self.retracted:
            return Said((), NEGATED)
        if len(self.mentioned) > 1:
            return Said((), AMBIGUOUS)
        units = [unit for clause in self._clauses for unit in clause.units]
        words = {unit.text for unit in units if unit.label == NO_CLASS}
        doubts = self._common.contrasts | NEGATIONS | CONDITIONS
        doubtful = words & doubts or any(word.endswith("n't") for word in words)
        places = [number for number, unit in enumerate(units) if unit.label != NO_CLASS]
        if doubtful or len(places) != 1 or len(units) > _MOST_WORDS or "?" in self._text:
            return Said((), OFF_LIST)
        unit = units[places[0]]
        if not self._is_written_as_class(unit, places[0], units):
            return Said((), OFF_LIST)
        return Said((unit.label,), words=unit.text)

    def _is_written_as_class(self, unit: _Unit, place: int, units: list[_Unit]) -> bool:
        """With the class's capital, within a sentence, and not in a name such as "World Cup"."""
        if not (unit.text[0].isupper() and unit.text == self._names[unit.label]):
            return False
        if self._attached([unit]) or not place:
            return False
        before, after = units[place - 1], units[place + 1] if place + 1 < len(units) else None
        if after is not None and CLAUSE_END.search(self._text[unit.end : after.start]):
            after = None
        placed = before.text in ("under", "into", "as", "it")
        if not placed and (after is None or after.text not in NOUNS - THINGS):
            return False
        capitals = [self._text[other.start].isupper() for other in (before, after) if other]
        gap = self._text[before.end : unit.start]
        return not any(capitals) and not re.search(r"[.!?:;\n]", gap)
