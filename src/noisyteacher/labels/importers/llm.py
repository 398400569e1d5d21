"""Files of LLM answers to teacher labels.

A line is one provider's response (``responses.py``), which becomes the probability of each class
(``answer_lines.py``). The probabilities of the classes are made to sum to 1; what no class got is
the row's missing mass. A row whose classes got less than a millionth is rejected: it has no label.
Several lines with one id are several answers, of which the mean counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from orjson import loads

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.core.files import write_atomic
from noisyteacher.io.classes import UNMATCHED, ClassAnswers
from noisyteacher.io.formats import LineBlock, RawLines, kind_of, name_files, no_garbage, raw_lines
from noisyteacher.io.ids import clean_ids
from noisyteacher.io.spelling import plain
from noisyteacher.labels.importers.answer_lines import LONGEST_REMEMBERED, SHAPE_ERRORS, LineReader
from noisyteacher.labels.importers.answer_tables import answer_rows
from noisyteacher.labels.importers.answers import Remembered
from noisyteacher.labels.importers.lexicon import WORD
from noisyteacher.labels.importers.llm_rows import LlmRows, RejectedList
from noisyteacher.labels.importers.probability_files import ImportSettings
from noisyteacher.labels.importers.reading import CUT_OFF, EMPTY, OFF_LIST, REFUSED
from noisyteacher.labels.importers.responses import (
    ERROR,
    PLAIN_KEYS,
    BadLineError,
    Response,
    rows_of_object,
)
from noisyteacher.labels.importers.usual_lines import (
    USUAL_ANSWERS,
    UsualAnswer,
    UsualColumns,
    names_of,
    plain_columns,
    plain_lists,
)
from noisyteacher.labels.teacher_labels import TeacherLabels

_MUCH_MISSING = 0.5
_MOST_UNMATCHED = 0.1
_COUNTED_ANSWERS = 10_000  # different ones
_LONGEST_COUNTED = 80
_SHOWN = 6
_ID_TYPES = frozenset((str, int))
_OPTION = re.compile("[0-9]{1,3}|[A-Za-z]")
_UNUSUAL: UsualAnswer = (None, "", None)
_MANY_IDS = 20  # more than a response has keys
_LINE_BY_LINE = 63  # blocks, after one whose lines are mostly unusual


@dataclass(frozen=True)
class LlmImport:
    """Imported labels, and the outcome for every line."""

    labels: TeacherLabels
    lines: int  # that were not empty
    rejected: dict[str, int]  # lines without a label, by reason
    bad: int  # lines that could not be read, and were skipped
    off_list: int  # rows in the store whose own answer names no class
    never_named: tuple[str, ...]  # classes that no answer names
    rules: dict[str, int] = field(default_factory=dict)  # lines with a label, by rule
    unmatched: dict[str, int] = field(default_factory=dict)  # the commonest answers without one
    repeated: int = 0  # ids with several answers
    rejected_naming: int = 0  # lines without a label that contain the name of a class
    named_in_rejected: dict[str, int] = field(default_factory=dict)  # the commonest such names

    @property
    def mostly_missing(self) -> int:
        """The number of rows in the store with more than half of their probability on no class."""
        return int((self.labels.missing > _MUCH_MISSING).sum())


def import_llm(
    paths: Sequence[Path],
    classes: ClassAnswers,
    *,
    ids: npt.NDArray[Any] | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    choices: str | None = None,
    answer_key: str | None = None,
    skip_bad: bool = False,
    allow_rejected: bool = False,
    rejected: Path | None = None,
    synonyms: Path | None = None,
    settings: ImportSettings | None = None,
    on_block: Callable[[int, int], None] | None = None,
) -> LlmImport:
    """Read answers of an LLM.

    Args:
        paths: JSON Lines files; ``.json`` files with one response, a list of them, or an object
            that maps ids to answers; or, with ``label_column``, tables.
        classes: each class with its synonyms.
        ids: one id for each non-empty line of all files, in place of those in the lines.
        id_column: the key or column of the ids, by default ``id`` or a similar name.
        label_column: the column of tables that holds the answers.
        choices: "A", "1" or "0" if the prompt listed the classes as options: the first option.
        answer_key: the key of the class in JSON answers (default: ``label`` and similar names).
        skip_bad: whether to skip lines that cannot be read.
        allow_rejected: whether more than a tenth of the answers may name no class.
        rejected: a file in which to list every example that was refused, off-list or not read.
        synonyms: a file to write with the answers that name no class. Complete it and pass it as
            ``classes`` the next time.
        settings: the kind of numbers, and what to record about the teacher.
        on_block: a function that is called from time to time with the number of further bytes and
            lines that were read.
    """
    settings = settings or ImportSettings()
    if settings.logits:
        raise InputError("logits=True (--logits) cannot be used with answers of an LLM.")
    with RejectedList(rejected) as listed:
        lines = LineReader(classes, choices=choices, answer_key=answer_key)
        reader = _Reader(tuple(classes), lines, ids, skip_bad, listed)
        with no_garbage():
            for path in paths:
                blocks = (
                    _blocks(path, alone=len(paths) == 1)
                    if label_column is None
                    else answer_rows(path, id_column, label_column, with_ids=ids is None)
                )
                if label_column is None and id_column is not None and ids is None:
                    blocks = _with_ids(blocks, id_column, path)
                reader.read(path, blocks, on_block or (lambda size, lines: None))
        if synonyms is not None:
            write_synonyms(synonyms, classes, reader.unmatched())
        problem = reader.why_nothing() or ("" if allow_rejected else reader.why_too_few())
        if problem:
            listed.commit()
            where = f" They are listed in {rejected}." if rejected is not None else ""
            raise InputError(f"{problem}{where}")
        result = reader.finish(settings, name_files(paths))
        listed.commit()
    return result


def write_synonyms(path: Path, classes: ClassAnswers, unmatched: dict[str, int]) -> None:
    """A file of classes and synonyms, with the answers that have no class yet at its end.

    Singular and plural of a class are put where they belong.
    """
    file: dict[str, list[str]] = {name: list(answers[1:]) for name, answers in classes.items()}
    own = {a.casefold(): name for name, answers in classes.items() for a in answers}
    rest: list[str] = []
    for answer in unmatched:
        text = answer.strip().strip(".").casefold()
        near = own.get(f"{text}s") or (own.get(text[:-1]) if text.endswith("s") else None)
        (rest if near is None else file[near]).append(answer)
    content = orjson.dumps({**file, UNMATCHED: rest}, option=orjson.OPT_INDENT_2)
    write_atomic(path, content + b"\n")


def _blocks(path: Path, *, alone: bool) -> Iterator[RawLines]:
    """The lines of a file; a ``.json`` file may be one response, a list, or an object of several.

    In a folder of responses, a file with a few unknown keys is no such object.
    """
    if kind_of(path) == ".json":
        try:
            value = orjson.loads(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        except orjson.JSONDecodeError:
            value = None
        if isinstance(value, dict):
            # What a provider calls the response is not what the user calls the example.
            own = any(key in value for key in ("custom_id", "key"))
            plain = any(isinstance(value.get(key), str) for key in PLAIN_KEYS) and "id" in value
            one = value if own or plain else {"custom_id": path.stem, **value}
            value = rows_of_object(value, 2 if alone else _MANY_IDS) or [one]
        if isinstance(value, list):
            yield RawLines(1, b"", list(map(orjson.dumps, value)))
            return
    yield from raw_lines(path)


def _with_ids(blocks: Iterator[RawLines], key: str, path: Path) -> Iterator[RawLines]:
    """The lines, with the ids under the user's ``key`` where ids are looked for first."""
    for block in (block for raw in blocks for block in raw.blocks()):
        lines = []
        for number, line in enumerate(block.lines, block.first):
            try:
                row = loads(line)
            except orjson.JSONDecodeError:
                row = None  # told when the line is read
            if isinstance(row, dict):
                if key not in row:
                    raise InputError(f"{path}, line {number} has no key {key!r} for its id.")
                line = orjson.dumps({**row, "custom_id": row[key]})
            lines.append(line)
        yield RawLines(block.first, b"", lines)


def _spaced(text: str) -> str:
    """The words of a text with spaces around each, so that whole words can be looked for."""
    return f" {' '.join(WORD.findall(plain(text)))} "


class _Reader:
    """Goes through the lines, one at a time, and keeps count."""

    def __init__(
        self,
        names: tuple[str, ...],
        lines: LineReader,
        ids: npt.NDArray[Any] | None,
        skip_bad: bool,
        listed: RejectedList,
    ) -> None:
        self._names = names
        self._read = lines.read
        self._ids = ids
        self._skip_bad = skip_bad
        self._listed = listed
        self._rows = LlmRows(len(names))
        self._usual_lines = list(USUAL_ANSWERS)  # the one that fitted last comes first
        self._label_numbers = Remembered(self._label_number, longest=LONGEST_REMEMBERED)
        self._shared: dict[tuple[Any, ...], int] = {}  # labels from texts, with their numbers
        self._label_of_text = lines.label_of_text
        self._unusual = 0
        self._models: set[str] = set()
        self._told: Counter[tuple[str, tuple[int, ...]]] = Counter()  # rules and classes named
        self._rejected: Counter[str] = Counter()
        self._answers: Counter[str] = Counter()
        self._contained: Counter[str] = Counter()  # class names in rejected answers
        self._naming = 0
        self._spaced = {_spaced(name): name for name in names if WORD.search(name)}
        self._lines = self._bad = self._off_list = 0

    def read(
        self, path: Path, blocks: Iterator[RawLines], on_block: Callable[[int, int], None]
    ) -> None:
        before = self._lines
        for raw in blocks:
            columns = plain_columns(raw.data) if self._ids is None else None
            if columns is not None:
                self._read_columns(columns, raw, path)
                on_block(len(raw.data), len(columns.ids))
                continue
            for block in raw.blocks():
                self._read_block(block, path)
                on_block(sum(map(len, block.lines)), len(block.lines))
        if self._lines == before:
            raise InputError(f"{path} is empty.")

    def _read_block(self, block: LineBlock, path: Path) -> None:
        """Some lines; those that are not of a usual kind are read one by one."""
        names: list[Any] = [None] * len(block.lines)
        labels = np.full(len(names), -1, np.int32)
        if self._ids is None and self._unusual <= 0:
            usual = plain_lists(block.lines) or self._usual_columns(block.lines)
            names, labels = list(usual.ids), self._numbers_of(usual.texts)
            self._models |= usual.models
            if not set(map(type, names)) <= _ID_TYPES:
                labels[[type(name) not in _ID_TYPES for name in names]] = -1
        self._unusual -= 1
        self._read_others(names, labels, block, path)
        self._rows.add(clean_ids(list(compress(names, labels >= 0))), labels[labels >= 0])

    def _read_columns(self, columns: UsualColumns, raw: RawLines, path: Path) -> None:
        """The same for all lines at once; every different answer is read once."""
        answers = columns.texts.dictionary_encode()
        labels = self._numbers_of(answers.dictionary.to_pylist())[answers.indices.to_numpy()]
        names = columns.ids.to_numpy(zero_copy_only=False)  # clean, as Arrow's texts are
        self._models |= columns.models
        lines = raw.data.split(b"\n") if (labels < 0).any() else []
        self._read_others(names, labels, LineBlock(raw.first, lines), path)
        self._rows.add(names[labels >= 0], labels[labels >= 0])

    def _read_others(self, names: Any, labels: Any, block: LineBlock, path: Path) -> None:
        """The ids and labels of the lines that have no label yet, where they get one."""
        self._lines += int((labels >= 0).sum())
        for place in np.flatnonzero(labels < 0).tolist():
            line = block.lines[place]
            if line and not line.isspace():
                self._lines += 1
                found = self._read_line(line, path, block.first + place)
                if found is not None:
                    names[place], labels[place] = found

    def _numbers_of(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """(n,) the labels of texts, -1 where they have none."""
        return np.fromiter(map(self._label_numbers.__getitem__, texts), np.int32, len(texts))

    def _usual_columns(self, lines: Sequence[bytes]) -> UsualColumns:
        """The answers of lines that are read one by one, without the detours of other lines."""
        answers: list[UsualAnswer] = []
        usual = self._usual_lines[0]
        for line in lines:
            try:
                answer = usual(loads(line)) or self._other_usual(line)
            except SHAPE_ERRORS:
                answer = self._other_usual(line)
            answers.append(answer)
        if 2 * answers.count(_UNUSUAL) > len(answers):
            self._unusual = _LINE_BY_LINE
        names, texts, models = zip(*answers, strict=True)
        return UsualColumns(names, texts, names_of(models))

    def _other_usual(self, line: bytes) -> UsualAnswer:
        """The answer, if the line is of another usual kind than the last was."""
        try:
            row = loads(line)
        except orjson.JSONDecodeError:
            return _UNUSUAL
        for place, read in enumerate(self._usual_lines):
            with suppress(*SHAPE_ERRORS):
                answer = read(row)
                if answer is not None:
                    self._usual_lines.insert(0, self._usual_lines.pop(place))
                    return answer
        return _UNUSUAL

    def _label_number(self, text: str) -> int:
        """The number of the label that a text stands for, -1 if it has none."""
        mass, rule, named = self._label_of_text(text)
        if mass is None:
            return -1
        label = (rule, named, *mass)
        if label not in self._shared:
            self._shared[label] = self._rows.keep(mass)
        return self._shared[label]

    def _read_line(self, line: bytes, path: Path, number: int) -> tuple[Any, int] | None:
        """The id and the label of one line; None where it has no label, which is noted."""
        try:
            response, mass, rule, named = self._read(line)
            name = response.id if self._ids is None else self._given_id(self._ids)
            if mass is None:
                self._reject(name, response, path, number, rule)
                return None
            if type(name) is not str and type(name) is not int:
                raise BadLineError(
                    "has no custom_id or id that is text or a whole number (id_column= "
                    "(--id-column) names the key of the ids, ids= (--ids) gives ids from a file)"
                )
        except BadLineError as error:
            self._skip(path, number, str(error))
            return None
        self._models |= names_of([response.model])
        if named:
            self._told[rule, named] += 1
        else:
            self._off_list += 1
            self._listed.add(name, path, number, rule, response.samples[0].text, kept=True)
        return name, self._rows.keep(mass)

    def _reject(self, name: Any, response: Response, path: Path, number: int, reason: str) -> None:
        self._rejected[reason] += 1
        text = response.told or " | ".join(sample.text for sample in response.samples)
        if reason not in (ERROR, REFUSED):
            short = text.strip()[:_LONGEST_COUNTED]
            if short in self._answers or len(self._answers) < _COUNTED_ANSWERS:
                self._answers[short] += 1
            words = _spaced(text)
            inside = [name for spaced, name in self._spaced.items() if spaced in words]
            self._contained.update(inside)
            self._naming += bool(inside)
        self._listed.add(name, path, number, reason, text)

    def _skip(self, path: Path, number: int, problem: str) -> None:
        if not self._skip_bad:
            raise InputError(
                f"{path}, line {number} {problem}; to skip such lines, use skip_bad=True "
                "(--skip-bad)."
            )
        self._bad += 1
        self._listed.add(None, path, number, f"bad line: {problem}", "")

    def _given_id(self, ids: npt.NDArray[Any]) -> Any:
        if self._lines > len(ids):
            raise InputError(f"{len(ids)} ids were given, but there are more answers than that.")
        return ids[self._lines - 1 : self._lines].tolist()[0]

    def _all_told(self) -> Counter[tuple[str, tuple[int, ...]]]:
        """How many lines have a label, by its rule and the classes that it names."""
        told, counts = self._told.copy(), self._rows.counts()
        for (rule, named, *_), number in self._shared.items():
            if counts[number]:
                told[rule, named] += int(counts[number])
        return told

    def unmatched(self) -> dict[str, int]:
        """The commonest answers that name no class."""
        return {text: count for text, count in self._answers.most_common(100) if text}

    def finish(self, settings: ImportSettings, where: str) -> LlmImport:
        if self._ids is not None and len(self._ids) != self._lines:
            raise InputError(f"{len(self._ids)} ids were given for {self._lines} answers.")
        told = self._all_told()
        ids, label, probs, missing, repeated = self._rows.take(int_ids=settings.int_ids)
        if settings.teacher is None:
            models = " + ".join(sorted(filter(None, self._models)))
            settings = replace(settings, teacher=models or None)
        named = {number for _, numbers in told for number in numbers}
        silent = [name for number, name in enumerate(self._names) if number not in named]
        rules: Counter[str] = Counter()
        for (rule, _), count in told.items():
            rules[rule] += count
        different = settings.make(
            np.arange(len(probs)), probs, self._names, where=where, missing=missing
        )
        return LlmImport(
            labels=different.at(label).under_ids(ids),
            lines=self._lines,
            rejected=dict(self._rejected),
            bad=self._bad,
            off_list=self._off_list,
            never_named=tuple(silent),
            rules=dict(rules.most_common()),
            unmatched=self.unmatched(),
            repeated=repeated,
            rejected_naming=self._naming,
            named_in_rejected=dict(self._contained.most_common(_SHOWN)),
        )

    def why_nothing(self) -> str:
        """What to tell if no line has a label."""
        if len(self._rows):
            return ""
        reasons = ", ".join(f"{count} × {reason}" for reason, count in self._rejected.most_common())
        if self._bad:
            reasons = ", ".join(filter(None, (reasons, f"{self._bad} × bad line")))
        answers = list(self.unmatched())
        shown = first_few(answers[:_SHOWN]) or "only errors and refusals"
        hint = ""
        if answers and all(_OPTION.fullmatch(answer) for answer in answers):
            hint = (
                " If they number the classes in this order, name the first option: choices= "
                "(--choices A, 1 or 0)."
            )
        return (
            f"none of {self._lines} lines has a label ({reasons}). The classes are "
            f"{first_few(self._names)}; the answers are {shown}.{hint}"
        )

    def why_too_few(self) -> str:
        """What to tell if too many answers name no class; errors and refusals do not count."""
        lost = sum(n for reason, n in self._rejected.items() if reason not in (ERROR, REFUSED))
        answers = lost + self._all_told().total() + self._off_list
        if lost <= _MOST_UNMATCHED * answers:
            return ""
        common = ", ".join(f"{t!r} ({n})" for t, n in list(self.unmatched().items())[:_SHOWN])
        hints = {
            CUT_OFF: "Allow longer answers, because many were cut off",
            EMPTY: "Find out why answers are empty",
            OFF_LIST: "Give them as synonyms of the classes (--write-synonyms FILE writes a file "
            "to complete)",
        }
        hint = hints[max(hints, key=lambda reason: self._rejected[reason])]
        return (
            f"{lost} of {answers} answers name no class, more than a tenth, so no labels were "
            f"made. The most frequent of them: {common}. {hint}, or continue without them: "
            "allow_rejected=True (--allow-rejected)."
        )
