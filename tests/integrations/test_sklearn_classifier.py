"""The scikit-learn estimator: its checks, its pool, pipelines and searches."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import sklearn
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from small_teacher import CLASSES, FEATURES, small_problem
from torch import nn

from noisyteacher import distill
from noisyteacher.choose.evidence import DecisionRows, LinearCandidate, Setting, solve_candidates
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.integrations.sklearn import SLaMClassifier
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    ConfidentPruning,
    Consistency,
    GoldOnly,
    Method,
    SLaM,
    Vanilla,
    Weighted,
)
from noisyteacher.models import MLP
from noisyteacher.noise import TeacherNoise

SMALL = small_problem()
NAMES = np.array(["ant", "bee", "cat", "dog"])
KNOWN = slice(0, SMALL.val.stop)
X, Y = SMALL.x[KNOWN], NAMES[SMALL.y[KNOWN]]
X_TEST, Y_TEST = SMALL.x[SMALL.test], NAMES[SMALL.y[SMALL.test]]


def teacher_on_gold() -> np.ndarray:
    """The teacher was trained on A; its word counts on V only."""
    probs = SMALL.probs[KNOWN].copy()
    probs[SMALL.gold] = np.nan
    return probs


POOL: dict[str, Any] = {"X_pool": SMALL.x[SMALL.pool], "teacher_probs": SMALL.probs[SMALL.pool]}
TEACHER: dict[str, Any] = POOL | {"teacher_probs_gold": teacher_on_gold()}
WRAPPED: dict[str, Any] = {name: (value,) for name, value in POOL.items()} | {
    "teacher_probs_gold": TEACHER["teacher_probs_gold"]
}


def quick(**settings: Any) -> SLaMClassifier:
    usual = {"steps": 60, "learning_rate": 0.05, "random_state": 0, "folds": 2, "method": SLaM()}
    return SLaMClassifier(**(usual | settings))


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_scikit_learns_own_checks() -> None:
    check_estimator(quick(), on_skip=None)


def test_the_pool_makes_a_better_student_than_gold_alone() -> None:
    few = slice(0, 40)
    teacher = TEACHER | {"teacher_probs_gold": TEACHER["teacher_probs_gold"][few]}
    gold_only = quick().fit(X[few], Y[few]).score(X_TEST, Y_TEST)
    slam = quick(method=None).fit(X[few], Y[few], **teacher).score(X_TEST, Y_TEST)
    assert slam > gold_only + 0.02


def test_the_noise_model_is_fitted_on_gold_rows_without_nan() -> None:
    student = quick(steps=2).fit(X, Y, **TEACHER)
    wanted = TeacherNoise().fit(SMALL.probs[SMALL.val].astype(np.float32), SMALL.y[SMALL.val])
    assert student.noise_ is not None
    assert student.noise_.n_val_ == SMALL.val.stop - SMALL.val.start
    np.testing.assert_allclose(
        student.noise_.alpha_curve_.values_, wanted.alpha_curve_.values_, atol=1e-6
    )
    assert quick().fit(X, Y).noise_ is None


def test_without_probabilities_on_gold_the_teacher_is_taken_at_its_word() -> None:
    with pytest.warns(NoisyTeacherWarning, match="teacher_probs_gold"):
        student = quick(steps=2).fit(X, Y, **POOL)
    alpha = student.noise_.predict(SMALL.probs[SMALL.pool].astype(np.float32)).alpha
    top = np.maximum(SMALL.probs[SMALL.pool].max(1), 0.5)
    assert np.abs(alpha - top).mean() < 0.1


def test_tuples_of_one_are_the_same_pool() -> None:
    plain, wrapped = quick().fit(X, Y, **TEACHER), quick().fit(X, Y, **WRAPPED)
    np.testing.assert_array_equal(plain.predict_proba(X_TEST), wrapped.predict_proba(X_TEST))


def test_the_method_is_ones_own_choice() -> None:
    slam = quick(method=SLaM(hard=True)).fit(X, Y, **TEACHER)
    vanilla = quick(method=Vanilla()).fit(X, Y, **TEACHER)
    assert vanilla.noise_ is None
    assert np.abs(slam.predict_proba(X_TEST) - vanilla.predict_proba(X_TEST)).max() > 0.01


def test_classes_may_have_any_order_and_be_more_than_those_of_y() -> None:
    order = np.array([2, 0, 3, 1])
    moved = {
        name: value if name == "X_pool" else value[:, order] for name, value in TEACHER.items()
    }
    student = quick(classes=NAMES[order]).fit(X, Y, **moved)
    usual = quick().fit(X, Y, **TEACHER)
    # Sorted, whatever the teacher's order: scorers of scikit-learn take that for granted.
    np.testing.assert_array_equal(student.classes_, np.sort(NAMES))
    np.testing.assert_allclose(
        student.predict_proba(X_TEST), usual.predict_proba(X_TEST), atol=1e-3
    )
    without = Y != "dog"
    gold = TEACHER["teacher_probs_gold"][without]
    # A linear student is blended with one of gold labels alone, which never says "dog".
    for student in ("linear", own_student):
        more = quick(classes=NAMES, student=student)
        more.fit(X[without], Y[without], **POOL, teacher_probs_gold=gold)
        assert more.predict_proba(X_TEST).shape == (len(X_TEST), CLASSES)
    assert "dog" in more.predict(X_TEST)


def own_student(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, classes))


@pytest.mark.parametrize(
    "student",
    [
        own_student,
        functools.partial(MLP, hidden=(8,)),
        own_student(FEATURES, CLASSES),
        functools.partial(own_student, FEATURES, CLASSES),
        MLP(FEATURES, CLASSES, hidden=(8,)),
    ],
    ids=["function", "settings of a class", "module", "factory", "settings"],
)
def test_any_torch_student_will_do(student: Any) -> None:
    fitted = clone(quick(student=student, steps=150)).fit(X, Y, **TEACHER)
    assert fitted.score(X_TEST, Y_TEST) > 0.6
    assert sum(p.numel() for p in fitted.network_.parameters()) == 8 * (FEATURES + 1) + 9 * CLASSES


def test_sparse_and_dense_rows_meet() -> None:
    student = quick().fit(sparse.csr_matrix(X), Y, **TEACHER)
    probs = student.predict_proba(X_TEST)
    np.testing.assert_allclose(student.predict_proba(sparse.csr_matrix(X_TEST)), probs, atol=1e-12)
    dense = quick().fit(X, Y, **TEACHER | {"X_pool": sparse.csr_matrix(POOL["X_pool"])})
    np.testing.assert_array_equal(
        dense.predict_proba(X_TEST), quick().fit(X, Y, **TEACHER).predict_proba(X_TEST)
    )


def test_methods_of_words_are_not_tried_on_other_sparse_rows() -> None:
    """The default has a method that drops words, which rows with few zeros cannot have."""
    given = TEACHER | {"X_pool": sparse.csr_matrix(POOL["X_pool"])}
    student = quick(method=None).fit(sparse.csr_matrix(X), Y, **given)
    dense = quick(method=None).fit(X, Y, **TEACHER)
    np.testing.assert_array_equal(student.predict_proba(X_TEST), dense.predict_proba(X_TEST))


def texts_and_teacher(rare: list[str], count: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """200 texts of two classes with so many rare words, and a teacher that is right on most."""
    words = {"good": ["fine", "great", "lovely"], "poor": ["bad", "awful", "dull"]}
    rng = np.random.default_rng(0)
    y = np.array(["good", "poor"])[rng.integers(0, 2, 200)]
    texts = [" ".join([*rng.choice(words[name], 1), *rng.choice(rare, count)]) for name in y]
    sure = np.where(rng.random(200) < 0.9, 0.8, 0.2)
    probs = np.where(y == "good", sure, 1 - sure)[:, None] * [1, -1] + [0, 1]
    return texts, y, probs


@pytest.mark.parametrize("method", [SLaM(), Consistency(SLaM())])
def test_sparse_and_dense_texts_make_the_same_student(method: Method) -> None:
    texts, y, probs = texts_and_teacher([f"word{i}" for i in range(60)], 5)
    rows, found = TfidfVectorizer().fit_transform(texts), []
    for x in (rows, rows.toarray(), sparse.coo_matrix(rows)):
        x = x.tocsr() if sparse.issparse(x) else x
        student = quick(method=method).fit(
            x[:40], y[:40], X_pool=x[40:], teacher_probs=probs[40:], teacher_probs_gold=probs[:40]
        )
        found.append((student.predict_proba(rows), student.verdict_))
    for again, verdict in found[1:]:
        np.testing.assert_allclose(again, found[0][0], atol=1e-6)
        assert verdict == found[0][1]


def test_columns_are_taken_as_they_are() -> None:
    """Without a teacher it is a blend of logistic regressions on X itself."""
    only = LinearCandidate(GoldOnly(), (Setting(1.0),))
    rows = DecisionRows(
        X, np.arange(len(X)), SMALL.y[KNOWN], np.full(len(X), True), np.full(len(X), True), None, 4
    )
    found = solve_candidates(rows, [only])[0][0].logits(X_TEST)
    wanted = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(X, Y)
    np.testing.assert_allclose(found, wanted.decision_function(X_TEST), atol=1e-2)
    student = quick().fit(X, Y)
    scaled = quick().fit(100 * X, Y)
    assert np.abs(student.coef_ - 100 * scaled.coef_).max() > 1e-2


def test_the_verdict_is_that_of_distill() -> None:
    """The same rows, folds and candidates as a linear table's, with columns already standard."""
    x = StandardScaler().fit_transform(SMALL.x[: SMALL.pool.stop]).astype(np.float32)
    known, pool = x[: len(X)], x[len(X) :]
    given = POOL | {"X_pool": pool, "teacher_probs_gold": SMALL.probs[KNOWN]}
    student = quick(folds=3).fit(known, Y, **given)
    ids = np.arange(len(x))
    labels = TeacherLabels.from_probs(ids, SMALL.probs[: len(x)], NAMES.tolist())
    # The seed of the folds is drawn from random_state.
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    distilled = distill(
        "linear",
        gold=(ids[: len(X)], known, Y),
        pool=(ids[len(X) :], pool),
        labels=labels,
        method=SLaM(),
        folds=3,
        seed=seed,
    )
    assert student.verdict_ == distilled.about["verdict"]
    shown = StandardScaler().fit(SMALL.x[: SMALL.pool.stop]).transform(X_TEST).astype(np.float32)
    np.testing.assert_allclose(
        student.predict_proba(shown), distilled.predict_proba(shown), atol=1e-3
    )


def test_too_few_rows_that_measure_the_teacher_are_refused() -> None:
    probs = TEACHER["teacher_probs_gold"].copy()
    probs[24:] = np.nan
    with pytest.raises(InputError, match="has 4 rows without NaN, too few"):
        quick().fit(X, Y, **(TEACHER | {"teacher_probs_gold": probs}))


def test_rows_the_teacher_may_have_seen_do_not_judge() -> None:
    student = quick().fit(X, Y, **TEACHER)
    right = np.mean(SMALL.probs[SMALL.val].argmax(1) == SMALL.y[SMALL.val])
    assert f"the teacher's own is {100 * right:.1f}%" in student.verdict_
    assert 0 < student.out_of_fold_score_ < 1


# -- pipelines and searches ---------------------------------------------------------------------


class Watched(SLaMClassifier):
    """Keeps what every ``fit`` was given."""

    seen: ClassVar[list[tuple[Any, ...]]] = []

    def fit(
        self, X: Any, y: Any, *, X_pool: Any = None, teacher_probs: Any = None,
        teacher_probs_gold: Any = None,
    ) -> Any:  # fmt: skip
        type(self).seen.append((X, X_pool, teacher_probs, teacher_probs_gold))
        return super().fit(
            X, y, X_pool=X_pool, teacher_probs=teacher_probs, teacher_probs_gold=teacher_probs_gold
        )


@pytest.fixture
def watched() -> Watched:
    Watched.seen.clear()
    return Watched(method="Vanilla(hard=True)", folds=2, random_state=0)


def asking(student: SLaMClassifier) -> SLaMClassifier:
    return student.set_fit_request(X_pool=True, teacher_probs=True, teacher_probs_gold=True)


@pytest.mark.parametrize("given", [TEACHER, WRAPPED], ids=["arrays", "tuples"])
@pytest.mark.usefixtures("routing")
def test_a_pipeline_transforms_the_pool_like_x(watched: Watched, given: dict[str, Any]) -> None:
    steps = [("scale", StandardScaler()), ("pca", PCA(3)), ("student", asking(watched))]
    pipe = Pipeline(steps, transform_input=["X_pool"]).fit(X, Y, **given)
    (seen,) = Watched.seen
    pool = seen[1][0] if isinstance(seen[1], tuple) else seen[1]
    np.testing.assert_array_equal(pool, pipe[:-1].transform(POOL["X_pool"]))
    assert pool.shape == (len(POOL["X_pool"]), 3)
    assert pipe.predict(X_TEST).shape == (len(X_TEST),)


@pytest.mark.usefixtures("routing")
def test_text_goes_through_tfidf_with_its_pool() -> None:
    texts, y, probs = texts_and_teacher(["the", "plot"], 3)
    steps = [("words", TfidfVectorizer()), ("student", asking(quick()))]
    pipe = Pipeline(steps, transform_input=["X_pool"])
    pipe.fit(
        texts[:40],
        y[:40],
        X_pool=(texts[40:150],),
        teacher_probs=(probs[40:150],),
        teacher_probs_gold=probs[:40],
    )
    assert pipe.score(texts[150:], y[150:]) == 1.0


def test_a_pool_that_was_not_transformed_is_refused() -> None:
    pipe = Pipeline([("pca", PCA(3)), ("student", quick())])
    with pytest.raises(InputError, match=r"3 columns like X.*transform_input"):
        pipe.fit(X, Y, **{f"student__{name}": value for name, value in TEACHER.items()})


def searched(student: SLaMClassifier, given: dict[str, Any]) -> None:
    GridSearchCV(student, {"learning_rate": [0.01]}, cv=KFold(4)).fit(X, Y, **given)


def pool_of(rows: int, wrap: bool) -> dict[str, Any]:
    problem = small_problem(pool=rows)
    given = {"X_pool": problem.x[problem.pool], "teacher_probs": problem.probs[problem.pool]}
    whole = {name: (value,) if wrap else value for name, value in given.items()}
    return whole | {"teacher_probs_gold": TEACHER["teacher_probs_gold"]}


@pytest.mark.parametrize("rows", [len(X), 3 * len(X)], ids=["equal", "unequal"])
@pytest.mark.parametrize("route", [False, True])
def test_a_search_cuts_gold_but_never_a_wrapped_pool(
    watched: Watched, rows: int, route: bool
) -> None:
    given = pool_of(rows, wrap=True)
    with sklearn.config_context(enable_metadata_routing=route):
        searched(asking(watched) if route else watched, given)
    assert [len(gold) for gold, *_ in Watched.seen] == [75, 75, 75, 75, 100]
    for gold, pool, probs, on_gold in Watched.seen:
        assert pool[0] is given["X_pool"][0]
        assert probs[0] is given["teacher_probs"][0]
        assert len(on_gold) == len(gold)


def test_a_bare_pool_of_another_length_is_not_cut_either(watched: Watched) -> None:
    searched(watched, pool_of(3 * len(X), wrap=False))
    assert {len(pool) for _, pool, *_ in Watched.seen} == {3 * len(X)}


def test_a_bare_pool_that_a_search_may_have_cut_is_told_of(watched: Watched) -> None:
    with pytest.warns(NoisyTeacherWarning, match=r"X_pool=\(X_pool,\)"):
        searched(watched, pool_of(len(X), wrap=False))


@pytest.mark.usefixtures("routing")
def test_a_search_over_a_pipeline_transforms_and_does_not_cut(watched: Watched) -> None:
    steps = [("pca", PCA(3)), ("student", asking(watched))]
    pipe = Pipeline(steps, transform_input=["X_pool"])
    given = pool_of(len(X), wrap=True)
    GridSearchCV(pipe, {"pca__n_components": [2, 3]}, cv=2).fit(X, Y, **given)
    shapes = [pool[0].shape for _, pool, *_ in Watched.seen]
    assert sorted(shapes[:-1]) == [(100, 2)] * 2 + [(100, 3)] * 2
    assert shapes[-1][0] == 100


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X_pool": POOL["X_pool"][:, :5]}, "6 columns like X, not shape .300, 5."),
        (
            {"X_pool": POOL["X_pool"][:-1]},
            r"one row per row of X_pool .*\(299, 4\), not \(300, 4\)",
        ),
        ({"X_pool": None}, "probabilities require X_pool"),
        ({"X_pool": (POOL["X_pool"],) * 2}, "a tuple of 2"),
        ({"teacher_probs": None}, "X_pool needs teacher_probs"),
        ({"teacher_probs": POOL["teacher_probs"][:, :3]}, r"\(300, 4\), not \(300, 3\)"),
        ({"teacher_probs": 2 * POOL["teacher_probs"]}, "sum"),
        ({"teacher_probs": np.full((300, 4), np.nan)}, "teacher_probs contains NaN"),
        ({"teacher_probs_gold": SMALL.probs[:7]}, r"teacher_probs_gold .*\(100, 4\), not \(7, 4\)"),
        ({"teacher_probs_gold": np.full((100, 4), np.nan)}, "no row without NaN"),
    ],
)
def test_bad_pools_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(steps=2).fit(X, Y, **(TEACHER | changes))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"student": "cubic"}, '"linear" or a function'),
        ({"student": nn.Linear(6, 3)}, r"shape \(2, 3\) .*it must be \(2, 4\)"),
        ({"student": 3}, "function .*not as 3"),
        ({"student": lambda features, classes: 3}, "torch module, not int"),
        ({"steps": 0, "student": own_student}, "steps must be at least 1"),
        ({"folds": 1}, "At least two folds"),
        ({"metric": "f1"}, "metric must be one of"),
        ({"classes": ["ant", "bee", "cat"]}, "not in classes: 'dog'"),
        ({"classes": ["ant", "ant", "bee", "cat", "dog"]}, "differ"),
        ({"learning_rate": 1e30, "student": own_student}, "lower learning_rate"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quick(**({"steps": 20} | settings)).fit(X, Y)


def test_a_method_may_be_text() -> None:
    one, two = (quick(steps=2, method=m).fit(X, Y, **TEACHER) for m in (Vanilla(), "Vanilla()"))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    with pytest.raises(InputError, match="method must be one of"):
        quick(steps=2, method=SLaM).fit(X, Y, **TEACHER)


class Frame(np.ndarray):
    """As much of a data frame as matters here: an array whose columns have names."""

    columns: tuple[object, ...]


def framed(probs: np.ndarray, columns: tuple[object, ...]) -> Frame:
    frame = probs.view(Frame)
    frame.columns = columns
    return frame


@pytest.mark.parametrize(
    ("columns", "follows"), [(NAMES[::-1], True), (range(3, -1, -1), False), ("pqrs", False)]
)
def test_columns_of_a_frame_are_found_by_name(columns: Any, follows: bool) -> None:
    """Numbers, and names that are no classes', only count the columns."""
    student = quick()
    student._encoded(Y)
    found = student._checked_probs(
        "teacher_probs", framed(POOL["teacher_probs"], tuple(columns)), len(POOL["X_pool"])
    )
    given = POOL["teacher_probs"]
    np.testing.assert_array_equal(found, given[:, ::-1] if follows else given)


def test_columns_in_another_order_are_told_of() -> None:
    turned = {name: TEACHER[name][:, ::-1] for name in ("teacher_probs", "teacher_probs_gold")}
    with pytest.warns(NoisyTeacherWarning, match="no more than chance. Are its columns"):
        quick(steps=2).fit(X, Y, **(TEACHER | turned))


def test_methods_that_need_a_pretrained_student_are_refused() -> None:
    for method in (ConfidentPruning(), Weighted()):
        with pytest.raises(InputError, match="needs a student pre-trained on gold"):
            quick(steps=2, method=method).fit(X, Y, **TEACHER)


def test_own_students_refuse_sparse_rows() -> None:
    with pytest.raises(InputError, match="dense rows"):
        quick(student=own_student).fit(sparse.csr_matrix(X), Y)


def test_fitting_leaves_torchs_randomness_alone() -> None:
    torch.manual_seed(3)
    quick(steps=2).fit(X, Y)
    after = torch.rand(1)
    torch.manual_seed(3)
    assert after == torch.rand(1)


def test_steps_are_exactly_so_many() -> None:
    for steps in (1, 11, 15, 1000):
        config = SLaMClassifier(steps=steps)._config(300)
        assert config.epochs * config.steps_per_epoch == steps
