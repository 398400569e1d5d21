"""Names of classes, and labels as users write them to numbers of classes: names before numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from torch import Tensor

from noisyteacher.core.errors import InputError, UnknownLabelsError, first_few, warn
from noisyteacher.io.spelling import NO_CLASS, Spellings

# Class name to its answers: the name itself first, then its synonyms.
ClassAnswers = dict[str, tuple[str, ...]]

# The entry of a file of synonyms that lists answers without a class; it is no class.
UNMATCHED = "(unmatched)"
UNKNOWN = "-1"  # a label that is not known, as numbers have it
# Without a sign and without leading zeros, and small enough for 64 bits.
WHOLE_NUMBER = r"(0|[1-9][0-9]{0,17})"
_BOOLEANS = ("false", "true")
_SHOWN = 3  # numbers that a warning explains
_SEPARATORS = re.compile(r"[;|,]")
_ONE_LABEL = "Each example must have exactly one label; multi-label data is not supported."


def parse_classes(text: str) -> ClassAnswers:
    """Parse class names such as ``positive,negative``, or read them from a ``.json`` file.

    The file contains a list of names, or an object that maps each name to its synonyms:
    ``{"positive": ["pos", "good"], "negative": ["neg"]}``. The name itself is always recognized.
    """
    if text.endswith(".json"):
        return _from_json(Path(text))
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InputError(f"{text!r} has an empty class name.")
    return with_synonyms(dict.fromkeys(clean_classes(names), ()))


def with_synonyms(synonyms: Mapping[str, Sequence[str]]) -> ClassAnswers:
    """Check the class names, and add each name to its own synonyms."""
    names = clean_classes(list(synonyms))
    return {name: tuple(dict.fromkeys((name, *synonyms[name]))) for name in names}


def _from_json(path: Path) -> ClassAnswers:
    try:
        content = orjson.loads(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error.msg} (line {error.lineno}).") from error
    if isinstance(content, list):
        return with_synonyms(dict.fromkeys(clean_classes(content), ()))
    if not isinstance(content, dict):
        raise InputError(
            f"{path} must hold a list of class names, or an object that maps each name to a "
            "list of further answers."
        )
    content.pop(UNMATCHED, None)
    for name, given in content.items():
        content[name] = answers = [given] if isinstance(given, str) else given
        if not isinstance(answers, list) or not all(isinstance(a, str) for a in answers):
            raise InputError(f"{path}: the answers of {name!r} must be strings, got {given!r}.")
    return with_synonyms(content)


def clean_classes(classes: Sequence[str] | None, count: int | None = None) -> tuple[str, ...]:
    """Unique class names; "0", "1", ... when none are given for ``count`` columns."""
    if classes is None:
        classes = [str(number) for number in range(count or 0)]
    if isinstance(classes, str):
        raise InputError(f"classes must be a sequence of strings, got {classes!r}.")
    if odd := [name for name in classes if not isinstance(name, str)]:
        raise InputError(f"classes must be strings, got {first_few(odd)}.")
    names = tuple(map(str, classes))
    if len(names) < 2:
        raise InputError(f"At least 2 classes are needed, got {len(names)}.")
    if count is not None and len(names) != count:
        raise InputError(f"{len(names)} classes were named for {count} columns.")
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise InputError(f"classes must be unique; repeated: {first_few(repeated)}.")
    check_text("classes", *names)
    return names


def check_text(what: str, *texts: str | None) -> None:
    """Refuse text that no file could hold as UTF-8."""
    try:
        "".join(text for text in texts if text is not None).encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} must be valid Unicode text.") from None


def class_numbers(
    values: Any,
    classes: Sequence[str] | None,
    where: str = "y",
    *,
    numbers_are_places: bool = False,
) -> npt.NDArray[np.int64]:
    """(n,) int64 class numbers of labels given in Python as numbers or as class names.

    Whole numbers stay as they are; the caller checks their range. Names and booleans are matched
    as those in files are, by ``label_numbers``.

    Args:
        values: an array, tensor or sequence (n,) of whole numbers, class names or booleans.
        classes: the teacher's classes; None where they have no names, so that only numbers will do.
        where: how messages call the labels.
        numbers_are_places: take whole numbers also where classes are called by other numbers.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{where} must hold one class per row, but its rows differ.") from None
    if array.ndim != 1:
        raise InputError(f"{where} must hold one class per row, but has shape {array.shape}.")
    if array.dtype.kind in "iu":
        if not numbers_are_places:
            _check_called_by_place(classes or (), where)
        return array.astype(np.int64)
    listed = array.tolist()
    if not listed:
        return np.empty(0, np.int64)
    if array.dtype.kind == "b":
        listed = [_BOOLEANS[value] for value in listed]
    if not all(isinstance(name, str) for name in listed):
        raise InputError(f"{where} must hold class names or whole numbers, not {array.dtype}.")
    if classes is None:
        raise InputError(
            f"{where} holds class names such as {listed[0]!r}, but the teacher's classes have no "
            "names; give class numbers, or TeacherLabels that name the classes."
        )
    return label_numbers(listed, classes, where)


def _check_called_by_place(classes: Sequence[str], where: str) -> None:
    numbers = [name for name in classes if re.match(r"^-?[0-9]+$", name)]
    if numbers and list(classes) != [str(i) for i in range(len(classes))]:
        raise InputError(
            f"{where} holds whole numbers, but classes are called {first_few(numbers)}, which are "
            f"not their positions; give {where} as class names."
        )


def label_numbers(
    texts: Sequence[str | None],
    classes: Sequence[str],
    where: str,
    synonyms: Mapping[str, int] | None = None,
) -> npt.NDArray[np.int64]:
    """(n,) int64: the teacher's class that each label means, -1 where it is unknown.

    Args:
        texts: labels as ``label_texts`` gives them.
        classes: the teacher's.
        where: the labels' place, for messages.
        synonyms: other names of classes, with the classes' numbers.
    """
    used = [t for t in dict.fromkeys(texts) if t is not None and not is_unknown(t, classes)]
    place = places_of(used, classes, where, synonyms)
    if strange := [name for name in used if name not in place]:
        place |= _spelled_otherwise(strange, classes, synonyms or {})
    if strange := [name for name in strange if name not in place]:
        refuse_several(strange, classes, where)
        numbered = all(name == str(place) for place, name in enumerate(classes))
        raise UnknownLabelsError(
            f"{where} has the labels {first_few(strange)}, which are not among the teacher's "
            f"classes {first_few(classes, 10)}."
            + " If these numbers are the positions of classes, name the classes in their order: "
            "classes= (--classes)." * numbered
        )
    number: dict[str | None, int] = {name: place[name] for name in used}
    return np.fromiter((number.get(text, -1) for text in texts), np.int64, len(texts))


def _spelled_otherwise(
    texts: Sequence[str], classes: Sequence[str], synonyms: Mapping[str, int]
) -> dict[str, int]:
    """The classes of the labels that are other spellings of them: "scitech" for "Sci/Tech"."""
    answers: dict[str, list[str]] = {name: [name] for name in classes}
    for name, place in synonyms.items():
        answers[classes[place]].append(name)
    spellings = Spellings(answers)
    found = {text: spellings.find(text) for text in texts}
    return {text: place for text, place in found.items() if place != NO_CLASS}


def labeled_rows(
    y: npt.NDArray[np.int64], ids: npt.NDArray[Any], where: str
) -> npt.NDArray[np.int64]:
    """(m,) the rows whose label is known; says which are left out, and refuses to leave out all."""
    known = np.flatnonzero(y >= 0)
    if not len(known):
        raise InputError(f"{where} has no labels.")
    if len(known) < len(y):
        lost = first_few(ids[y < 0].tolist())
        warn(f"{len(y) - len(known)} rows of {where} have no label and are left out: {lost}.")
    return known


def is_unknown(label: str | None, classes: Sequence[str]) -> bool:
    """Whether a label says that it is not known; -1 does, unless a class is called so."""
    return not label or (label == UNKNOWN and UNKNOWN not in classes)


def places_of(
    used: Sequence[str],
    classes: Sequence[str],
    where: str,
    synonyms: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Which of ``classes`` each label means; labels that are not in the answer mean none.

    Labels are class names. Whole numbers (0, 1, ...) are places where none of them is a name and
    no class is called by a number. Booleans, and 0 and 1 for them, are matched in any case.
    """
    by_name = {**(synonyms or {}), **{name: place for place, name in enumerate(classes)}}
    if any(name in by_name for name in used):
        return by_name
    folded = {name.casefold(): place for name, place in by_name.items()}
    if used and {name.casefold() for name in used} <= set(_BOOLEANS):
        if {"0", "1"} <= by_name.keys():
            return {name: by_name[str(_BOOLEANS.index(name.casefold()))] for name in used}
        return folded
    if set(folded) == set(_BOOLEANS) and set(used) <= {"0", "1"}:
        return {"0": folded["false"], "1": folded["true"]}
    called_by_numbers = any(re.match(r"^[-+]?[0-9.]+$", name) for name in classes)
    if called_by_numbers or not all(re.fullmatch(WHOLE_NUMBER, name) for name in used):
        return by_name
    _warn_of_places(used, classes, where)
    return {str(place): place for place in range(len(classes))}


def _warn_of_places(used: Sequence[str], classes: Sequence[str], where: str) -> None:
    """Say which class each number is taken for: the user may count in another order, or from 1."""
    taken = sorted(int(name) for name in used if int(name) < len(classes))
    if not taken:
        return
    told = f"{taken[0]} is taken for {classes[taken[0]]!r}"
    told += "".join(f", {place} for {classes[place]!r}" for place in taken[1:_SHOWN])
    more = ", ..." if len(taken) > _SHOWN else ""
    warn(
        f"The labels of {where} are numbers{'' if taken[0] == 0 else ', and none is 0'}: {told}"
        f"{more}, counted from 0 among the teacher's classes; give class names if that is wrong."
    )


def may_be_labels(kind: Any) -> bool:
    """Whether an Arrow type is one of labels; decimal numbers are what a regression predicts."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return True
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def whole_numbers_in(column: Any) -> Any:
    """The same column, as integers where pandas made decimals of them to have room for NaN."""
    if not pa.types.is_floating(column.type):
        return column
    try:
        return pc.if_else(pc.is_nan(column), None, column).cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def class_label_names(schema: Any, label: str | None) -> tuple[str, ...]:
    """The names of a Hugging Face ``ClassLabel`` column, empty where there are none."""
    raw = (schema.metadata or {}).get(b"huggingface")
    if raw is None or label is None:
        return ()
    try:
        feature = orjson.loads(raw)["info"]["features"][label]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ()  # other tools write other things there
    names = feature.get("names") if isinstance(feature, dict) else None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def by_class_label(
    texts: Sequence[str | None],
    names: Sequence[str],
    classes: Sequence[str],
    synonyms: Mapping[str, int] | None = None,
) -> list[str | None]:
    """Numbers of a ``ClassLabel`` as its ``names``, unless the teacher's classes are others."""
    if (others := set(names) - set(classes)) and _all_match(WHOLE_NUMBER, others):
        return list(texts)  # as names, too, they would be taken for places
    try:
        label_numbers(names, classes, "ClassLabel", synonyms)
    except InputError:
        return list(texts)
    named: dict[str | None, str] = {str(number): name for number, name in enumerate(names)}
    return [named.get(text, text) for text in texts]


def label_texts(column: Any, where: str) -> list[str | None]:
    """An Arrow column of labels as text, as a CSV has them: the label 1 is the class "1".

    White space around a label is left out; a label of nothing else is None, as an empty one is.
    """
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        raise InputError(f"{where} holds lists. {_ONE_LABEL}")
    column = whole_numbers_in(column)
    if not may_be_labels(column.type):
        raise InputError(f"{where} holds {column.type}; labels are class names or whole numbers.")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    raw = column.cast(pa.string()).to_pylist()
    texts = [None if text is None else text.strip() or None for text in raw]
    distinct = {text for text in texts if text is not None}
    refuse_several(distinct, distinct, where)
    return texts


def refuse_several(texts: Iterable[str], classes: Collection[str], where: str) -> None:
    """Refuse labels such as "sports;politics" where both parts are classes of their own."""
    for text in sorted(texts):
        parts = [part.strip() for part in _SEPARATORS.split(text)]
        if len(parts) > 1 and all(part in classes for part in parts):
            raise InputError(
                f"{where} has the label {text!r}, which names several classes. {_ONE_LABEL}"
            )


def number_classes(
    parts: Sequence[Any], where: str, names: Sequence[str] = (), *, numbers_are_names: bool = False
) -> tuple[list[npt.NDArray[np.int64]], tuple[str, ...]]:
    """Labels of a data set's parts as int64 (-1: unknown), and the names of the classes.

    Text is a class name; the names in the first part, sorted, are the classes. Whole numbers are
    class numbers as they stand, also where they are written as text. Booleans are the classes
    "false" and "true".

    Args:
        parts: Arrow columns of labels, that of the training part first.
        where: the labels' place, for messages.
        names: of the classes, in order, where the file tells them.
        numbers_are_names: read whole numbers as names, as text is, where no ``names`` are given:
            for labels that a teacher's classes are still to meet, one of which may be called -1.
    """
    parts = [whole_numbers_in(part) for part in parts]
    texts = [label_texts(part, where) for part in parts]
    kind = parts[0].type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_boolean(kind):
        texts = [[t and str(_BOOLEANS.index(t)) for t in part] for part in texts]
        names = names or _BOOLEANS
    said = {text for part in texts for text in part if text is not None}
    typed = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if typed if names else not numbers_are_names and _all_match(rf"-?{WHOLE_NUMBER}", said):
        lowest = min(map(int, said), default=0)
        if lowest < -1:
            raise InputError(f"{where} must be at least 0 (or -1: unknown), not {lowest}.")
        y = [np.array([int(t or UNKNOWN) for t in part], np.int64) for part in texts]
        top = max(map(int, said), default=-1)
        return y, tuple(names) or tuple(str(c) for c in range(top + 1))
    if not (names or numbers_are_names) and _all_match(rf"-?{WHOLE_NUMBER}(\.[0-9]*)?", said):
        raise InputError(f"{where} holds decimals; labels are class names or whole numbers.")
    known = tuple(names) or tuple(sorted({text for text in texts[0] if text is not None}))
    if strange := sorted(said - set(known)):
        raise InputError(
            f"{where} has the labels {first_few(strange)}, which are not among the classes "
            f"{first_few(known, 10)}."
        )
    number: dict[str | None, int] = {name: i for i, name in enumerate(known)}
    return [np.array([number.get(t, -1) for t in part], np.int64) for part in texts], known


def _all_match(pattern: str, texts: set[str]) -> bool:
    return all(re.fullmatch(pattern, text) for text in texts)
