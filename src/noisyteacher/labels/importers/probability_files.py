"""Files of probabilities or logits, NumPy arrays and tables, to teacher labels.

A ``.npy`` file needs its ids beside it. A ``.npz`` file may hold them: its keys are ``probs`` or
``logits``, and optionally ``ids`` and ``classes``. In a table each row has an id and either one
numeric column per class, or one column of lists, or a label. In CSV a list is written as JSON:
``"[0.1, 0.9]"``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from noisyteacher.core.errors import InputError, first_few, warn
from noisyteacher.io.classes import ClassAnswers
from noisyteacher.io.columns import ids_in, is_list, is_text_type, numbers_in, one_number_in
from noisyteacher.io.formats import JSON_LINES, is_untyped, kind_of, name_files, read_arrays
from noisyteacher.io.ids import IdsLike, clean_ids, whole_numbers
from noisyteacher.io.spelling import NO_CLASS, Spellings
from noisyteacher.io.user_tables import (
    ID_COLUMNS,
    candidates,
    find_column,
    first_present,
    read_table,
)
from noisyteacher.labels.checks import ArrayLike
from noisyteacher.labels.importers.llm_rows import RejectedList
from noisyteacher.labels.importers.one_label import (
    PROBABILITY_COLUMNS,
    TEACHER_COLUMNS,
    holds_lists,
    is_json_table,
    is_number,
    label_column_of,
    on_list_rows,
    read_labeled,
    refuse_rivals,
    with_class_names,
)
from noisyteacher.labels.teacher_labels import TeacherLabels

OUTPUTS = {
    **dict.fromkeys((".npy", ".npz"), "array"),
    **dict.fromkeys((".csv", ".tsv", ".parquet"), "table"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "answers"),
}


def kind_of_outputs(
    path: Path, *, labeled: bool = False, classes: ClassAnswers | None = None
) -> str | None:
    """ "array", "table" or "answers" (of an LLM), by the file's name; None for other names.

    A .jsonl file is a table if its first line has probabilities or a label, or ``labeled`` says
    that all have; text is an answer where the ``classes`` are known.
    """
    ending = kind_of(path)
    if ending in JSON_LINES and (labeled or is_json_table(path, classes)):
        return "table"
    return OUTPUTS.get(ending)


@dataclass(frozen=True)
class ImportSettings:
    """How to read the numbers in a file, and what to record about the teacher."""

    logits: bool = False  # the numbers are logits, not probabilities
    int_ids: bool = False  # ids are whole numbers, also where the file has them as text
    k: int | None = None  # classes to store per row; None: all
    teacher: str | None = None
    revision: str | None = None
    temperature: float | None = None

    def make(
        self,
        ids: IdsLike,
        values: npt.NDArray[Any],
        classes: Sequence[str] | None,
        *,
        where: str,
        missing: ArrayLike | None = None,
    ) -> TeacherLabels:
        """Labels from ids (n,) and (n, L) probabilities or logits; ``where`` names their source."""
        make: Callable[..., TeacherLabels] = TeacherLabels.from_probs
        if self.logits:
            make = TeacherLabels.from_logits
        about = {"revision": self.revision, "temperature": self.temperature, "missing": missing}
        try:
            names = whole_numbers(clean_ids(ids)) if self.int_ids else ids
            return make(names, values, classes, self.k, teacher=self.teacher, **about)
        except InputError as error:
            hint = " Are these logits? Then say so: logits=True (--logits)."
            told = f"{where}: {error}{hint if self._like_logits(values) else ''}"
            raise InputError(told) from error

    def _like_logits(self, values: npt.NDArray[Any]) -> bool:
        if self.logits or values.dtype.kind not in "fiu" or not values.size:
            return False
        return bool(values.min() < 0 or values.max() > 2)


def import_array(
    path: Path,
    *,
    ids: npt.NDArray[Any] | Callable[[int], npt.NDArray[Any]] | None = None,
    classes: Sequence[str] | None = None,
    settings: ImportSettings | None = None,
) -> TeacherLabels:
    """Read a ``.npy`` or ``.npz`` file.

    ``ids`` take precedence over those in the file. They may be a function of the number of rows,
    which is called if the file has none. ``classes`` name the columns, or give another order of the
    classes that the file names.
    """
    settings = settings or ImportSettings()
    arrays = read_arrays(path)
    wanted = ("array", "probs", "logits") if not settings.logits else ("array", "logits", "probs")
    key = first_present(wanted, list(arrays))
    if key == "probs" and "logits" in arrays and not settings.logits:
        raise InputError(
            f"{path} has both 'probs' and 'logits'; leave one of them out, or use the logits with "
            "logits=True (--logits)."
        )
    if key is None:
        raise InputError(f"{path} has neither 'probs' nor 'logits', only {first_few(arrays)}.")
    values = arrays[key]
    if key == "logits":
        settings = replace(settings, logits=True)
    if values.ndim != 2:
        raise InputError(f"{path} must hold an array (rows, classes), got shape {values.shape}.")
    if ids is None or (callable(ids) and "ids" in arrays):
        ids = arrays.get("ids")
    if ids is None:
        raise InputError(f"{path} has no ids; give one id for each row: ids= (--ids).")
    if callable(ids):
        ids = ids(len(values))
    if len(ids) != len(values):
        raise InputError(f"{len(ids)} ids were given for the {len(values)} rows of {path}.")
    if "classes" in arrays:
        named = arrays["classes"].tolist()
        inside = [name.decode() if isinstance(name, bytes) else str(name) for name in named]
        values, classes = _in_order(values, inside, classes, path)
    return settings.make(ids, values, classes, where=str(path))


def _in_order(
    values: npt.NDArray[Any], inside: list[str], wanted: Sequence[str] | None, path: Path
) -> tuple[npt.NDArray[Any], Sequence[str]]:
    """The file's columns in the order of the classes asked for, by name; or under new names."""
    if wanted is None or list(wanted) == inside:
        return values, inside
    if not set(wanted) & set(inside):
        return values, wanted
    if sorted(wanted) != sorted(inside) or values.shape[1] != len(inside):
        raise InputError(
            f"{path} has the classes {first_few(inside, 10)}, not {first_few(wanted, 10)}."
        )
    return values[:, [inside.index(name) for name in wanted]], wanted


def import_table(
    paths: Sequence[Path],
    *,
    ids: npt.NDArray[Any] | None = None,
    id_column: str | None = None,
    list_column: str | None = None,
    label_column: str | None = None,
    confidence_column: str | None = None,
    classes: ClassAnswers | None = None,
    off_list: RejectedList | None = None,
    settings: ImportSettings | None = None,
) -> TeacherLabels:
    """Read the rows of one or more tables.

    With ``list_column``, the values are the lists in this column, and ``classes`` only names them.
    Otherwise the values of a class are in the column with its name or one of its synonyms. If no
    classes are given, all columns of floats are classes; if there are none, a single column of
    lists is used. ``ids`` take precedence over the ids in ``id_column``, by default ``id`` or
    ``ID``.

    ``label_column`` has one label per row; in a table without columns of probabilities, it may be
    called ``label``, ``prediction`` or similar. The label gets the probability in
    ``confidence_column``, by default ``confidence``, ``probability`` or ``score`` if the values are
    between 0 and 1, and the other classes share the rest; without such a column, the label gets
    probability 1. The classes are ``classes``, or the labels in the table. Rows whose label is not
    one of ``classes`` are left out and listed in ``off_list``; without such a list, they are an
    error.
    """
    where, settings = name_files(paths), settings or ImportSettings()
    keys, named = candidates(id_column, ID_COLUMNS), label_column is not None
    if named or confidence_column is not None:
        if list_column is not None:
            raise InputError("name either a column of lists or a column of labels, not both.")
        if settings.logits:
            raise InputError("logits=True (--logits) cannot be used with labels and confidences.")
    table = read_table(paths, keys, candidates(label_column, ()))
    if not (named or list_column is not None or settings.logits):
        if confidence_column is None:
            rest = _without_ids(table, keys)
            label_column = label_column_of(rest, classes)
            if label_column is not None:
                refuse_rivals(rest, label_column, where)
        else:
            usual = [name for name in TEACHER_COLUMNS if name != confidence_column]
            label_column = find_column("label", None, usual, table.column_names, where)
        if label_column is not None and any(map(is_untyped, paths)):
            table = read_table(paths, keys, (label_column,))  # now with 01 and true as they stand
    if not table.num_rows:
        raise InputError(f"{where} has no rows.")
    if ids is None:
        key = find_column("id", id_column, ID_COLUMNS, table.column_names, where)
        ids = ids_in(table, key, where)
    ids = np.asarray(ids)
    if len(ids) != table.num_rows:
        raise InputError(f"{len(ids)} ids were given for the {table.num_rows} rows of {where}.")
    if label_column is not None:
        find_column("label", label_column, (), table.column_names, where)
        table, classes = with_class_names(table, label_column, classes)
        if off_list is not None:
            if classes is None:
                raise InputError(
                    "--allow-rejected needs --classes, which names the labels to keep."
                )
            rows = on_list_rows(table, ids, label_column, classes, where, off_list)
            table, ids = table.take(pa.array(rows)), ids[rows]
        said = read_labeled(
            table, ids, label_column, confidence_column, classes, where, found=not named
        )
        return settings.make(ids[said.kept], said.probs, said.classes, where=where)
    if off_list is not None:
        raise InputError(
            "--allow-rejected can only be used with answers of an LLM and with tables that have "
            "one label per row."
        )
    rest = _without_ids(table, keys)
    values, names = _probabilities(rest, list_column, classes, where, logits=settings.logits)
    try:
        return settings.make(ids, values, names, where=where)
    except InputError as error:
        hint = "" if classes or names is None else _label_hint(table.column_names, names)
        raise InputError(f"{error}{hint}") from error


def _label_hint(columns: Sequence[str], taken: Sequence[str]) -> str:
    # Times and costs beside a label look like classes, and only their sums tell.
    label = first_present([name for name in TEACHER_COLUMNS if name not in taken], columns)
    how = "say so: label_column= (--label-column)."
    return "" if label is None else f" If {label!r} holds the teacher's labels, {how}"


def _without_ids(table: Any, keys: Sequence[str]) -> Any:
    key = first_present(keys, table.column_names)
    return table if key is None else table.drop_columns(key)


def _probabilities(
    table: Any, list_column: str | None, classes: ClassAnswers | None, where: str, *, logits: bool
) -> tuple[npt.NDArray[Any], tuple[str, ...] | None]:
    """(n, L) numbers, and the classes where the table or the user names them."""
    names = table.column_names
    if list_column is not None:
        find_column("list", list_column, (), names, where)
    elif classes is None or set().union(*classes.values()).isdisjoint(names):
        list_column = _only_list_column(table)
    if list_column is not None:
        column = _parsed(table[list_column], list_column, where)
        if not pa.types.is_struct(column.type):
            values = numbers_in(pa.table({list_column: column}), list_column, where)
            return values, None if classes is None else tuple(classes)
        table = _class_table(column, list_column, where)
    columns = _class_columns(table, classes, where, logits=logits)
    parts = [one_number_in(table, column, where) for column in columns.values()]
    return np.stack(parts, axis=1), tuple(columns)


def _only_list_column(table: Any) -> str | None:
    """The one column of lists or objects; several are told apart by the usual names."""
    lists = [name for name in table.column_names if holds_lists(table[name])]
    usual = first_present(PROBABILITY_COLUMNS, lists)
    if usual is not None or any(pa.types.is_floating(field.type) for field in table.schema):
        return usual
    return lists[0] if len(lists) == 1 else None


def _class_columns(
    table: Any, classes: ClassAnswers | None, where: str, *, logits: bool
) -> dict[str, str]:
    """Class name to the name of its column."""
    listed = first_few(table.column_names, 10)
    if classes is None:
        floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
        others = [f.name for f in table.schema if is_number(f.type) and f.name not in floats]
        if others and floats:
            told = f"{where}: the columns {first_few(others, 10)} do not hold decimals"
            if logits:
                raise InputError(f"{told}; name the classes: classes= (--classes).")
            warn(f"{told} and are not used as classes; name the classes to change that.")
        if len(floats) < 2:
            raise InputError(
                f"{where} has fewer than two columns of probabilities among {listed}; name the "
                "classes, classes= (--classes), the column of lists, list_column= "
                "(--list-column), or the column of labels, label_column= (--label-column)."
            )
        return {name: name for name in floats}
    columns = table.column_names
    found = {name: [a for a in answers if a in columns] for name, answers in classes.items()}
    if not all(found.values()):  # some are spelled otherwise
        spellings, taken = Spellings(classes), {n for names in found.values() for n in names}
        for column in columns:
            number = NO_CLASS if column in taken else spellings.find(column)
            if number != NO_CLASS and not taken & set(found[spellings.names[number]]):
                found[spellings.names[number]].append(column)
    if absent := [name for name, fitting in found.items() if not fitting]:
        raise InputError(
            f"{where} has no column for the classes {first_few(absent)}; its columns are {listed}. "
            "If one of them holds labels or answers, name it with label_column= (--label-column)."
        )
    if double := [name for name, fitting in found.items() if len(fitting) > 1]:
        raise InputError(f"{where} has several columns for the classes {first_few(double)}.")
    return {name: fitting[0] for name, fitting in found.items()}


def _parsed(values: Any, column: str, where: str) -> Any:
    """A column of lists or objects; those that are JSON in text are read."""
    kind = values.type
    if is_text_type(kind):
        try:
            parsed = [orjson.loads(text or "") for text in values.to_pylist()]
            objects = all(isinstance(value, dict) for value in parsed)
            return pa.array(parsed, None if objects else pa.list_(pa.float64()))
        except (orjson.JSONDecodeError, pa.ArrowException, TypeError) as error:
            raise InputError(
                f"{where}: the column {column!r} does not hold only JSON lists: {error}."
            ) from error
    if not is_list(kind) and not pa.types.is_struct(kind):
        raise InputError(f"{where}: the column {column!r} holds {kind}, not lists of numbers.")
    return values


def _class_table(objects: Any, column: str, where: str) -> Any:
    """One column for each class of a column of objects; a class that a row leaves out has 0."""
    whole = objects.combine_chunks() if isinstance(objects, pa.ChunkedArray) else objects
    if whole.null_count:
        raise InputError(f"{where}: the column {column!r} is empty in {whole.null_count} rows.")
    fields = {field.name: whole.field(field.name) for field in whole.type}
    if odd := [name for name, part in fields.items() if not _numeric(part.type)]:
        raise InputError(f"{where}: {column!r} holds no numbers for {first_few(odd)}.")
    columns = {name: part.cast(pa.float64()) for name, part in fields.items()}
    return pa.table({n: p.fill_null(0.0) if p.null_count else p for n, p in columns.items()})


def _numeric(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind))
