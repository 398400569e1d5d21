"""Tables in which a column holds whole answers of an LLM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from noisyteacher.io.classes import ClassAnswers
from noisyteacher.io.columns import ids_in, is_text_type
from noisyteacher.io.formats import RawLines
from noisyteacher.io.spelling import NO_CLASS, Spellings
from noisyteacher.io.user_tables import (
    ID_COLUMNS,
    candidates,
    find_column,
    first_present,
    read_table,
)
from noisyteacher.labels.importers.answer_lines import LineReader
from noisyteacher.labels.importers.one_label import (
    ANSWER_COLUMNS,
    TEACHER_COLUMNS,
    is_number,
    refuse_rivals,
)
from noisyteacher.labels.importers.reading import CONFIDENCE_KEYS

# Rules of answers that are no bare labels, and name one class.
_WORDY = frozenset(("prose", "marked", "JSON"))


def answer_column(
    path: Path, classes: ClassAnswers, id_column: str | None, label_column: str | None
) -> str | None:
    """The column of a table that holds answers with more words than a class has, or None.

    One of its texts is no class, but names one: "This is clearly Sports."
    """
    keys, spellings = candidates(id_column, ID_COLUMNS), Spellings(classes)
    table = read_table(path, keys, candidates(label_column, ()))
    numbers = [field.name for field in table.schema if is_number(field.type)]
    if len({spellings.find(name) for name in numbers} - {NO_CLASS}) > 1:
        return None  # probabilities
    texts = [field.name for field in table.schema if is_text_type(field.type)]
    column = first_present(candidates(label_column, (*TEACHER_COLUMNS, *ANSWER_COLUMNS)), texts)
    if column is None:
        return None
    read = LineReader(classes).label_of_text
    different = filter(None, table[column].unique().to_pylist())
    strange = (text for text in different if spellings.find(text) == NO_CLASS)
    if not any(read(text)[1] in _WORDY for text in strange):
        return None
    if label_column is None:
        refuse_rivals(table, column, str(path))
    return column


def answer_rows(
    path: Path, id_column: str | None, label_column: str, *, with_ids: bool
) -> Iterator[RawLines]:
    """The rows of a table as lines of an id, an answer and, if there is one, its confidence."""
    table = read_table(path, candidates(id_column, ID_COLUMNS), (label_column,))
    names, where = table.column_names, str(path)
    columns = {"answer": table[find_column("answer", label_column, (), names, where)].to_pylist()}
    if with_ids:
        key = find_column("id", id_column, ID_COLUMNS, names, where)
        columns["id"] = ids_in(table, key, where).tolist()
    sure = [name for name in CONFIDENCE_KEYS if name in names and name != label_column]
    columns |= {name: table[name].to_pylist() for name in sure}
    rows = zip(*columns.values(), strict=True)
    lines = [orjson.dumps(dict(zip(columns, row, strict=True))) for row in rows]
    yield RawLines(1, b"", lines)
