"""Gold, pool and labels brought together: by class names, ids and contents."""

from __future__ import annotations

import re
import tracemalloc
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.teacher_labels import join_labels
from noisyteacher.pipeline import gather
from noisyteacher.pipeline.matching import with_features
from noisyteacher.pipeline.sources import as_examples
from noisyteacher.pipeline.task import Task, make_task
from user_files import MOODS, noisy_probs, reviews

TEXTS, Y = reviews(100)
IDS = [f"r{i}" for i in range(100)]
NAMES = [MOODS[c] for c in Y]
GOLD, POOL = slice(0, 60), slice(60, 100)
SQUARES = np.zeros((60, 8, 8), np.uint8)


def labels_of(ids: Any = IDS, classes: tuple[str, ...] = MOODS) -> TeacherLabels:
    return TeacherLabels.from_probs(ids, noisy_probs(Y, 2), classes)


def given(**more: Any) -> dict[str, Any]:
    parts = {
        "gold": (IDS[GOLD], TEXTS[GOLD], NAMES[GOLD]),
        "pool": (IDS[POOL], TEXTS[POOL]),
        "labels": labels_of(),
    }
    return parts | more


def gathered(*notes: str, **more: Any) -> Task:
    """The task; every one of the notes must be given, and no other."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = gather(**given(**more))
    said = [str(w.message) for w in caught if issubclass(w.category, NoisyTeacherWarning)]
    assert len(said) == len(notes), said
    for note, text in zip(notes, said, strict=True):
        assert re.search(note, text), text
    return task


def test_nothing_is_split_off_the_gold_set() -> None:
    task = gathered()
    assert task.sizes == {"gold": 60, "V": 0, "S": 0, "pool": 40, "test": 0}
    parts = task.split
    parts.check(100)
    assert task.ids[parts.gold].tolist() == IDS[GOLD]
    assert [MOODS[c] for c in task.y[parts.gold]] == NAMES[GOLD]
    assert (task.y[parts.pool] == -1).all()
    texts = dict(zip(IDS, TEXTS, strict=True))
    assert task.inputs == [texts[str(i)] for i in task.ids]
    right = np.mean(labels_of().take(IDS[GOLD]).hard == task.y[parts.gold])
    assert task.teacher_accuracy == pytest.approx(100 * right)
    np.testing.assert_array_equal(task.judges, parts.gold)
    np.testing.assert_array_equal(task.measures, parts.gold)


def test_given_v_and_s_stay_as_they_are() -> None:
    parts = given(
        gold=(IDS[:30], TEXTS[:30], NAMES[:30]),
        val=(IDS[30:45], TEXTS[30:45], NAMES[30:45]),
        selection=(IDS[45:60], TEXTS[45:60], NAMES[45:60]),
    )
    task = gather(**parts)  # and nothing is warned of
    assert task.ids[task.split.val].tolist() == IDS[30:45]
    assert task.ids[task.split.selection].tolist() == IDS[45:60]


def test_gold_rows_without_teacher_labels_do_not_measure_it() -> None:
    few = labels_of().take([*IDS[:40], *IDS[POOL]])
    task = gathered("20 of 60 gold ids have no teacher label", labels=few)
    assert task.ids[task.measures].tolist() == IDS[:40]
    assert sum(task.sizes.values()) == 100


def test_class_numbers_are_places_among_the_teachers_names() -> None:
    by_name = gathered()
    told = "gold are numbers: 0 is taken for 'bad', 1 for 'good'"
    by_number = gathered(told, gold=(IDS[GOLD], TEXTS[GOLD], Y[GOLD]))
    np.testing.assert_array_equal(by_name.y, by_number.y)


def test_classes_in_another_order_are_matched_by_name() -> None:
    swapped = TeacherLabels.from_probs(IDS, noisy_probs(Y, 2)[:, ::-1], MOODS[::-1])
    task, usual = gathered(labels=swapped), gathered()
    assert task.classes == ("good", "bad")
    assert [task.classes[c] for c in task.y if c >= 0] == [
        usual.classes[c] for c in usual.y if c >= 0
    ]


def test_ids_of_numbers_match_ids_of_text() -> None:
    numbers = np.arange(100)
    task = gathered(
        gold=(numbers[GOLD], TEXTS[GOLD], NAMES[GOLD]),
        pool=(numbers[POOL], TEXTS[POOL]),
        labels=labels_of([str(i) for i in numbers]),
    )
    assert task.sizes["pool"] == 40


def test_probabilities_without_ids_stand_in_the_order_gold_pool() -> None:
    stored = gathered()
    plain = gathered(labels=noisy_probs(Y, 2), classes=MOODS)
    np.testing.assert_array_equal(plain.labels.take(IDS).probs, stored.labels.take(IDS).probs)
    with pytest.raises(InputError, match=r"60 of gold . 40 of pool.*100 in all.*there are 40"):
        gather(**given(labels=noisy_probs(Y[POOL], 2)))


def test_hard_labels_are_an_array_of_classes() -> None:
    """As a classifier's ``predict`` gives them; some may be missing."""
    said = noisy_probs(Y, 2).argmax(1)
    names: Any = np.array(MOODS, object)[said]
    names[3] = None
    task = gathered("1 of 60 gold ids have no teacher label", labels=names)
    assert task.classes == ("bad", "good")
    wanted = [MOODS[c] for c in np.delete(said, 3)]
    found = task.labels.take([one for one in IDS if one != IDS[3]])
    assert [task.classes[c] for c in found.hard] == wanted
    np.testing.assert_array_equal(found.probs.max(1), 1)
    # A class that only the gold rows have; numbers, with numbers as gold labels and without.
    task = gathered(gold=(IDS[GOLD], TEXTS[GOLD], NAMES[GOLD]), labels=np.full(100, "bad"))
    assert set(task.classes) == {"bad", "good"}
    task = gathered(gold=(IDS[GOLD], TEXTS[GOLD], Y[GOLD]), labels=said)
    assert task.classes == ("0", "1")
    told = "gold are numbers: 0 is taken for 'bad', 1 for 'good'"
    task = gathered(told, gold=(IDS[GOLD], TEXTS[GOLD], Y[GOLD]), labels=np.array(MOODS)[said])
    assert task.classes == ("bad", "good")
    assert gathered(labels=said, classes=MOODS).classes == MOODS


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (np.full((60, 2), np.nan), "infinite or NaN values in rows 0, 1, 2, 3, 4 and 55 more"),
        (np.diag([np.inf] + [0.0] * 59), r"infinite or NaN values in rows 0\."),
        ({"a": 1}, r"a table \(n, d\); not dict"),
        (np.zeros((60, 8, 8)), "not float64 of shape"),
    ],
)
def test_bad_inputs_from_python_are_refused(inputs: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        gather(**given(gold=(IDS[:60], inputs, Y[:60])))


def test_bad_labels_from_python_are_refused() -> None:
    probs = noisy_probs(Y, 2)
    with pytest.raises(InputError, match=r"'0', '1'. If these .* classes= \(--classes\)"):
        gather(**given(labels=probs))
    with pytest.raises(InputError, match=r"labels must be TeacherLabels, .* not dict"):
        gather(**given(labels=dict(zip(IDS, probs, strict=True))))
    with pytest.raises(InputError, match=r"no files 'bad', 'good'\. .* as a NumPy array"):
        gather(**given(labels=list(MOODS)))


def test_endings_of_label_files_may_be_upper_case(tmp_path: Path) -> None:
    expected = labels_of().probs
    np.save(tmp_path / "probs.npy", noisy_probs(Y, 2))
    (tmp_path / "probs.npy").rename(tmp_path / "probs.NPY")
    lines = [f"{key}\t{p[0]}\t{p[1]}\n" for key, p in zip(IDS, noisy_probs(Y, 2), strict=True)]
    (tmp_path / "probs.TSV").write_text("id\tbad\tgood\n" + "".join(lines))
    for name in ("probs.NPY", "probs.TSV"):
        task = gathered(labels=tmp_path / name, classes=MOODS)
        np.testing.assert_allclose(task.labels.take(IDS).probs, expected, atol=1e-3)
    (tmp_path / "probs.txt").write_text("")
    with pytest.raises(InputError, match=r"\.csv, \.tsv or \.parquet probabilities"):
        gather(**given(labels=tmp_path / "probs.txt"))


def test_an_array_is_not_read_for_its_length(tmp_path: Path) -> None:
    np.save(tmp_path / "probs.npy", np.zeros((1_000_000, 4)))
    (tmp_path / "torn.npy").write_bytes((tmp_path / "probs.npy").read_bytes()[:1000])
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"100 in all.*there are 1000000"):
            gather(**given(labels=tmp_path / "probs.npy"))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(InputError, match=r"torn\.npy is damaged or incomplete"):
        gather(**given(labels=tmp_path / "torn.npy"))


def test_pool_examples_of_the_gold_set_are_left_out_with_a_note() -> None:
    texts = [*TEXTS[POOL][:-2], TEXTS[0], TEXTS[1]]
    task = gathered(
        "because the gold set has the same inputs: 2 examples .*r98", pool=(IDS[POOL], texts)
    )
    assert task.sizes["pool"] == 38


def test_pool_examples_without_labels_are_left_out_with_a_note() -> None:
    task = gathered(
        "3 of 40 pool ids have no teacher label.*r97", labels=labels_of().take(IDS[:97])
    )
    assert task.sizes["pool"] == 37


def test_what_else_is_noted() -> None:
    gathered(
        "1 rows of gold have no label",
        gold=(IDS[GOLD], TEXTS[GOLD], [None, *NAMES[1:60]]),
    )
    three = np.column_stack([noisy_probs(Y, 2), np.zeros(100)])
    third = TeacherLabels.from_probs(IDS, three, (*MOODS, "odd"))
    gathered("no example of 'odd'", labels=third)
    perfect = TeacherLabels.from_probs(IDS, np.eye(2)[Y] * 0.8 + 0.1, MOODS)
    val = (IDS[:55], TEXTS[:55], NAMES[:55])
    rest = (IDS[55:80], TEXTS[55:80], NAMES[55:80])
    gathered(
        "right on all 55 rows of V",
        gold=rest,
        val=val,
        pool=(IDS[80:], TEXTS[80:]),
        labels=perfect,
    )


def test_copies_under_other_ids_are_noted() -> None:
    texts = [*TEXTS[:59], TEXTS[0]]
    parts = {
        "gold": (IDS[:30], texts[:30], NAMES[:30]),
        "val": (IDS[30:45], texts[30:45], NAMES[30:45]),
        "selection": (IDS[45:60], texts[45:60], NAMES[45:60]),
    }
    gathered(
        "The S set has 1 example with inputs that are also in the gold set or V.*'r59'.*not "
        "trained on",
        **parts,
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"gold": (IDS[GOLD], TEXTS[GOLD], ["odd", *NAMES[1:60]])}, "labels 'odd', which are not"),
        ({"gold": (IDS[GOLD], TEXTS[GOLD], [7, *Y[1:60]])}, "labels '7', which are not among"),
        ({"gold": (IDS[:9], TEXTS[:9], NAMES[:9])}, "9 gold examples .* too few"),
        ({"gold": (IDS[GOLD], TEXTS[GOLD])}, r"gold must be .*\(ids, inputs, y\)"),
        ({"pool": (["x"] * 2, TEXTS[:2])}, "pool: ids must be unique; repeated: 'x'"),
        ({"pool": ([f"q{i}" for i in range(40)], TEXTS[POOL])}, "None of the 40 ids .*'q0', 'q1'"),
        ({"pool": (IDS[1:41], TEXTS[POOL])}, "40 ids name different examples .*'r1'"),
        ({"pool": (IDS[POOL], np.zeros((40, 3)))}, "gold set holds texts, the pool set tables"),
        ({"pool": (IDS[GOLD], TEXTS[GOLD])}, "Every pool example"),
        (
            {"gold": (IDS[GOLD], SQUARES, NAMES[GOLD]), "pool": (IDS[POOL], SQUARES[:40, :4])},
            r"shape .*image_size=\.\.\.\) \(--image-size\)",
        ),
        (
            {"labels": labels_of().take(IDS[POOL])},
            r"None of the 60 gold ids .*label the gold file.* val= \(--val\)",
        ),
        ({"labels": "nowhere"}, "no teacher labels at nowhere"),
        ({"val": (IDS[:30], TEXTS[:30], NAMES[:30])}, "30 ids of the V set are also in the gold"),
    ],
)
@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
def test_bad_input_is_one_sentence(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        gather(**given(**more))


def test_stores_join_bit_for_bit_and_refuse_what_does_not_fit() -> None:
    whole = labels_of()
    parts = [whole.take(IDS[:40]), whole.take(IDS[40:])]
    joined = join_labels(parts)
    np.testing.assert_array_equal(joined.topk_logprob, whole.topk_logprob)
    np.testing.assert_array_equal(joined.ids, whole.ids)
    with pytest.raises(InputError, match="share ids: 'r0'"):
        join_labels([whole, whole])
    with pytest.raises(InputError, match="same classes"):
        join_labels([parts[0], labels_of(classes=("x", "y")).take(IDS[40:])])


def test_labels_of_a_pool_are_never_seen() -> None:
    parts = given()
    gold, columns = as_examples(parts["gold"], "gold"), (IDS[POOL], TEXTS[POOL], NAMES[POOL])
    task = make_task({"gold": gold, "pool": as_examples(columns, "pool")}, labels_of())
    assert (task.y[task.split.pool] == -1).all()
    assert (task.y[task.split.gold] == Y[GOLD]).all()


def test_every_part_of_a_task_is_in_its_digest() -> None:
    """A folder of a run goes on with what was trained there, if the digest is the same."""
    roles = {"gold": slice(0, 30), "val": slice(30, 45), "selection": slice(45, 55)}

    def task(names: list[str] = NAMES, texts: list[str] = TEXTS, **more: slice) -> Task:
        rows = roles | {"test": slice(55, 60)} | more
        sets = {name: (IDS[s], texts[s], names[s]) for name, s in rows.items()}
        return gather(**sets, pool=(IDS[POOL], texts[POOL]), labels=labels_of())

    tasks = [task(), task(val=slice(30, 44), selection=slice(44, 55))]
    tasks.append(task(gold=slice(0, 29), val=slice(29, 45)))
    for row in (0, 30, 45, 55):  # of each set
        other = [*NAMES]
        other[row] = MOODS[1 - Y[row]]
        tasks.append(task(other))
        tasks.append(task(texts=[*TEXTS[:row], "something else", *TEXTS[row + 1 :]]))
    assert len({one.digest() for one in tasks}) == len(tasks)
    assert task().digest() == tasks[0].digest()


@pytest.mark.parametrize("name", ["gold", "val"])
def test_test_rows_that_are_trained_on_are_pointed_out(name: str) -> None:
    copied = 0 if name == "gold" else 30
    note = "The test set has 1 example with inputs that are also in the gold set or V"
    gathered(
        note,
        gold=(IDS[:30], TEXTS[:30], NAMES[:30]),
        val=(IDS[30:60], TEXTS[30:60], NAMES[30:60]),
        test=(["t0"], [TEXTS[copied]], [NAMES[copied]]),
    )


def test_rows_without_a_label_are_no_rows_of_the_first_class() -> None:
    """Where the teacher counts its classes in another order."""
    texts, names = TEXTS[GOLD], [None, *NAMES[1:60]]
    labels = TeacherLabels.from_probs(IDS, noisy_probs(Y, 2)[:, ::-1], MOODS[::-1])
    task = gathered("1 rows of gold have no label", gold=(IDS[GOLD], texts, names), labels=labels)
    assert task.sizes["gold"] == 59
    assert [MOODS[::-1][c] for c in task.y[task.split.gold]] == NAMES[1:60]


def test_columns_of_a_table_are_brought_into_the_order_of_the_gold_set() -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    made = replace(
        as_examples((["a", "b", "c", "d"], x, NAMES[:4]), "test"), features=("p", "q", "r")
    )
    moved = with_features(made, ("q", "r", "p"), "the gold set")
    assert moved.features == ("q", "r", "p")
    np.testing.assert_array_equal(moved.inputs, x[:, [1, 2, 0]])
