"""An index that pandas wrote beside the columns is no feature: sorted by class, it is the class."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from noisyteacher.core.errors import NoisyTeacherWarning
from noisyteacher.data import load_dataset

COLUMNS = {"size": [0.5, 0.25, 0.75, 0.0], "label": ["a", "a", "b", "b"]}


@pytest.mark.parametrize("name", ["__index_level_0__", "", "Unnamed: 0"])
def test_a_nameless_index_is_left_out(tmp_path: Path, name: str) -> None:
    pa.csv.write_csv(pa.table({name: [3, 1, 0, 2], **COLUMNS}), tmp_path / "t.csv")
    with pytest.warns(NoisyTeacherWarning, match=f"left out '{name}', an index that pandas wrote"):
        dataset = load_dataset(tmp_path / "t.csv")
    assert dataset.features == ("size",)
    assert dataset.inputs.shape == (4, 1)


def test_an_index_with_a_name_is_told_by_the_files_metadata(tmp_path: Path) -> None:
    table = pa.table({**COLUMNS, "when": [3, 1, 0, 2]})
    told = b'{"index_columns": ["when", {"kind": "range"}]}'
    pq.write_table(table.replace_schema_metadata({b"pandas": told}), tmp_path / "t.parquet")
    with pytest.warns(NoisyTeacherWarning, match="left out 'when'"):
        assert load_dataset(tmp_path / "t.parquet").features == ("size",)


def test_a_column_that_counts_rows_is_kept_with_a_word(tmp_path: Path) -> None:
    pa.csv.write_csv(pa.table({"row": [7, 8, 9, 10], **COLUMNS}), tmp_path / "t.csv")
    with pytest.warns(NoisyTeacherWarning, match="'row' numbers the rows"):
        assert load_dataset(tmp_path / "t.csv").features == ("row", "size")
