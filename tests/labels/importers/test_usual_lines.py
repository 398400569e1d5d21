"""The short way through the commonest lines gives what the long way gives."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noisyteacher.labels.importers import import_llm, parse_classes
from noisyteacher.labels.importers.answer_lines import SHAPE_ERRORS
from noisyteacher.labels.importers.responses import BadLineError, Response, read_response
from noisyteacher.labels.importers.usual_lines import (
    USUAL_ANSWERS,
    plain_columns,
    plain_lists,
)

FIXTURES = Path(__file__).parent / "fixtures"
NEWS = parse_classes("World,Sports,Business,Sci/Tech")
ODD_VALUES = (None, "", "x", 0, 7, True, [], {}, ["a"], {"a": 1}, "length", "error")


def fixture_rows() -> list[dict[str, Any]]:
    lines = [
        line for file in sorted(FIXTURES.glob("*.jsonl")) for line in file.read_text().splitlines()
    ]
    return [json.loads(line) for line in lines]


def changed(value: Any) -> Iterator[Any]:
    """The value with each of its parts left out, or replaced by something odd."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        for odd in ODD_VALUES:
            other = copy.copy(value)
            other[key] = odd
            yield other
        if isinstance(part, dict | list) and key not in ("logprobs", "usage"):
            for inner in changed(part):
                other = copy.copy(value)
                other[key] = inner
                yield other
        shorter = copy.copy(value)
        del shorter[key]
        yield shorter
    if isinstance(value, list):
        yield [*value, *value]
    else:
        for key in ("error", "tool_calls", "refusal", "logprobs", "choices", "content", "result"):
            if key not in value:
                yield {**value, key: [{"text": "x"}]}


def long_way(row: Any) -> Response | None:
    try:
        return read_response(row)
    except (BadLineError, *SHAPE_ERRORS):
        return None


def test_a_usual_answer_is_what_the_long_way_finds() -> None:
    found = 0
    firsts = {json.dumps(list(row)): row for row in fixture_rows()}.values()
    for row in [other for first in firsts for other in (first, *changed(first))]:
        for usual in USUAL_ANSWERS:
            try:
                answer = usual(row)
            except SHAPE_ERRORS:
                continue
            if answer is None:
                continue
            found += 1
            response = long_way(row)
            assert response is not None, (usual.__name__, row)
            assert not response.problem, (usual.__name__, row)
            (sample,) = response.samples
            told = (response.id, sample.text, response.model)
            assert told == answer, (usual.__name__, row)
            assert sample.positions is None
            assert not sample.cut
    assert found > 300


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.jsonl")), ids=lambda file: file.stem)
def test_a_file_is_read_alike_with_and_without_the_short_way(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import noisyteacher.labels.importers.llm as llm

    many = tmp_path / "many.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    many.write_text("".join(json.dumps(row) + "\n" for row in lines * 40))

    def imported() -> tuple[Any, ...]:
        ids = [f"row-{number}" for number in range(len(lines) * 40)]
        listed = tmp_path / "rejected.jsonl"
        listed.unlink(missing_ok=True)
        given = None if "id" in json.dumps(lines) and "generate" not in file.stem else ids
        try:
            done = import_llm(
                [many],
                NEWS,
                ids=None if given is None else llm.np.array(given),
                allow_rejected=True,
                skip_bad=True,
                rejected=listed,
            )
        except llm.InputError as error:
            return (str(error),)
        rest = listed.read_text() if listed.exists() else ""
        labels = done.labels
        return (
            labels.ids.tolist(),
            labels.topk_logprob.tolist(),
            labels.topk_index.tolist(),
            labels.missing.tolist(),
            labels.teacher,
            done.rules,
            done.rejected,
            done.lines,
            done.bad,
            done.never_named,
            rest,
        )

    short = imported()
    monkeypatch.setattr(llm, "_LINE_BY_LINE", 1 << 30)
    monkeypatch.setattr(llm, "plain_columns", lambda data: None)
    monkeypatch.setattr(llm, "plain_lists", lambda lines: None)
    monkeypatch.setattr(llm, "USUAL_ANSWERS", (lambda row: None,))
    assert imported() == short


def test_columns_are_for_rows_with_the_same_keys_and_texts() -> None:
    rows = [{"id": f"a{number}", "answer": "Sports", "model": "m"} for number in range(100)]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    columns = plain_columns(data)
    assert columns is not None
    assert columns.ids.to_pylist() == [row["id"] for row in rows]
    assert set(columns.texts.to_pylist()) == {"Sports"}
    assert columns.models == {"m"}
    lines = data.splitlines()
    assert plain_lists(lines) == (columns.ids.to_pylist(), ["Sports"] * 100, {"m"})
    odd: list[Any] = [
        {"id": "b", "answer": "Sports"},
        {"id": "b", "answer": 1, "model": "m"},
        {"id": "b", "answer": "Sports", "text": "m"},
        {"id": "b", "confidence": 1, "model": "m"},
        [1, 2, 3],
        7,
    ]
    for row in odd:
        assert plain_columns(data + json.dumps(row).encode() + b"\n") is None
        assert plain_lists([*lines, json.dumps(row).encode()]) is None
    for line in (b"\n", b"{\n", b'{"id": 1}, {"id": 2}\n'):
        assert plain_columns(data + line) is None
        assert plain_lists([*lines, line]) is None
    others = (
        {"id": 0.5, "answer": "Sports"},
        {"id": "b", "answer": 1},
        {"id": "b", "answer": "Sports", "model": 1},
        {"id": "b", "answer": "Sports", "error": "x"},
        {"answer": "Sports", "model": "m"},
    )
    for other in others:
        assert plain_columns(json.dumps(other).encode() + b"\n") is None
