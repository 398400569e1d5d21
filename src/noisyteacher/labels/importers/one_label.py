"""Tables of one label per row, with or without the teacher's confidence in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from noisyteacher.core.errors import InputError, first_few, warn
from noisyteacher.io.classes import (
    ClassAnswers,
    by_class_label,
    class_label_names,
    clean_classes,
    is_unknown,
    label_numbers,
    label_texts,
    labeled_rows,
    may_be_labels,
    whole_numbers_in,
    with_synonyms,
)
from noisyteacher.io.columns import is_list, one_number_in
from noisyteacher.io.formats import line_blocks
from noisyteacher.io.spelling import NO_CLASS, Spellings, spelling_key
from noisyteacher.io.user_tables import LABEL_COLUMNS, find_column, first_present, with_capitals
from noisyteacher.labels.importers.llm_rows import RejectedList
from noisyteacher.labels.importers.reading import OFF_LIST
from noisyteacher.labels.importers.responses import TEACHER_KEYS
from noisyteacher.labels.topk import logs

# Names that only a teacher's labels have come first: a ``label`` beside them may be the truth.
TEACHER_COLUMNS = (
    *TEACHER_KEYS,
    *with_capitals("prediction", "pred", "predicted_label", "predicted_class", "predicted"),
    *(*LABEL_COLUMNS, *with_capitals("answer")),
)
PROBABILITY_COLUMNS = ("probs", "probabilities", "scores", "logits")
CONFIDENCE_COLUMNS = with_capitals("confidence", "probability", "score")
ANSWER_COLUMNS = with_capitals("answer", "response", "output", "completion", "generated_text")
_ANSWER_PARTS = ("response", "choices", "outputs")
_WHOLE = re.compile(r"-?[0-9]+")
# More names than this, new in every second row, are sentences and not classes; a matrix of rows
# and such classes would not fit into memory either.
_MANY_CLASSES = 100
_MANY_VALUES = 10_000  # of a column; more are no labels


class LabeledRows(NamedTuple):
    """What the rows say: which rows have a label, (m, L) their probabilities, and the classes."""

    kept: npt.NDArray[np.int64]
    probs: npt.NDArray[np.float32]
    classes: tuple[str, ...]


def is_json_table(path: Path, classes: ClassAnswers | None = None) -> bool:
    """Whether a .jsonl file is a table of probabilities or labels, by its first line.

    Other files are answers of an LLM. Labels that are text are answers too where the ``classes``
    are known, because answers may be wordier than a label.
    """
    row = _first_object(path)
    if row.get("error"):
        return False
    if any(_is_probabilities(row.get(name)) for name in PROBABILITY_COLUMNS):
        return True
    if any(isinstance(row.get(name), dict | list) for name in _ANSWER_PARTS):
        return False
    label = first_present([n for n in TEACHER_COLUMNS if row.get(n) is not None], list(row))
    if label is not None:
        text = isinstance(row[label], str) and not _WHOLE.fullmatch(row[label].strip())
        return not (text and classes)
    named = Spellings(classes or {})
    columns = {named.find(name) for name, value in row.items() if isinstance(value, float | int)}
    floats = [value for value in row.values() if isinstance(value, float)]
    return len(columns - {NO_CLASS}) > 1 if classes else len(floats) > 1


def _first_object(path: Path) -> dict[str, Any]:
    lines = (line for block in line_blocks(path) for line in block.lines if line.strip())
    with suppress(orjson.JSONDecodeError):
        row = orjson.loads(next(lines, b"{}"))
        if isinstance(row, dict):
            return row
    return {}


def _is_probabilities(value: Any) -> bool:
    if not isinstance(value, dict | list):
        return False
    numbers = value.values() if isinstance(value, dict) else value
    return bool(value) and all(isinstance(number, int | float | None) for number in numbers)


def label_column_of(table: Any, classes: ClassAnswers | None) -> str | None:
    """The column of labels, by its name; None where the table may hold probabilities instead.

    ``table`` comes without its ids. Labels that a user names are not looked for here.
    """
    answers = set().union(*(classes or {}).values())
    if not answers.isdisjoint(table.column_names) or any(map(holds_lists, table.columns)):
        return None
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    if len([name for name in floats if name not in CONFIDENCE_COLUMNS]) > 1:
        return None
    named = [n for n in table.column_names if may_be_labels(whole_numbers_in(table[n]).type)]
    # Without the classes, answers could be anything.
    return first_present((*TEACHER_COLUMNS, *(ANSWER_COLUMNS if classes else ())), named)


def refuse_rivals(table: Any, column: str, where: str) -> None:
    """Refuse labels in ``column``, found by a name such as "label", if others may be the teacher's.

    They may be the truth: then the teacher would be right everywhere, and nothing would tell.
    """
    if column in TEACHER_COLUMNS and column not in LABEL_COLUMNS:
        return
    said = _different(table[column])
    for name in table.column_names:
        if name == column or table[name].type != table[column].type:
            continue
        if name in ANSWER_COLUMNS:
            raise _rivals(column, name, where)
        others = _different(table[name])
        # Numbers beside a label may count something else, such as folds.
        alike = others == said if is_number(table[name].type) else others <= said or said <= others
        if alike and 1 < len(others) < 2 * len(said):
            raise _rivals(column, name, where)


def _rivals(column: str, name: str, where: str) -> InputError:
    return InputError(
        f"{where}: both {column!r} and {name!r} hold labels; name the column of the teacher's "
        "labels: label_column= (--label-column)."
    )


def _different(column: Any) -> set[str]:
    values = [value for value in column.unique().to_pylist() if value is not None]
    return {spelling_key(str(value)) for value in values[:_MANY_VALUES]}


def with_class_names(
    table: Any, column: str, classes: ClassAnswers | None
) -> tuple[Any, ClassAnswers | None]:
    """The table with names for the numbers of a Hugging Face ``ClassLabel``, and the classes.

    Nothing changes where the user's classes are called otherwise: the numbers may be their places.
    """
    names = class_label_names(table.schema, column)
    if not names or not pa.types.is_integer(table[column].type):
        return table, classes
    if classes is None:
        classes = with_synonyms(dict.fromkeys(names, ()))
    numbers = label_texts(table[column], f"the column {column!r}")
    texts = by_class_label(numbers, names, tuple(classes), _synonyms(classes))
    named = pa.array(texts, pa.string())
    return table.set_column(table.column_names.index(column), column, named), classes


def read_labeled(
    table: Any,
    ids: npt.NDArray[Any],
    column: str,
    confidence_column: str | None,
    classes: ClassAnswers | None,
    where: str,
    *,
    found: bool,
) -> LabeledRows:
    """The labels in ``column`` and their probabilities; rows without a label are left out.

    ``found``: nobody named the column, so the note has to.
    """
    texts = label_texts(table[column], f"{where}: the column {column!r}")
    names = [text for text in texts if text is not None]
    if not names:
        raise InputError(f"{where}: the column {column!r} has no labels.")
    known = _found_classes(names, column, where) if classes is None else tuple(classes)
    y = label_numbers(texts, known, where, _synonyms(classes))
    kept = labeled_rows(y, ids, where)
    table, y = table.take(pa.array(kept)), y[kept]
    told = f"the column {column!r} holds the labels"
    if confidence_column is None:
        confidence_column, doubt = _find_confidence(table, column)
        found, told = found or confidence_column is not None, told + doubt
    else:
        find_column("confidence", confidence_column, (), table.column_names, where)
        given = one_number_in(table, confidence_column, where)
        if not _in_range(given):
            raise InputError(
                f"{where}: confidences lie between 0 and 1, but those in {confidence_column!r} go "
                f"from {given.min():g} to {given.max():g}{_percentages(given)}."
            )
    named = "" if classes else f"; the classes are the labels found: {first_few(known, 10)}"
    if confidence_column is None:
        confidence = np.ones(len(y))
        told += (
            f"{named}. Hard labels say nothing about uncertainty, so trust can only be measured "
            "for all rows together, or for each class"
        )
    else:
        confidence = _numbers(table[confidence_column])
        told += f", {confidence_column!r} the probability of each{named}"
    if found or classes is None or confidence_column is None:
        warn(f"{where}: {told}.")
    below = (confidence < 1 / len(known)) & ~_is_tie(confidence, len(known))
    if below.any():
        warn(
            f"{where}: in {below.sum()} of {len(below)} rows {confidence_column!r} is below "
            f"1/{len(known)}, so other classes are more probable than the label. Check that it is "
            "the probability of the label, and not always that of the same class."
        )
    return LabeledRows(kept, spread(y, confidence, len(known)), known)


def on_list_rows(
    table: Any,
    ids: npt.NDArray[Any],
    column: str,
    classes: ClassAnswers,
    where: str,
    listed: RejectedList,
) -> npt.NDArray[np.int64]:
    """(m,) the rows whose label in ``column`` is a class or empty; the others are ``listed``.

    If there is no class among the labels, they may be numbers or booleans that stand for the
    classes, and all rows stay.
    """
    texts = label_texts(table[column], f"{where}: the column {column!r}")
    names, spellings = tuple(classes), Spellings(classes)
    used = {text for text in texts if text is not None and not is_unknown(text, names)}
    strange = {text for text in used if text not in names and spellings.find(text) == NO_CLASS}
    if not strange or strange == used:
        return np.arange(table.num_rows)
    for row, (name, text) in enumerate(zip(ids.tolist(), texts, strict=True), 1):
        if text in strange:
            listed.add(name, Path(where), row, OFF_LIST, text or "")
    return np.flatnonzero([text not in strange for text in texts])


def spread(
    y: npt.NDArray[np.int64], confidence: npt.NDArray[np.float64], classes: int
) -> npt.NDArray[np.float32]:
    """(n, L) rows with ``confidence`` at y and the rest shared evenly by all other classes."""
    raised = np.maximum(confidence, least_confidence(classes))
    confidence = np.where(_is_tie(confidence, classes), raised, confidence)
    probs = np.empty((len(y), classes), np.float32)
    probs[:] = ((1 - confidence) / (classes - 1))[:, None]
    probs[np.arange(len(y)), y] = confidence
    return probs


def least_confidence(classes: int) -> float:
    """The least probability of a label that makes it the teacher's first class when stored.

    Stored log-probabilities are float16, and of equal ones the lower class is taken for the label;
    a few steps of float16 keep the class that the teacher named.
    """
    ratio = np.exp(2.5 * np.spacing(np.float16(np.log(classes))).astype(np.float64))
    return float(ratio / (ratio + classes - 1))


def _is_tie(confidence: npt.NDArray[np.float64], classes: int) -> npt.NDArray[np.bool_]:
    own, other = logs(confidence), logs((1 - confidence) / (classes - 1))
    tie: npt.NDArray[np.bool_] = own.astype(np.float16) == other.astype(np.float16)
    return tie


def _found_classes(names: Sequence[str], column: str, where: str) -> tuple[str, ...]:
    spelled: dict[str, str] = {}
    for name, _ in Counter(names).most_common():
        spelled.setdefault(spelling_key(name), name)  # of several spellings the commonest
    found = set(spelled.values())
    if len(found) > max(_MANY_CLASSES, len(names) // 2):
        raise InputError(
            f"{where}: the column {column!r} has {len(found)} different labels in {len(names)} "
            "rows; name the classes, classes= (--classes), or another column, label_column= "
            "(--label-column)."
        )
    if len(found) < 2:
        raise InputError(
            f"{where}: all labels in {column!r} are {names[0]!r}; name the other classes too: "
            "classes= (--classes)."
        )
    whole = all(_WHOLE.fullmatch(name) for name in found)
    return clean_classes(sorted(found, key=lambda name: (int(name) if whole else 0, name)))


def _synonyms(classes: ClassAnswers | None) -> dict[str, int]:
    """Each synonym with the number of its class."""
    classes = classes or {}
    place: dict[str, int] = {}
    for number, answers in enumerate(classes.values()):
        for other in answers:
            if place.setdefault(other, number) != number and other not in classes:
                raise InputError(f"{other!r} is a synonym of several classes.")
    return place


def _find_confidence(table: Any, label_column: str) -> tuple[str | None, str]:
    """A column of confidences by its name, and what to tell of those that cannot be ones."""
    told = ""
    for name in CONFIDENCE_COLUMNS:
        if name in table.column_names and name != label_column and is_number(table[name].type):
            values = _numbers(table[name])
            if _in_range(values):
                return name, told
            told += f", {name!r} is not read because not all its values lie between 0 and 1"
            told += _percentages(values)
    return None, told


def _percentages(values: npt.NDArray[Any]) -> str:
    like = " (these look like percentages: divide them by 100)"
    return like if _in_range(values, 100) else ""


def _in_range(values: npt.NDArray[Any], highest: float = 1) -> bool:
    return bool(((values >= 0) & (values <= highest)).all())


def _numbers(column: Any) -> npt.NDArray[np.float64]:
    """(n,) with NaN where the column is empty."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    decimal = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(decimal or pa.types.is_integer(kind))


def holds_lists(column: Any) -> bool:
    """Whether a column holds lists or objects, or looks in its first row like JSON of some."""
    if is_list(column.type) or pa.types.is_struct(column.type):
        return True
    if not pa.types.is_string(column.type) or not len(column):
        return False
    first = column[0].as_py() or ""
    try:
        return first.startswith(("[", "{")) and isinstance(orjson.loads(first), list | dict)
    except orjson.JSONDecodeError:
        return False
