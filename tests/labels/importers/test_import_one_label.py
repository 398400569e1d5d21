"""Tables of one label per row to labels."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.importers import (
    ImportSettings,
    import_table,
    parse_classes,
    with_synonyms,
)
from noisyteacher.labels.importers.llm_rows import RejectedList
from noisyteacher.labels.importers.one_label import is_json_table, spread

SURE = "id,text,label,confidence\na,x,cat,0.9\nb,y,dog,0.6\nc,z,bird,0.8\n"
HARD = "id,label\na,cat\nb,dog\nc,cat\n"


def csv(folder: Path, content: str, name: str = "teacher.csv") -> list[Path]:
    (folder / name).write_text(content)
    return [folder / name]


def noted(paths: list[Path], **options: Any) -> tuple[TeacherLabels, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        labels = import_table(paths, **options)
    assert all(note.category is NoisyTeacherWarning for note in caught)
    return labels, " | ".join(str(note.message) for note in caught)


def test_the_label_has_its_confidence_and_the_others_the_rest(tmp_path: Path) -> None:
    labels, note = noted(csv(tmp_path, SURE))
    assert (labels.ids.tolist(), labels.classes) == (["a", "b", "c"], ("bird", "cat", "dog"))
    wanted = [[0.05, 0.9, 0.05], [0.2, 0.2, 0.6], [0.8, 0.1, 0.1]]
    np.testing.assert_allclose(labels.probs, wanted, atol=5e-4)
    assert "'label' holds the labels, 'confidence' the probability of each" in note
    assert "the classes are the labels found: 'bird', 'cat', 'dog'." in note
    assert "Hard" not in note


def test_without_confidences_labels_are_one_hot_and_a_note_says_what_that_means(
    tmp_path: Path,
) -> None:
    labels, note = noted(csv(tmp_path, HARD))
    assert labels.probs.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert (
        "Hard labels say nothing about uncertainty, so trust can only be measured for all rows"
        in note
    )


@pytest.mark.parametrize("label", ["Prediction", "LABEL", "Answer"])
def test_names_of_columns_may_have_capitals(tmp_path: Path, label: str) -> None:
    lower, _ = noted(csv(tmp_path, SURE))
    table = SURE.replace("id,text,label,confidence", f"ID,Text,{label},Confidence")
    labels, note = noted(csv(tmp_path, table))
    assert labels.classes == lower.classes
    np.testing.assert_array_equal(labels.probs, lower.probs)
    assert f"'{label}' holds the labels, 'Confidence' the probability of each" in note


@pytest.mark.parametrize("column", ["response", "Output"])
def test_a_response_holds_the_labels_where_the_classes_are_known(
    tmp_path: Path, column: str
) -> None:
    paths = csv(tmp_path, HARD.replace("label", column))
    labels, note = noted(paths, classes=parse_classes("cat,dog"))
    assert labels.hard.tolist() == [0, 1, 0]
    assert f"{column!r} holds the labels" in note
    with pytest.raises(InputError, match=r"fewer than two columns .*\(--label-column\)"):
        import_table(paths)


def test_what_the_user_names_needs_no_note(tmp_path: Path) -> None:
    content = SURE.replace("label,confidence", "said,sure")
    classes = parse_classes("dog,cat,bird,fish")
    options = {"label_column": "said", "confidence_column": "sure", "classes": classes}
    labels, note = noted(csv(tmp_path, content), **options)
    assert (labels.classes, labels.hard.tolist(), note) == (tuple(classes), [1, 0, 2], "")
    np.testing.assert_allclose(labels.probs[0], [0.1 / 3, 0.9, 0.1 / 3, 0.1 / 3], atol=5e-4)


@pytest.mark.parametrize("kind", ["tsv", "jsonl", "parquet"])
def test_every_format(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"teacher.{kind}"
    rows = [{"id": 1, "pred": 10, "score": 0.75}, {"id": 2, "pred": 9, "score": 1}]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        path.write_text("id\tpred\tscore\n1\t10\t0.75\n2\t9\t1\n")
    labels, _ = noted([path])
    assert (labels.ids.tolist(), labels.classes) == ([1, 2], ("9", "10"))
    np.testing.assert_allclose(labels.probs, [[0.25, 0.75], [1, 0]], atol=5e-4)


def test_labels_of_a_csv_stay_as_they_are_written(tmp_path: Path) -> None:
    assert noted(csv(tmp_path, "id,label\n1,01\n2,1\n"))[0].classes == ("01", "1")
    assert noted(csv(tmp_path, "id,label\n1,True\n2,False\n"))[0].classes == ("False", "True")
    paths = csv(tmp_path, "id,label\n1,1\n", "1.csv") + csv(tmp_path, "id,label\n2,x\n", "2.csv")
    assert noted(paths)[0].classes == ("1", "x")
    columns = {"id": [3], "label": pa.array(["x"]).dictionary_encode()}
    pq.write_table(pa.table(columns), tmp_path / "3.parquet")
    assert noted([*paths, tmp_path / "3.parquet"])[0].hard.tolist() == [0, 1, 1]


def test_the_teachers_column_comes_before_one_that_may_be_the_truth(tmp_path: Path) -> None:
    labels, note = noted(csv(tmp_path, "id,label,prediction\n1,x,a\n2,x,b\n"))
    assert (labels.classes, "'prediction' holds the labels" in note) == (("a", "b"), True)


def test_classes_may_be_meant_by_synonyms_or_places(tmp_path: Path) -> None:
    classes = with_synonyms({"dog": ("hound",), "cat": ()})
    content = HARD.replace("dog", "hound")
    assert noted(csv(tmp_path, content), classes=classes)[0].hard.tolist() == [1, 0, 1]
    labels, note = noted(csv(tmp_path, "id,label\na,1\nb,0\n"), classes=classes)
    assert (labels.hard.tolist(), "0 is taken for 'dog'" in note) == ([1, 0], True)
    double = with_synonyms({"dog": ("pet",), "cat": ("pet",)})
    with pytest.raises(InputError, match="'pet' is a synonym of several classes"):
        import_table(csv(tmp_path, HARD), classes=double)


@pytest.mark.parametrize("count", [2, 3, 7, 8, 10, 100, 1000, 5000])
def test_of_equally_probable_classes_the_label_comes_first(count: int) -> None:
    y = np.array([count - 1, count // 2, 0])
    labels = TeacherLabels.from_probs([1, 2, 3], spread(y, np.full(3, 1 / count), count))
    assert labels.hard.tolist() == y.tolist()
    np.testing.assert_allclose(labels.probs, 1 / count, rtol=0.02)


def test_a_confidence_below_chance_is_taken_at_its_word_and_told(tmp_path: Path) -> None:
    content = "id,label,probability\na,no,0.1\nb,yes,0.9\nc,no,0.5\nd,yes,0\n"
    labels, note = noted(csv(tmp_path, content))
    wanted = [[0.1, 0.9], [0.1, 0.9], [0.5, 0.5], [1, 0]]
    np.testing.assert_allclose(labels.probs, wanted, atol=2e-3)
    assert labels.hard.tolist() == [1, 1, 0, 0]
    assert "in 2 of 4 rows 'probability' is below 1/2" in note


def test_a_score_that_is_no_probability_is_not_read(tmp_path: Path) -> None:
    labels, note = noted(csv(tmp_path, "id,label,score\na,x,90\nb,y,55\n"))
    assert labels.probs.tolist() == [[1, 0], [0, 1]]
    assert "'score' is not read" in note
    assert "look like percentages" in note
    content = "id,label,score,probability\na,x,-3.5,0.75\nb,y,2.5,0.75\n"
    labels, note = noted(csv(tmp_path, content))
    np.testing.assert_allclose(labels.probs, [[0.75, 0.25], [0.25, 0.75]], atol=5e-4)
    assert "percentages" not in note


def test_rows_without_a_label_are_left_out_and_told(tmp_path: Path) -> None:
    content = SURE + "d,w,,\n"
    labels, note = noted(csv(tmp_path, content))
    assert labels.ids.tolist() == ["a", "b", "c"]
    assert "teacher.csv have no label and are left out: 'd'." in note
    assert "'confidence' the probability" in note
    assert len(noted(csv(tmp_path, content), ids=np.arange(4))[0]) == 3


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "percentages": (
        SURE.replace("0.", "9"),
        {"confidence_column": "confidence"},
        r"go from 96 to 99 \(these look like percentages: divide them by 100\)\.$",
    ),
    "negative": (
        SURE.replace("0.9", "-0.9"),
        {"confidence_column": "confidence"},
        r"between 0 and 1, but those in 'confidence' go from -0.9 to 0.8\.$",
    ),
    "no confidence": (
        SURE.replace("0.9", ""),
        {"confidence_column": "confidence"},
        "'confidence' has 1 empty values",
    ),
    "words": (SURE, {"confidence_column": "text"}, "'text' holds string, not numbers"),
    "no such confidence": (
        SURE,
        {"confidence_column": "sure"},
        r"no confidence column: looked for 'sure' .*ce_column= \(--confidence-column\)",
    ),
    "no such label": (
        SURE,
        {"label_column": "said"},
        r"no label column: looked for 'said' .*\(--label-column\)",
    ),
    "confidence alone": (
        SURE.replace("label", "said"),
        {"confidence_column": "confidence"},
        r"no label column: .* among 'id', 'text', 'said', .*\(--label-column\)",
    ),
    "no labels": ("id,label\na,\n", {}, "'label' has no labels"),
    "one label": ("id,label\na,x\nb,x\n", {}, "all labels in 'label' are 'x'; name the other"),
    "sentences": (
        "id,answer\n" + "".join(f"{i},text {i}\n" for i in range(200)),
        {},
        "'answer' has 200 different labels in 200 rows; name the classes",
    ),
    "repeated id": (HARD.replace("\nb", "\na"), {}, "ids must be unique; repeated: 'a'"),
    "lists too": (
        HARD,
        {"label_column": "label", "list_column": "x"},
        "a column of lists or a column of labels, not both",
    ),
    "logits": (
        HARD,
        {"label_column": "label", "settings": ImportSettings(logits=True)},
        "cannot be used with labels and confidences",
    ),
    "another class": (
        SURE,
        {"classes": parse_classes("cat,dog")},
        "the labels 'bird', which are not among the teacher's classes 'cat', 'dog'",
    ),
}


@pytest.mark.parametrize(("content", "options", "problem"), WRONG.values(), ids=WRONG)
@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
def test_wrong_tables(tmp_path: Path, content: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        import_table(csv(tmp_path, content), **options)


def test_decimals_in_a_typed_table_are_no_labels(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "y": [0.5, 1.5]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="'y' holds double; labels are class names or whole"):
        import_table([tmp_path / "x.parquet"], label_column="y")
    with pytest.raises(InputError, match=r"fewer than two columns of prob.* \(--label-column\)"):
        import_table([tmp_path / "x.parquet"])


def test_lists_are_no_labels_to_leave_out(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "label": [["cat"], ["dog", "cat"]]}), path)
    with RejectedList(None) as listed, pytest.raises(InputError, match="holds lists"):
        import_table(
            [path], label_column="label", classes=parse_classes("cat,dog"), off_list=listed
        )


def test_lists_are_no_confidences(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    columns = {"id": ["a", "b"], "label": ["cat", "dog"], "sure": [[0.5, 0.5], [0.9, 0.1]]}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(InputError, match="'sure' holds lists, not numbers"):
        import_table([path], label_column="label", confidence_column="sure")


def test_whole_numbers_may_stand_as_decimals(tmp_path: Path) -> None:
    columns = {"id": [1, 2, 3], "label": [1.0, 0.0, float("nan")]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    labels, note = noted([tmp_path / "x.parquet"])
    assert (labels.ids.tolist(), labels.classes) == ([1, 2], ("0", "1"))
    assert labels.hard.tolist() == [1, 0]
    assert "1 rows of" in note
    labels, _ = noted([tmp_path / "x.parquet"], classes=parse_classes("no,yes"))
    assert (labels.classes, labels.hard.tolist()) == (("no", "yes"), [1, 0])
    assert noted(csv(tmp_path, "id,label\n1,1.0\n2,0.0\n"))[0].classes == ("0.0", "1.0")


@pytest.mark.parametrize(
    ("given", "classes", "hard"),
    [
        (None, ("dog", "cat"), [0, 1]),
        ("cat,Dog", ("cat", "Dog"), [1, 0]),
        ("a,b", ("a", "b"), [0, 1]),
    ],
)
def test_the_names_of_a_hugging_face_class_label_are_read(
    tmp_path: Path, given: str | None, classes: tuple[str, ...], hard: list[int]
) -> None:
    about = {"info": {"features": {"label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}}}
    table = pa.table({"id": [1, 2, 3], "label": [0, 1, -1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(about)})
    pq.write_table(table, tmp_path / "x.parquet")
    named = None if given is None else parse_classes(given)
    labels, note = noted([tmp_path / "x.parquet"], classes=named)
    assert (labels.classes, labels.hard.tolist()) == (classes, hard)
    assert "are left out: 3" in note
    assert ("are numbers" in note) == (given == "a,b")


def test_a_label_beside_an_answer_may_be_the_truth(tmp_path: Path) -> None:
    paths = csv(tmp_path, "id,label,answer\na,cat,a cat\nb,dog,a dog\n")
    with pytest.raises(InputError, match=r"both 'label' and 'answer' hold labels; name the column"):
        import_table(paths)


def test_probabilities_beside_a_label_stay_what_they_are(tmp_path: Path) -> None:
    table = "id,label,cat,dog\na,dog,0.75,0.25\nb,dog,0.25,0.75\n"
    for classes in (None, parse_classes("cat,dog")):
        labels, note = noted(csv(tmp_path, table), classes=classes)
        assert (labels.classes, labels.hard.tolist(), note) == (("cat", "dog"), [0, 1], "")
    labels, note = noted(csv(tmp_path, "id,y,n\na,0.75,0.25\nb,0.25,0.75\n"))
    assert (labels.classes, note) == (("y", "n"), "")
    with pytest.raises(InputError, match="no column for the classes 'bird', 'fish'"):
        import_table(csv(tmp_path, table), classes=parse_classes("bird,fish"))
    lists = csv(tmp_path, 'id,label,probs\n1,a,"[0.7, 0.3]"\n2,b,"[0.1, 0.9]"\n')
    assert noted(lists)[0].hard.tolist() == [0, 1]
    pq.write_table(
        pa.table({"id": [1, 2], "label": [0, 0], "probs": [[0.75, 0.25], [0.25, 0.75]]}),
        tmp_path / "x.parquet",
    )
    assert noted([tmp_path / "x.parquet"])[0].hard.tolist() == [0, 1]


def test_other_numbers_beside_a_label_ask_for_its_name(tmp_path: Path) -> None:
    paths = csv(tmp_path, "id,label,seconds,cost\na,x,1.5,0.1\nb,y,0.5,0.2\n")
    with pytest.raises(InputError, match=r"If 'label' holds .* label_column= \(--label-column\)"):
        import_table(paths)
    assert noted(paths, label_column="label")[0].hard.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("line", "labeled"),
    [
        ('\n{"id": 1, "label": "x", "response": "text", "error": null}', True),
        ('{"custom_id": "a", "response": {"body": {}}, "label": "x"}', False),
        ('{"id": "a", "choices": [], "label": "x"}', False),
        ('{"id": "a", "error": "busy", "label": "x"}', False),
        ('{"id": "a", "cat": 0.5, "dog": 0.5}', True),
        ('{"id": "a", "probs": [0.5, 0.5]}', True),
        ('{"id": "a", "probs": {"cat": 0.5, "dog": null}}', True),
        ('{"id": "a", "probs": ["x"]}', False),
        ('{"id": "a", "cat": 1, "dog": 0}', False),
        ("[1]", False),
        ("{", False),
        ("", False),
    ],
)
def test_json_lines_with_labels_are_told_from_answers(
    tmp_path: Path, line: str, labeled: bool
) -> None:
    (path,) = csv(tmp_path, line, "x.jsonl")
    assert is_json_table(path) is labeled


@pytest.mark.parametrize(
    ("line", "table"),
    [
        ('{"id": "a", "label": "cat"}', False),
        ('{"id": "a", "label": "2"}', True),
        ('{"id": "a", "label": 2}', True),
        ('{"id": "a", "label": true}', True),
        ('{"id": "a", "Cat": 1, "dog": 0}', True),
        ('{"id": "a", "seconds": 1.5, "cost": 0.5, "answer": "cat"}', False),
        ('{"id": "a", "probs": {"cat": 1, "dog": 0}}', True),
    ],
)
def test_labels_in_words_are_answers_where_the_classes_are_known(
    tmp_path: Path, line: str, table: bool
) -> None:
    (path,) = csv(tmp_path, line, "x.jsonl")
    assert is_json_table(path, parse_classes("cat,dog")) is table


def test_labels_are_compared_as_answers_are(tmp_path: Path) -> None:
    """B3: case, punctuation and separators do not make another class."""
    table = "id,label\na,scitech\nb,Business.\nc,Sci/Tech\nd,sci_tech\ne,business\n"
    labels, _ = noted(csv(tmp_path, table), classes=parse_classes("Business,Sci/Tech"))
    assert labels.hard.tolist() == [1, 0, 1, 1, 0]
    labels, note = noted(csv(tmp_path, f"{table}f,Sci/Tech\ng,business\n"))
    assert labels.classes == ("Sci/Tech", "business")
    assert labels.hard.tolist() == [0, 1, 0, 0, 1, 0, 1]
    assert "'Sci/Tech', 'business'" in note
    with pytest.raises(InputError, match="has the labels 'Science'"):
        noted(
            csv(tmp_path, "id,label\na,Science\nb,Sci/Tech\n"), classes=parse_classes("A,Sci/Tech")
        )


def test_the_truth_beside_the_teachers_labels_is_not_read_as_its_labels(tmp_path: Path) -> None:
    rows = "1,a lamp,cat,dog\n2,a rose,dog,dog\n3,a lily,cat,cat\n"
    known = tmp_path / "known.csv"
    known.write_text(f"id,text,label,llm_label\n{rows}")
    with pytest.warns(UserWarning, match="the column 'llm_label' holds the labels"):
        labels = import_table([known])
    assert [labels.classes[c] for c in labels.hard] == ["dog", "dog", "cat"]
    strange = tmp_path / "strange.csv"
    strange.write_text(f"id,text,label,qwen\n{rows}")
    with pytest.raises(InputError, match="both 'label' and 'qwen' hold labels; name the column"):
        import_table([strange])
    with pytest.warns(UserWarning, match="Hard labels"):
        named = import_table([strange], label_column="qwen")
    assert named.hard.tolist() == labels.hard.tolist()
    folds = tmp_path / "folds.csv"
    folds.write_text("id,label,fold\n1,0,0\n2,1,1\n3,2,0\n")
    with pytest.warns(UserWarning, match="the column 'label' holds the labels"):
        assert import_table([folds]).hard.tolist() == [0, 1, 2]
