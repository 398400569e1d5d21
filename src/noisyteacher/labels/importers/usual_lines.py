"""The commonest lines without log-probabilities, read without detours.

Nearly all lines of nearly all files are of one of these kinds, and what ``read_response`` does for
all the others takes longer than parsing the JSON. A function below gives exactly what
``read_response`` would, or None where a line is not of the plainest form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from noisyteacher.io.formats import SHORT_LINE
from noisyteacher.io.uniform_lines import uniform_lines
from noisyteacher.io.user_tables import by_name, first_present, parsed_at_once
from noisyteacher.labels.importers.reading import CONFIDENCE_KEYS
from noisyteacher.labels.importers.responses import ID_KEYS, PLAIN_KEYS, find_id, rivals_of_text

# With one of these keys a row may be something else than an answer in a row of the user's own.
_OTHER_SHAPES = frozenset(
    (
        *("choices", "outputs", "candidates", "promptFeedback", "prompt_feedback", "message"),
        *("result", "error", "status", "done", *CONFIDENCE_KEYS),
    )
)
_LISTS = frozenset(("output", "content"))  # answers if they are text, another shape if not

_GEMINI = frozenset(("choices", "body", "outputs", "status_code"))

_ID_TYPES = (pa.string(), pa.int64())

UsualAnswer = tuple[Any, str, Any]  # id, text, model
OnlyChoice = tuple[dict[str, Any], dict[str, Any], str]  # completion, choice, text
_NO_CHOICE: OnlyChoice = ({}, {}, "")


class UsualColumns(NamedTuple):
    """The same of all rows of a block, as lists or as arrays of Arrow."""

    ids: Any
    texts: Any
    models: set[str]


def only_choice(row: dict[str, Any]) -> OnlyChoice:
    """A chat completion of one choice, alone or in a batch; empty where it is no plain one."""
    wrapped = row.get("response")
    body = row
    if wrapped is not None:
        body = wrapped["body"]
        if wrapped.get("status_code", 200) != 200 or body.get("error"):
            return _NO_CHOICE
    (choice,) = body["choices"]
    message = choice["message"]
    text = message["content"]
    if type(text) is not str or choice.get("finish_reason", "stop") != "stop":
        return _NO_CHOICE
    if message.get("refusal") or message.get("tool_calls") or message.get("function_call"):
        return _NO_CHOICE
    return _NO_CHOICE if row.get("error") else (body, choice, text)


def chat_answer(row: dict[str, Any]) -> UsualAnswer | None:
    """A chat completion of one choice without log-probabilities."""
    body, choice, text = only_choice(row)
    if not text or choice.get("logprobs"):
        return None
    return row.get("custom_id") or find_id(row), text, body.get("model")


def anthropic_answer(row: dict[str, Any]) -> UsualAnswer | None:
    """A message of Anthropic with one block of text, alone or in a batch."""
    result = row.get("result")
    body = row
    if result is not None:
        body = result["message"]
        if result["type"] != "succeeded" or body.get("error"):
            return None
    (block,) = body["content"]
    if body["type"] != "message" or body["stop_reason"] != "end_turn" or block["type"] != "text":
        return None
    if row.get("error") or "response" in row or "choices" in body:
        return None
    text = block["text"]
    name = row.get("custom_id") or find_id(row)
    return (name, text, body.get("model")) if type(text) is str else None


def gemini_answer(row: dict[str, Any]) -> UsualAnswer | None:
    """A response of Gemini with one part of text, alone or in a batch."""
    body = row.get("response") or row
    (candidate,) = body["candidates"]
    (part,) = candidate["content"]["parts"]
    if candidate["finishReason"] != "STOP" or len(part) != 1:
        return None
    if row.get("error") or body.get("error") or not _GEMINI.isdisjoint(body):
        return None
    if "logprobsResult" in candidate or "result" in row:
        return None
    text = part["text"]
    return (find_id(row), text, body.get("modelVersion")) if type(text) is str else None


def plain_answer(row: dict[str, Any]) -> UsualAnswer | None:
    """A row of the user's own whose answer is text."""
    found = _plain_keys(tuple(row))
    if found is None:
        return None
    text = row[found[1]]
    return (row[found[0]], text, row.get("model")) if type(text) is str else None


def plain_columns(data: bytes) -> UsualColumns | None:
    """The same for whole lines that differ in nothing but their values, all at once."""
    rows = uniform_lines(data)
    keys = () if rows is None else tuple(rows.schema.names)
    found = _plain_keys(keys)
    if found is None:
        return None
    ids, texts = (rows.column(keys.index(key)) for key in found)
    models = rows.column(keys.index("model")) if "model" in keys else pa.array([], pa.string())
    if ids.type not in _ID_TYPES or not texts.type == models.type == pa.string():
        return None
    return UsualColumns(ids, texts, names_of(models.unique().to_pylist()))


def plain_lists(lines: Sequence[bytes]) -> UsualColumns | None:
    """The same for short lines with the same keys, whatever else they differ in."""
    rows = parsed_at_once(lines) if len(lines[0]) <= SHORT_LINE else []
    found = _plain_keys(tuple(rows[0])) if rows else None
    if found is None or set(map(len, rows)) != {len(rows[0])}:
        return None
    columns = by_name(rows)  # more than keys where these differ
    texts = columns[found[1]]
    if len(columns) != len(rows[0]) or set(map(type, texts)) != {str}:
        return None
    return UsualColumns(columns[found[0]], texts, names_of(columns.get("model", ())))


def names_of(models: Iterable[Any]) -> set[str]:
    """The names of models among what rows hold under that key, which may be anything."""
    return {model for model in models if isinstance(model, str)}


@cache
def _plain_keys(keys: tuple[str, ...]) -> tuple[str, str] | None:
    """The keys of the id and of the answer."""
    name, answer = first_present(ID_KEYS, keys), first_present(PLAIN_KEYS, keys)
    if answer is not None and rivals_of_text(answer, keys):
        return None
    if name is None or answer is None or _OTHER_SHAPES & set(keys) or name == answer:
        return None
    return None if _LISTS & set(keys) - {answer} else (name, answer)


USUAL_ANSWERS: tuple[Callable[[dict[str, Any]], UsualAnswer | None], ...] = (
    chat_answer,
    anthropic_answer,
    gemini_answer,
    plain_answer,
)
