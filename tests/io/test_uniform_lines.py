"""Lines read as columns give what a parser of JSON gives, or are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisyteacher.io.user_tables as user_tables
import noisyteacher.labels.importers.usual_lines as usual_lines
from noisyteacher.core.errors import InputError
from noisyteacher.io.uniform_lines import uniform_lines
from noisyteacher.labels.importers import import_llm, import_table, parse_classes

CLASSES = parse_classes("positive,negative,neutral")
LABELS = [
    {"id": f"r-{number}", "label": ("Positive", "negative", "Sorry")[number % 3]}
    for number in range(12)
]
SHARES = {"positive": 0.25, "negative": 0.5, "neutral": 0.25}
PROBS = [{"id": f"r-{n}", "probs": SHARES} for n in range(9)]
LISTS = [{"id": n, "probs": [0.125, 0.5, 0.375]} for n in range(9)]
COLUMNS = [{"id": f"r-{n}", "positive": 0.5, "negative": 0.5, "neutral": 0} for n in range(9)]

SHAPES = {"label": LABELS, "object": PROBS, "list": LISTS, "columns": COLUMNS}
every_shape = pytest.mark.parametrize("rows", SHAPES.values(), ids=SHAPES)

# Each is put among lines such as those above, in place of one of them.
ODD_LINES = (
    *("", " ", "\t", "{}", "[]", "7", "null", "{", "}", '"text"', "garbage", "\ufeff", "\0"),
    '{"id": "a", "label": "Positive"} ',
    ' {"id": "a", "label": "Positive"}',
    '{"id": "a", "label": "Positive"}\r',
    '{"id": "a", "label": "Positive"}}',
    '{"id": "a", "label": "Positive"} garbage',
    '{"id": "a", "label": "Positive"}{"id": "b", "label": "Positive"}',
    '{"id": "a", "label": "Positive"}\r{"id": "b", "label": "Positive"}',
    '{"id": "a", "label": "Positive",}',
    '{"id":"a","label":"Positive"}',
    '{"label": "Positive", "id": "a"}',
    '{"id": "a", "label": "Positive", "id": "b"}',
    '{"id": "a", "label": "Positive", "label": "negative"}',
    '{"id": "a", "label": "Positive", "more": 1}',
    '{"id": "a", "label": "negative", "error": null}',
    '{"id": "a"}',
    '{"label": "Positive"}',
    '{"id": "a", "label": null}',
    '{"id": "a", "label": true}',
    '{"id": "a", "label": 1}',
    '{"id": null, "label": "Positive"}',
    '{"id": 7, "label": "Positive"}',
    '{"id": 7.0, "label": "Positive"}',
    '{"id": "", "label": ""}',
    '{"id": "r-3", "label": "negative"}',
    '{"id": "2024-01-01T00:00:00", "label": "neutral"}',
    '{"id": "a,b", "label": "Positive"}',
    '{"id": "a", "label": "Positive, "label": "x"}',
    '{"id": "a"b", "label": "Positive"}',
    '{"id": ", "label": "Positive"}',
    '{"id": "a, "label": "Positive"}',
    '{"id": "a\\"b", "label": "Positive"}',
    '{"id": "a\\u00e9", "label": "Positive"}',
    '{"id": "a\\ud800", "label": "Positive"}',
    '{"id": "a\\u0000", "label": "Positive"}',
    '{"id": "a\tb", "label": "Positive"}',
    '{"id": "a\0", "label": "Positive"}',
    '{"id": "größe 数 \u2028", "label": "\u00a0Positive"}',
    '{"id": "a", "label": "POSITIVE."}',
    '{"id": "a", "label": "It is not positive but negative."}',
    '{"id": "a", "probs": {"positive": 0.5, "negative": 0.5}}',
    '{"id": "a", "probs": {"negative": 1.0, "positive": 0.0, "neutral": 0.0}}',
    '{"id": "a", "probs": {"positive": 1.0, "positive": 0.5, "neutral": 0.0}}',
    '{"id": "a", "probs": [0.5, 0.5]}',
    '{"id": "a", "probs": null}',
    '{"id": 8, "probs": [0.5, 0.5]}',
)
ODD_NUMBERS = (
    *("1", "0", "-0", "-0.0", "1.0", "01", "00.5", ".5", "5.", "+0.5", "1e-05", "1E-5", "1.e5"),
    *("0.50", "1e999", "1e-999", "NaN", "nan", "Infinity", "inf", "-inf", "0x1", "1_0", " 0.5"),
    *("0.5 ", "", "true", "null", '"0.5"', "[0.5]", "{}", "0.5 0.5", "0..5", "0.5.5", "1.", "."),
    *("9007199254740993", "123456789012345678", "9223372036854775807", "9223372036854775808"),
    *("123456789012345678901234567890", "-9223372036854775809", "0.1234567890123456789012345"),
    *("1.7976931348623157e308", "5e-324", "-12.5", "12.5", "0.1e1", "1e5", "12345678901234567.0"),
    *("8.019201698481685e-06", "4.9406564584124654e-324", "1.5e-400", "1.5e400", "1.5e-", "1.5e"),
    *("1.e-5", "1.5-e5", "1.5e-5e-5", "1-.5e", "e.5-5", "-.5e5", "1.-5e5", "1.5e5-", "1.5e--5e"),
)


def plain_parser(data: bytes) -> list[Any] | None:
    try:
        return [orjson.loads(line) for line in data.split(b"\n")[:-1]]
    except orjson.JSONDecodeError:
        return None


def check_columns(data: bytes) -> bool:
    """Whether the lines were read as columns; then they have to be what a parser finds."""
    rows = uniform_lines(data)
    if rows is None:
        return False
    expected = plain_parser(data)
    assert expected is not None, data
    assert rows.to_pylist() == expected, data
    texts = {name for name in rows.schema.names if rows.schema.field(name).type == pa.string()}
    whole = {name for name in rows.schema.names if rows.schema.field(name).type == pa.int64()}
    for row in expected:
        assert texts == {name for name, value in row.items() if type(value) is str}, data
        assert whole <= {name for name, value in row.items() if type(value) is int}, data
        assert list(row) == rows.schema.names
    return True


def joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@every_shape
def test_lines_of_one_program_are_read_as_columns(rows: list[dict[str, Any]]) -> None:
    assert check_columns(joined([json.dumps(row) for row in rows]))
    assert check_columns(joined([json.dumps(row, separators=(",", ":")) for row in rows]))
    assert check_columns(joined([json.dumps(rows[0])]))


@pytest.mark.parametrize("place", [0, 1, 8])
@every_shape
def test_an_odd_line_is_read_rightly_or_not_at_all(rows: list[dict[str, Any]], place: int) -> None:
    for odd in ODD_LINES:
        lines = [json.dumps(row) for row in rows]
        lines[place] = odd
        check_columns(joined(lines))
        check_columns(joined(lines)[:-1])
        check_columns(b"\xef\xbb\xbf" + joined(lines))
        check_columns(joined([odd] * 3))
    for odd in (b"\xff", b"\xc3", b"\xed\xa0\x80"):
        data = joined([json.dumps(row) for row in rows])
        assert not check_columns(data.replace(b'"id": ', b'"id": ' + odd, 1))
        assert not check_columns(data.replace(b"r-1", b"r-" + odd, 1)) or b"r-1" not in data


def test_two_wrong_lines_do_not_make_up_for_each_other() -> None:
    usual = '{"id": "r-1", "label": "Positive"}'
    wrong = ('{"id": ", "label": "Positive"}', '{"id": "a"b", "label": "Positive"}')
    assert uniform_lines(joined([usual, *wrong])) is None
    assert uniform_lines(joined([usual, usual + usual, "", usual])) is None


@pytest.mark.parametrize("place", [0, 1, 4])
def test_an_odd_number_is_read_rightly_or_not_at_all(place: int) -> None:
    read = 0
    for odd in ODD_NUMBERS:
        for line in ('{{"id": "a", "x": {}}}', '{{"id": {}, "x": 0.5}}', '{{"x": [0.5, {}]}}'):
            for usual in ("0.5", "7", "-3.5e-3"):
                numbers = [usual] * 5
                numbers[place] = odd
                read += check_columns(joined([line.format(number) for number in numbers]))
    assert read > 50


def test_a_zero_keeps_its_sign_and_a_number_all_digits() -> None:
    for text in ("-0.0", "0.1234567890123456789012345", "5e-32", "123456789012345.678"):
        rows = uniform_lines(joined([f'{{"id": "a", "x": {text}}}'] * 2))
        assert rows is not None
        assert repr(rows.column(1)[0].as_py()) == repr(orjson.loads(text))


VALUES = st.one_of(
    st.text(max_size=6),
    st.text(alphabet='",:{}[] \\ae01', max_size=6),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([None, True, [], {}, [0.5, 0.5], [1, 2], {"a": 0.5, "b": 1}, [[1, 2], 3]]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_any_rows_are_read_rightly_or_not_at_all(
    values: list[tuple[Any, Any]], ascii_only: bool, same_kind: bool
) -> None:
    first = values[0]
    if same_kind:
        values = [v for v in values if list(map(type, v)) == list(map(type, first))]
    lines = [json.dumps({"id": a, "x": b}, ensure_ascii=ascii_only) for a, b in values]
    check_columns("".join(f"{line}\n" for line in lines).encode(errors="surrogatepass"))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 200), st.binary(max_size=3), st.integers(0, 3))
def test_damaged_lines_are_read_rightly_or_not_at_all(at: int, new: bytes, cut: int) -> None:
    for rows in SHAPES.values():
        data = joined([json.dumps(row) for row in rows])
        check_columns(data[:at] + new + data[at + cut :])


def outcome(path: Path, listed: Path, *, table: bool) -> tuple[Any, ...]:
    """All that an import of a file tells, or the message of its error."""
    listed.unlink(missing_ok=True)
    try:
        if table:
            labels, told = import_table([path], classes=CLASSES), None
        else:
            done = import_llm([path], CLASSES, skip_bad=True, allow_rejected=True, rejected=listed)
            labels, told = done.labels, (done.rules, done.rejected, done.lines, done.bad)
            told = (*told, done.never_named, done.unmatched, done.repeated)
    except InputError as error:
        return (str(error), listed.read_text() if listed.exists() else "")
    columns = (labels.topk_index, labels.topk_logprob, labels.missing)
    return (
        list(map(repr, labels.ids.tolist())),
        *(column.tobytes() for column in columns),
        labels.teacher,
        told,
        listed.read_text() if listed.exists() else "",
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("table", [False, True], ids=["answers", "table"])
@every_shape
def test_an_import_is_the_same_without_columns(
    rows: list[dict[str, Any]], table: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, listed = tmp_path / "rows.jsonl", tmp_path / "rejected.jsonl"
    files = [joined([json.dumps(row) for row in rows])]
    for odd in ODD_LINES:
        lines = [json.dumps(row) for row in rows]
        lines[5] = odd
        files += [joined(lines), joined([odd, *map(json.dumps, rows)])]
    files += [files[0][:-1], files[0].replace(b"\n", b"\r\n"), files[0].replace(b"\n", b"\r")]
    files += [b"\xef\xbb\xbf" + files[0], b"\n" + files[0] + b"\n \n", files[0] * 2]
    files += [files[0] + b"\xff\n", files[0].replace(b"r-4", b"r-\xff")]

    def outcomes() -> list[tuple[Any, ...]]:
        results = []
        for content in files:
            path.write_bytes(content)
            results.append(outcome(path, listed, table=table))
        return results

    # Blocks this small: one of them may be read as columns and the next one not.
    for size in (1 << 22, 100):
        monkeypatch.setattr("noisyteacher.io.formats._RAW_BYTES", size)
        with monkeypatch.context() as slow:
            slow.setattr(user_tables, "uniform_lines", lambda data: None)
            slow.setattr(usual_lines, "uniform_lines", lambda data: None)
            expected = outcomes()
        for content, found, wanted in zip(files, outcomes(), expected, strict=True):
            assert found == wanted, content


@pytest.mark.parametrize("long", [0, 100])
def test_one_id_in_several_blocks_becomes_one_row(
    long: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noisyteacher.io.formats._RAW_BYTES", 100)
    names = ["a", "b" * 20, *(f"r-{number}" for number in range(30)), "c" * long, "a", "b" * 20]
    rows = [{"id": name, "label": "Positive"} for name in names] + [{"id": "d", "label": "?"}] * 3
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = import_llm([path], CLASSES)
    assert done.repeated == 2
    assert done.labels.ids.tolist() == names[:-2]
    assert sum(done.rejected.values()) == 3
