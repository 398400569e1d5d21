"""Linear students solved to convergence equal scikit-learn's, whatever the features' form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    Calibrated,
    Consistency,
    ForwardCorrection,
    GoldOnly,
    Method,
    Rows,
    SLaM,
    TaylorCE,
    Vanilla,
    Weighted,
    fit_and_prepare,
)
from noisyteacher.train import solver
from noisyteacher.train.solver import Design, LinearFit, is_solvable, solve_linear


def made(classes: int, rows: int = 240, width: int = 12, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Features with uneven columns and a mean, and true classes that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width)) * np.geomspace(0.2, 3, width) + 1.5
    scores = (x - 1.5) @ rng.normal(size=(width, classes)) + rng.gumbel(size=(rows, classes))
    return x, scores.argmax(1)


def problem(
    classes: int, method: Method, gold: int = 80
) -> tuple[np.ndarray, np.ndarray, Rows, TeacherLabels]:
    x, y = made(classes)
    rng = np.random.default_rng(1)
    said = np.where(rng.random(len(y)) < 0.75, y, rng.integers(0, classes, len(y)))
    probs = rng.dirichlet(np.ones(classes), len(y)) * 0.4
    probs[np.arange(len(y)), said] += 0.6
    labels = TeacherLabels.from_probs(np.arange(len(y)), probs.astype(np.float32))
    known = np.where(np.arange(len(y)) < gold, y, -1)
    rows = Rows(np.arange(len(y)), known, np.arange(gold), y[:gold], classes)
    return x, y, rows, labels


@pytest.mark.parametrize("strength", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_gold_only_equals_scikit_learn(classes: int, strength: float, form: str) -> None:
    x, y, rows, _ = problem(classes, GoldOnly(), gold=240)
    features = csr_matrix(x) if form == "sparse" else x
    reference = LogisticRegression(C=strength, tol=1e-10, max_iter=100_000).fit(x, y)
    prepared = fit_and_prepare(GoldOnly(), rows, None)
    fit = solve_linear(features, GoldOnly(), prepared.columns, classes, strength=strength)
    told = softmax(fit.logits(features), axis=1)
    assert np.abs(told - reference.predict_proba(x)).max() < 1e-3


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_some_of_the_rows_are_those_of_the_columns(form: str) -> None:
    x, y, rows, _ = problem(3, GoldOnly())
    known = np.arange(len(y)) % 3 == 1
    some = Rows(rows.ids, np.where(known, y, -1), rows.val_ids, rows.val_y, 3)
    reference = LogisticRegression(C=1.0, tol=1e-10, max_iter=100_000).fit(x[known], y[known])
    columns = fit_and_prepare(GoldOnly(), some, None).columns
    features = csr_matrix(x) if form == "sparse" else x
    fit = solve_linear(features, GoldOnly(), columns, 3, strength=1.0)
    assert np.abs(softmax(fit.logits(x), 1) - reference.predict_proba(x)).max() < 1e-3


@pytest.mark.parametrize("method", [Vanilla(hard=True), Vanilla(), TaylorCE(2), SLaM()])
@pytest.mark.parametrize("classes", [2, 4])
def test_sparse_and_dense_features_give_the_same_student(classes: int, method: Method) -> None:
    x, _, rows, labels = problem(classes, method)
    columns = fit_and_prepare(method, rows, labels).columns
    dense, sparse = (
        solve_linear(features, method, columns, classes, strength=0.3, tolerance=1e-7)
        for features in (x, csr_matrix(x))
    )
    told, again = softmax(dense.logits(x), 1), softmax(sparse.logits(x), 1)
    np.testing.assert_allclose(told, again, atol=2e-4)


@pytest.mark.parametrize("method", [GoldOnly(), SLaM()])
def test_columns_without_entries_change_nothing_and_get_no_weight(method: Method) -> None:
    x, _, rows, labels = problem(4, method)
    columns = fit_and_prepare(method, rows, labels).columns
    places = np.array([0, 2, 3, 5, 7, 8, 11, 12, 13, 17, 18, 19])
    wide = np.zeros((len(x), 20))
    wide[:, places] = x
    told = {}
    for name, features in (("as it is", x), ("wide", wide)):
        start = LinearFit(np.ones((4, features.shape[1])), np.zeros(4))
        told[name] = solve_linear(
            csr_matrix(features), method, columns, 4, strength=0.3, tolerance=1e-7, start=start
        )
    found, empty = told["wide"].weight, np.setdiff1d(np.arange(20), places)
    np.testing.assert_allclose(found[:, places], told["as it is"].weight, atol=1e-4)
    assert (found[:, empty] == 0).all()


@pytest.mark.parametrize(
    "method", [Vanilla(), TaylorCE(2), SLaM(), SLaM(hard=True), ForwardCorrection()]
)
def test_a_solution_is_a_minimum_of_the_methods_own_loss(method: Method) -> None:
    """Checked with plain gradient steps on a second, direct formulation of the objective."""
    classes, strength, gold_weight = 3, 0.5, 4.0
    x, _, rows, labels = problem(classes, method)
    columns = fit_and_prepare(method, rows, labels).columns
    fit = solve_linear(
        x, method, columns, classes, strength=strength, gold_weight=gold_weight, tolerance=1e-8
    )
    weight = torch.tensor(fit.weight, requires_grad=True)
    bias = torch.tensor(fit.bias, requires_grad=True)
    losses = method.example_losses(  # type: ignore[attr-defined]
        torch.tensor(x) @ weight.T + bias,
        _batch(columns),
    )
    rated = torch.where(columns.y >= 0, gold_weight, 1.0)
    (losses * rated).sum().add((weight**2).sum() / (2 * strength)).backward()
    assert weight.grad is not None
    assert bias.grad is not None
    scale = float(rated.sum())
    assert float(weight.grad.abs().max()) / scale < 1e-5
    assert float(bias.grad.abs().max()) / scale < 1e-5


def _batch(columns):  # type: ignore[no-untyped-def]
    from noisyteacher.methods import Batch

    return Batch(columns.y, columns.weight, columns.values, columns.constants)


def test_gold_weight_equals_repeated_rows() -> None:
    x, _, rows, labels = problem(3, Vanilla())
    columns = fit_and_prepare(Vanilla(), rows, labels).columns
    weighted = solve_linear(x, Vanilla(), columns, 3, strength=1.0, gold_weight=3.0, tolerance=1e-8)
    order = np.concatenate([np.arange(len(x)), *[np.flatnonzero(rows.gold)] * 2])
    again = Rows(np.arange(len(order)), rows.y[order], rows.val_ids, rows.val_y, 3)
    probs = labels.probs[order]
    more = TeacherLabels.from_probs(np.arange(len(order)), probs)
    repeated = solve_linear(
        x[order],
        Vanilla(),
        fit_and_prepare(Vanilla(), again, more).columns,
        3,
        strength=1.0,
        tolerance=1e-8,
    )
    np.testing.assert_allclose(
        softmax(weighted.logits(x), 1), softmax(repeated.logits(x), 1), atol=1e-3
    )


def test_a_start_changes_the_way_and_not_the_student() -> None:
    x, _, rows, labels = problem(4, Vanilla())
    columns = fit_and_prepare(Vanilla(), rows, labels).columns
    cold = solve_linear(x, Vanilla(), columns, 4, strength=1.0, tolerance=1e-8)
    far = LinearFit(np.ones((4, x.shape[1])) * np.arange(4)[:, None], np.arange(4.0))
    warm = solve_linear(x, Vanilla(), columns, 4, strength=1.0, start=far, tolerance=1e-8)
    np.testing.assert_allclose(softmax(cold.logits(x), 1), softmax(warm.logits(x), 1), atol=1e-4)


def test_coordinates_of_the_search_are_undone() -> None:
    x, _ = made(3)
    design = Design.of(x)
    fit = LinearFit(np.random.default_rng(0).normal(size=(3, x.shape[1])), np.zeros(3))
    there = design.inside(fit)
    np.testing.assert_allclose(design.x @ there.weight.T + there.bias, fit.logits(x), atol=1e-9)
    np.testing.assert_allclose(design.outside(there).weight, fit.weight, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_search_that_starts_at_the_solution_stays_there(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _, rows, labels = problem(classes, SLaM())
    columns = fit_and_prepare(SLaM(), rows, labels).columns
    empty = np.hstack([np.zeros((len(x), 2)), x])
    for features in (x, csr_matrix(x), csr_matrix(empty)):
        found = solve_linear(features, SLaM(), columns, classes, strength=1.0, tolerance=1e-7)
        monkeypatch.setattr(solver, "MAX_ITERATIONS", 0)
        again = solve_linear(features, SLaM(), columns, classes, strength=1.0, start=found)
        monkeypatch.undo()
        np.testing.assert_allclose(
            softmax(again.logits(features), 1), softmax(found.logits(features), 1), atol=1e-6
        )


def test_what_can_be_solved() -> None:
    assert is_solvable(SLaM())
    assert is_solvable(Calibrated(TaylorCE(2)))
    assert not is_solvable(Consistency(SLaM()))  # needs a second view
    assert not is_solvable(Weighted())  # renews its weights between epochs


def test_a_strength_of_nothing_is_refused() -> None:
    x, _, rows, labels = problem(3, Vanilla())
    columns = fit_and_prepare(Vanilla(), rows, labels).columns
    with pytest.raises(InputError, match="strength must be above 0, not 0"):
        solve_linear(x, Vanilla(), columns, 3, strength=0)
