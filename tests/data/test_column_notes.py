"""Columns that are not read, or that may tell the answer, are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisyteacher.core.errors import NoisyTeacherWarning
from noisyteacher.data import load_dataset


def test_strings_beside_texts_are_left_out_with_a_word(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("title,text,stars,label\nA,x,1,0\nB,y,5,1\n")
    with pytest.warns(NoisyTeacherWarning, match="the columns 'title', 'stars' are left out"):
        assert load_dataset(file).inputs == ["x", "y"]
    file.write_text("title,text,label\nA,x,0\nB,y,1\n")
    with pytest.warns(NoisyTeacherWarning, match="the column 'title' is left out"):
        assert load_dataset(file).inputs == ["x", "y"]


def test_a_second_label_among_the_features_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("size,target,label\n1.5,0,0\n0.5,1,1\n2.5,0,0\n")
    with pytest.warns(NoisyTeacherWarning, match=r"label is 'label', and .* features: 'target'\."):
        assert load_dataset(file).features == ("size", "target")
    file.write_text("size,target,label\n1,0,0\n0,1,1\n1,0,0\n")
    with pytest.warns(NoisyTeacherWarning, match=r"label is 'size', and .*: 'target', 'label'\."):
        load_dataset(file, label_column="size")


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_where_nothing_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("id,text,label\n1,x,0\n2,y,1\n")
    load_dataset(file)
    file.write_text("id,size,label\n1,1.5,0\n2,0.5,1\n")
    load_dataset(file)
    file.write_text("text,target,label\nx,0,0\ny,1,1\n")  # not to be written into the text
    load_dataset(file)
