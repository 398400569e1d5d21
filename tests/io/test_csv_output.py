"""CSV files that spreadsheets open without running what they hold."""

from __future__ import annotations

import csv
import io

import pytest

from noisyteacher.io.user_tables import csv_bytes


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"),
        ('=HYPERLINK("http://x","y")', '\'=HYPERLINK("http://x","y")'),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("-5", "-5"),
        ("+1.5", "+1.5"),
        ("a=b", "a=b"),
        ("007", "007"),
        ("", ""),
        ("é, 'x'", "é, 'x'"),
    ],
)
def test_a_text_is_no_formula(text: str, written: str) -> None:
    rows = list(csv.reader(io.StringIO(csv_bytes({"id": [text], "n": [-1.5]}).decode())))
    assert rows == [["id", "n"], [written, "-1.5"]]


def test_empty_cells_and_numbers_stay() -> None:
    assert csv_bytes({"id": [3, -4], "class": [None, "=x"]}) == b'"id","class"\n3,\n-4,"\'=x"\n'
