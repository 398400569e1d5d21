"""The choice between linear students: planted teachers, no leaks, and an honest accuracy."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import softmax
from torch import Tensor

from noisyteacher.choose.evidence import (
    ENCODED,
    WORDS,
    DecisionRows,
    cross_fit,
    solve_candidates,
    solve_on_whole_pool,
)
from noisyteacher.choose.folds import input_groups, make_folds
from noisyteacher.choose.linear_choice import (
    choose_linear,
    fit_gold_only,
    linear_candidates,
    most_compared,
)
from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    Calibrated,
    Consistency,
    ForwardCorrection,
    GoldOnly,
    SelfTraining,
    SLaM,
    Vanilla,
)
from noisyteacher.train.pool_shards import PoolShards

CLASSES, WIDTH = 3, 8


def planted(
    right: float, gold: int = 60, pool: int = 900, test: int = 600, seed: int = 0
) -> tuple[DecisionRows, np.ndarray, np.ndarray, np.ndarray]:
    """Rows with a teacher that is right so often, and a test set that nobody sees."""
    rng = np.random.default_rng(seed)
    n = gold + pool + test
    centers = rng.normal(size=(CLASSES, WIDTH)) * 0.9
    truth = rng.integers(0, CLASSES, n)
    x = (centers[truth] + rng.normal(size=(n, WIDTH))).astype(np.float32)
    said = np.where(rng.random(n) < right, truth, rng.integers(0, CLASSES, n))
    probs = softmax(rng.normal(size=(n, CLASSES)) + 2.5 * np.eye(CLASSES)[said], axis=1)
    known = slice(0, gold + pool)
    labels = TeacherLabels.from_probs(np.arange(gold + pool), probs[known].astype(np.float32))
    y = np.where(np.arange(gold + pool) < gold, truth[known], -1)
    rows = DecisionRows(x[known], np.arange(gold + pool), y, y >= 0, y >= 0, labels, CLASSES)
    return rows, truth[known], x[gold + pool :], truth[gold + pool :]


def accuracy(logits: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(logits.argmax(1) == y))


def best_of_gold(rows: DecisionRows, x: np.ndarray, y: np.ndarray) -> float:
    """The accuracy of the best student of gold labels alone."""
    (students,) = solve_candidates(rows, linear_candidates([GoldOnly()]))
    return max(accuracy(fit.logits(x), y) for fit in students)


def flags(rows: DecisionRows, start: int, stop: int) -> np.ndarray:
    """(n,) bool: these rows and no others."""
    return (np.arange(len(rows.y)) >= start) & (np.arange(len(rows.y)) < stop)


@pytest.fixture
def few() -> DecisionRows:
    """40 gold rows and 100 of the pool."""
    return planted(0.7, gold=40, pool=100)[0]


# -- folds ----------------------------------------------------------------------------------


def test_folds_keep_the_shares_of_classes() -> None:
    y = np.repeat([0, 1, 2], [50, 30, 20])
    folds = make_folds(y, 5, seed=3)
    counts = [np.bincount(y[folds == f], minlength=3).tolist() for f in range(5)]
    assert counts == [[10, 6, 4]] * 5


def test_a_rare_class_is_spread_over_as_many_folds_as_it_fills() -> None:
    y = np.array([0] * 17 + [1] * 3)
    folds = make_folds(y, 5)
    assert len(set(folds[y == 1])) == 3
    assert np.bincount(folds).tolist() == [4] * 5


def test_identical_inputs_share_a_fold() -> None:
    texts = ["a", "b", "a", "c", "b", "d", "e", "f", "a", "g"]
    folds = make_folds(np.zeros(10, int), 3, groups=input_groups(texts))
    assert len({folds[i] for i in (0, 2, 8)}) == 1
    assert folds[1] == folds[4]


def test_groups_of_arrays_are_identical_rows() -> None:
    x = np.array([[1.0, 2], [3, 4], [1, 2]])
    for rows in (x, csr_matrix(x)):
        groups = input_groups(rows)
        assert groups[0] == groups[2] != groups[1]


def test_folds_are_a_function_of_the_seed() -> None:
    y = np.arange(40) % 4
    assert (make_folds(y, seed=1) == make_folds(y, seed=1)).all()
    assert (make_folds(y, seed=1) != make_folds(y, seed=2)).any()


def test_too_few_rows_for_the_folds_are_refused() -> None:
    with pytest.raises(InputError, match="3 gold rows cannot fill 5 folds"):
        make_folds(np.zeros(3, int), 5)


# -- several folds at a time ----------------------------------------------------------------


def test_the_number_of_threads_changes_nothing(few: DecisionRows) -> None:
    folds = make_folds(few.y[few.judges], 5)
    candidates = linear_candidates([GoldOnly(), SelfTraining(), SLaM(), ForwardCorrection()])
    found, told = [], []
    for threads in (1, 3):
        begun: list[tuple[str, int]] = []
        found.append(
            cross_fit(
                few,
                candidates,
                folds,
                threads=threads,
                progress=lambda name, fold, begun=begun: begun.append((name, fold)),
            )
        )
        told.append(sorted(begun))
    for alone, together in zip(*found, strict=True):
        np.testing.assert_array_equal(alone, together)
    assert told[0] == told[1]


def test_interrupted_folds_end_at_their_next_step(few: DecisionRows) -> None:
    folds = make_folds(few.y[few.judges], 5)
    main, steps = threading.get_ident(), itertools.count()

    class Interrupting(Vanilla):
        def loss(self, *given: Any) -> Tensor:
            # Python loses an interrupt that falls into a callback, such as a finalizer's: again.
            if next(steps) % 4 == 0:
                signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.5)  # the main thread hears of it meanwhile
            return super().loss(*given)

    with pytest.raises(KeyboardInterrupt):
        cross_fit(few, linear_candidates([Interrupting()])[1:], folds, threads=2)
    assert next(steps) < 10  # of about 100


# -- no leaks -------------------------------------------------------------------------------


def test_a_held_out_row_takes_no_part_in_its_fold(few: DecisionRows) -> None:
    """Other labels of one fold's rows change nothing in what that fold predicts."""
    folds = make_folds(few.y[few.judges], 4)
    # Their noise model, calibration and confusions are measured on gold rows too.
    candidates = linear_candidates([GoldOnly(), SLaM(), Calibrated(), ForwardCorrection()])
    inside = np.flatnonzero(few.judges)[folds == 1]
    changed = few.y.copy()
    changed[inside] = (changed[inside] + 1) % CLASSES
    before, after = (cross_fit(rows, candidates, folds) for rows in (few, replace(few, y=changed)))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one[:, folds == 1], other[:, folds == 1])
        assert np.abs(one[:, folds == 2] - other[:, folds == 2]).max() > 1e-3


def test_pool_copies_of_judging_rows_are_left_out(few: DecisionRows) -> None:
    features = few.features.copy()
    features[50:53] = features[:3]
    copies = replace(few, features=features, groups=input_groups(features))
    assert not set(copies.pool) & {50, 51, 52}
    assert len(copies.pool) == 97


def test_rows_the_teacher_saw_train_and_never_measure_or_judge(few: DecisionRows) -> None:
    val = flags(few, 20, 40)
    seen = replace(few, judges=val, measures=val)
    training, _ = seen.training_rows(flags(few, 20, 24), seen.pool)
    assert set(training.val_ids) == set(range(24, 40))
    assert set(training.ids[training.gold]) == {*range(20), *range(24, 40)}


def test_selection_rows_are_never_trained_on() -> None:
    rows, *_ = planted(0.7, gold=60, pool=100)
    chosen = flags(rows, 40, 60)
    measures = rows.judges & ~chosen
    apart = replace(rows, judges=chosen, measures=measures, trains_judges=False)
    training, _ = apart.training_rows(flags(rows, 0, 0), apart.pool)
    assert not set(training.ids) & set(range(40, 60))
    assert not set(training.val_ids) & set(range(40, 60))
    choice = choose_linear(apart)
    assert choice.rows == 20


# -- the decision ---------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "rows"), [(2, 20_000), (5, 20_000), (10, 10_000), (77, 5_000)])
def test_students_of_many_classes_are_compared_on_fewer_rows(classes: int, rows: int) -> None:
    assert most_compared(classes) == rows


def test_the_settings_of_a_candidate() -> None:
    """Five penalties of gold labels, three of others, and two weights of gold rows."""
    found = linear_candidates([SelfTraining(), SLaM(), Consistency(SLaM())])
    assert [candidate.method for candidate in found] == [
        GoldOnly(),  # always among them
        SelfTraining(),
        SLaM(),
        Consistency(SLaM()),
    ]
    assert [[(s.strength, s.gold_weight) for s in one.settings] for one in found] == [
        [(0.1, 1), (1, 1), (10, 1), (100, 1), (1000, 1)],
        [(1, 1), (10, 1), (100, 1)],
        [(0.1, 1), (1, 1), (10, 1), (0.1, 10), (1, 10), (10, 10)],
        [(1, 1)],
    ]


def test_encoded_rows_have_students_of_either_kind_of_columns() -> None:
    found = linear_candidates([SLaM(), Consistency(SLaM())], encoded=True)
    assert [sum(s.columns == ENCODED for s in one.settings) for one in found] == [5, 6, 0]
    assert [sum(s.columns == WORDS for s in one.settings) for one in found] == [5, 6, 1]


def beside_words(rows: DecisionRows, telling: str) -> DecisionRows:
    """The rows' features as one kind of columns, and noise as the other."""
    noise = np.random.default_rng(1).normal(size=rows.features.shape).astype(np.float32)
    parts = [rows.features, noise] if telling == ENCODED else [noise, rows.features]
    return replace(rows, features=csr_matrix(np.hstack(parts)), encoded=WIDTH)


@pytest.mark.parametrize("telling", [ENCODED, WORDS])
def test_the_columns_that_tell_nothing_get_no_weight(telling: str) -> None:
    rows, _, x, y = planted(0.8)
    choice = choose_linear(beside_words(rows, telling))
    size = [np.abs(choice.student.weight[:, at]).sum() for at in (slice(WIDTH), slice(WIDTH, None))]
    kept, lost = size if telling == ENCODED else size[::-1]
    assert lost < 0.02 * kept
    assert choice.encoder_weight == pytest.approx(float(telling == ENCODED), abs=0.01)
    assert choose_linear(rows).encoder_weight is None
    shown = beside_words(replace(rows, features=x), telling).features
    alone = choose_linear(rows).student
    found = accuracy(choice.student.logits(shown), y)
    assert found == pytest.approx(accuracy(alone.logits(x), y), abs=0.015)


def test_students_of_some_columns_are_those_of_rows_without_the_others() -> None:
    rows, *_ = planted(0.8, gold=40, pool=200)
    both = beside_words(rows, ENCODED)
    methods = [GoldOnly(), Vanilla(hard=True), SelfTraining()]
    wanted = solve_candidates(rows, linear_candidates(methods))
    found = solve_candidates(both, linear_candidates(methods, encoded=True))
    for alone, beside in zip(wanted, found, strict=True):
        for one, other in zip(alone, beside, strict=False):  # those of words follow
            np.testing.assert_allclose(one.weight, other.weight, atol=1e-4)


def test_a_good_teacher_of_scarce_gold_rows_is_used() -> None:
    rows, _, x, y = planted(0.9, gold=30)
    choice = choose_linear(rows)
    assert accuracy(choice.student.logits(x), y) > best_of_gold(rows, x, y) + 0.02
    assert sum(line.weight for line in choice.lines if line.uses_teacher) > 0.5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_useless_teacher_of_few_rows_per_class_gets_little_weight(seed: int) -> None:
    """Two gold rows per class: many a fold's training part lacks a class of its held-out rows.

    Gold labels alone rule such a class out, and one that never occurs cannot be ruled out further.
    """
    rng = np.random.default_rng(seed)
    classes, width, gold, known, n = 30, 24, 60, 360, 960
    truth = rng.integers(0, classes, n)
    x = rng.normal(size=(classes, width))[truth] + rng.normal(size=(n, width))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    # The teacher's mistakes can be learned, so its labels are no mere noise to students.
    said = (x @ rng.normal(size=(width, classes))).argmax(1)
    said = np.where(rng.random(n) < 0.1, truth, said)
    probs = softmax(rng.normal(size=(n, classes)) + 2.5 * np.eye(classes)[said], axis=1)
    ids = np.arange(known)
    labels = TeacherLabels.from_probs(ids, probs[:known].astype(np.float32))
    y = np.where(ids < gold, truth[:known], -1)
    rows = DecisionRows(x[:known], ids, y, y >= 0, y >= 0, labels, classes)
    choice = choose_linear(rows, linear_candidates([GoldOnly(), SLaM()]))
    alone = fit_gold_only(rows)
    right = [accuracy(fit.logits(x[known:]), truth[known:]) for fit in (choice.student, alone)]
    assert choice.gold_weight > 0.5
    assert right[0] > right[1] - 0.01


def test_the_refit_on_a_pool_on_disk_is_that_on_one_in_memory(tmp_path: Path) -> None:
    whole, *_ = planted(0.8, gold=30, pool=200)
    assert whole.labels is not None
    features = csr_matrix(whole.features)
    shards = PoolShards(tmp_path / "pool", WIDTH, whole.labels)
    shards.add(features[30:], whole.labels.at(slice(30, None)))
    some = slice(0, 130)  # the gold rows and a part of the pool
    columns = (whole.ids[some], whole.y[some], whole.judges[some], whole.measures[some])
    part = DecisionRows(features[some], *columns, whole.labels, CLASSES, rest=shards)
    candidates = linear_candidates([GoldOnly(), Vanilla()])
    begun = solve_candidates(part, candidates)
    found = solve_on_whole_pool(part, candidates, begun)
    wanted = solve_candidates(replace(whole, features=features), candidates)
    assert found[0] == list(begun[0])  # gold labels alone need no pool
    for one, start, other in zip(found[1], begun[1], wanted[1], strict=True):
        np.testing.assert_allclose(one.weight, other.weight, atol=0.02)
        assert np.abs(start.weight - other.weight).max() > 0.05


def test_labels_that_are_noise_do_no_harm() -> None:
    rows, _, x, y = planted(0.0, gold=150, test=5_000)
    choice = choose_linear(rows)
    assert accuracy(choice.student.logits(x), y) > best_of_gold(rows, x, y) - 0.01
    assert choice.gain.low <= 0.02


def test_a_teacher_trained_on_the_gold_rows_is_not_believed_when_val_is_given() -> None:
    """It knows the gold rows by heart and guesses elsewhere; rows it never saw tell."""
    rows, truth, x, y = planted(0.34, gold=120, pool=600)
    assert rows.labels is not None
    probs = rows.labels.probs.copy()
    probs[:60] = 0.01 + 0.97 * np.eye(CLASSES)[truth[:60]]
    labels = TeacherLabels.from_probs(rows.ids, probs)
    val = flags(rows, 60, 120)
    told = replace(rows, judges=val, measures=val, labels=labels)
    choice = choose_linear(told)
    assert choice.teacher is not None
    assert choice.teacher.value < 0.5
    assert accuracy(choice.student.logits(x), y) > best_of_gold(told, x, y) - 0.03


def test_the_order_of_candidates_does_not_matter() -> None:
    rows, _, x, _ = planted(0.8, gold=40, pool=200)
    methods = [GoldOnly(), Vanilla(hard=True), SLaM()]
    one = choose_linear(rows, linear_candidates(methods))
    # SLaM is not convex: it starts from the first taught student, so that one stays first.
    other = choose_linear(rows, linear_candidates([Vanilla(hard=True), SLaM(), GoldOnly()]))
    np.testing.assert_allclose(one.student.logits(x), other.student.logits(x), atol=5e-3)


def test_the_stated_accuracy_is_honest() -> None:
    """Over ten draws the stated accuracy is right on average, and intervals contain the truth."""
    off, inside = [], 0
    for seed in range(10):
        rows, _, x, y = planted(0.75, gold=60, pool=300, seed=seed)
        choice = choose_linear(rows, linear_candidates([GoldOnly(), SLaM()]), seed=seed)
        test = accuracy(choice.student.logits(x), y)
        off.append(choice.score.value - test)
        inside += choice.score.low <= test <= choice.score.high
    assert abs(np.mean(off)) < 0.04
    assert inside >= 8


def test_few_rows_are_cross_fitted_three_times() -> None:
    rows, *_ = planted(0.8, gold=24, pool=100)
    choice = choose_linear(rows, linear_candidates([GoldOnly(), Vanilla()]))
    assert choice.out_of_fold.shape == (3 * 24, CLASSES)
    assert choice.rows == 24
    # Each candidate's own blend is of its settings alone.
    assert [{part.candidate for part in own} for own in choice.own_parts] == [{0}, {1}]
    assert [sum(part.weight for part in own) for own in choice.own_parts] == pytest.approx([1, 1])


def test_macro_f1_is_another_metric() -> None:
    rows, *_ = planted(0.8, gold=40, pool=100)
    by_f1 = choose_linear(rows, linear_candidates([GoldOnly(), SLaM()]), metric="macro_f1")
    by_accuracy = choose_linear(rows, linear_candidates([GoldOnly(), SLaM()]))
    assert by_f1.score.value != by_accuracy.score.value
    with pytest.raises(InputError, match="metric must be one of accuracy, macro_f1, not 'f1'"):
        choose_linear(rows, metric="f1")
