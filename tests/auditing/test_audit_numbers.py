"""The audit's numbers against plain reference code."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from audit_teachers import calibrated, chances, flat, overconfident
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest, chi2, chi2_contingency
from sklearn.metrics import (
    confusion_matrix,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
    top_k_accuracy_score,
)

import noisyteacher
from noisyteacher.auditing import Bootstrap, Interval, audit
from noisyteacher.auditing.bootstrap import interval, pivot_interval
from noisyteacher.auditing.curves import StepFits, compare_curves, margin_auc, monotone_band
from noisyteacher.auditing.drift import compare, importance_weights
from noisyteacher.auditing.quality import measure_quality, read_val
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise, fit_step_isotonic, margin, step_value


def stored(planted, k=None):
    """V as labels, and the dense probabilities that these stand for."""
    labels = TeacherLabels.from_probs(np.arange(len(planted.y)), planted.val, k=k)
    return labels, labels.probs.astype(np.float64)


def plain_ece(sure, right, bins=15):
    total = 0.0
    for low in range(bins):
        inside = (sure > low / bins) & (sure <= (low + 1) / bins)
        if inside.any():
            total += inside.mean() * abs(sure[inside].mean() - right[inside].mean())
    return total


@pytest.mark.parametrize("k", [None, 3])
def test_scores_agree_with_scikit_learn(k):
    planted = overconfident()
    labels, probs = stored(planted, k)
    quality = measure_quality(read_val(labels, planted.y), Bootstrap(len(planted.y), 50))
    right = probs.argmax(axis=1) == planted.y
    one_hot = np.eye(5)[planted.y]
    assert quality.accuracy.value == pytest.approx(right.mean())
    for size in (2, 3):
        expected = top_k_accuracy_score(planted.y, probs, k=size)
        assert quality.top_k[size].value == pytest.approx(expected)
    assert max(quality.top_k) == (k or 5)
    scores = quality.before
    expected = log_loss(planted.y, probs / probs.sum(axis=1, keepdims=True))
    assert scores.log_loss.value == pytest.approx(expected, rel=1e-5)
    brier = ((probs - one_hot) ** 2).sum(axis=1).mean()
    assert scores.brier.value == pytest.approx(brier, rel=1e-5)
    assert scores.ece.value == pytest.approx(plain_ece(probs.max(axis=1), right), abs=1e-6)
    assert scores.overconfidence.value == pytest.approx(probs.max(axis=1).mean() - right.mean())
    table = scores.reliability
    assert sum(table.rows) == len(right)
    assert np.dot(table.rows, table.accuracy) == pytest.approx(right.sum())


@pytest.mark.parametrize("k", [None, 3])
def test_temperature_is_the_best_one(k):
    planted = overconfident()
    labels, probs = stored(planted, k)

    def at(temperature):
        raised = probs ** (1 / temperature)
        return raised / raised.sum(axis=1, keepdims=True)

    best = minimize_scalar(
        lambda t: log_loss(planted.y, at(t)), bounds=(0.2, 20), method="bounded"
    ).x
    quality = measure_quality(read_val(labels, planted.y), Bootstrap(len(planted.y), 200))
    assert quality.temperature.value == pytest.approx(best, rel=1e-3)
    if k is None:  # with an even tail no temperature gives back the chances
        assert quality.temperature.low < 3 < quality.temperature.high
    tempered = at(best)
    right = tempered.argmax(axis=1) == planted.y
    assert quality.after.log_loss.value == pytest.approx(log_loss(planted.y, tempered), rel=1e-5)
    assert quality.after.ece.value == pytest.approx(
        plain_ece(tempered.max(axis=1), right), abs=1e-3
    )
    assert quality.before.p_value < 1e-6 < quality.after.p_value


def test_temperature_interval_is_that_of_refitted_copies():
    planted = overconfident()
    labels, _ = stored(planted)
    bootstrap = Bootstrap(len(planted.y), 60, seed=3)
    ours = measure_quality(read_val(labels, planted.y), bootstrap).temperature
    refitted = []
    for weights in bootstrap.weights():
        for weight in weights:
            rows = np.repeat(np.arange(len(weight)), weight.astype(int))
            copy = TeacherLabels.from_probs(np.arange(len(rows)), planted.val[rows])
            val = read_val(copy, planted.y[rows])
            refitted.append(measure_quality(val, Bootstrap(len(rows), 50)).temperature.value)
    low, high = np.quantile(refitted, [0.025, 0.975])
    assert ours.low == pytest.approx(low, rel=0.03)
    assert ours.high == pytest.approx(high, rel=0.03)


def test_bootstrap_means_are_means_of_resampled_copies():
    values = np.random.default_rng(0).normal(size=(40, 3))
    for draws in (None, 7):
        bootstrap = Bootstrap(40, 25, seed=5, draws=draws)
        weights = np.concatenate(list(bootstrap.weights()))
        assert weights.shape == (25, 40)
        assert (weights.sum(axis=1) == (draws or 40)).all()
        copies = [
            values[np.repeat(np.arange(40), weight.astype(int))].mean(axis=0) for weight in weights
        ]
        np.testing.assert_allclose(bootstrap.means(values), copies)
        np.testing.assert_array_equal(bootstrap.means(values), bootstrap.means(values))
    assert not np.allclose(Bootstrap(40, 25, 5).means(values), Bootstrap(40, 25, 6).means(values))


def test_intervals_have_the_width_that_theory_says():
    right = (np.arange(400) < 280).astype(np.float64)
    drawn = Bootstrap(400, 2_000).means(right[:, None])[:, 0]
    for found in (interval(0.7, drawn), Interval.wilson(0.7, 400)):
        assert found.width == pytest.approx(2 * 1.96 * np.sqrt(0.7 * 0.3 / 400), rel=0.1)


def test_a_pivot_interval_undoes_the_push_of_resampling():
    drawn = np.linspace(0.1, 0.2, 101)
    found = pivot_interval(0.12, drawn)
    assert (found.low, found.high) == pytest.approx((0.24 - 0.1975, 0.24 - 0.1025))
    assert pivot_interval(0.01, drawn).low == 0.0
    assert pivot_interval(0.01, drawn).high == 0.01  # a number outside its own interval misleads


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_reweighted_fits_are_fits_of_resampled_copies(data):
    n = data.draw(st.integers(1, 12))
    x = np.array(data.draw(st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.7]), min_size=n, max_size=n)))
    right = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    counts = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any))
    fits = StepFits.of(x, right)
    rows = np.repeat(np.arange(n), counts)
    plain = fit_step_isotonic(x[rows], right[rows].astype(float))
    got = fits.fit(np.array(counts, dtype=float))
    query = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9])
    np.testing.assert_allclose(got[fits.at(query)], step_value(plain, query), atol=1e-9)


@pytest.mark.parametrize("k", [None, 3])
def test_the_pool_is_trusted_as_the_noise_model_says(k):
    planted = calibrated()
    labels, _ = stored(planted, k)
    pool = TeacherLabels.from_probs(np.arange(5_000, 9_000), planted.pool, k=k)
    numbers = audit(labels, planted.y, pool=pool, lower_bound=0.6, replicates=50).numbers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trust = TeacherNoise(lower_bound=0.6).fit(labels, planted.y).predict(pool)
        raw = TeacherNoise(lower_bound=0).fit(labels, planted.y)
        alpha = raw.predict(pool).alpha
    found = numbers.trust
    assert found.mean_alpha.value == pytest.approx(trust.alpha.mean(), rel=1e-5)
    assert found.share_at_lower_bound.value == pytest.approx(trust.share_at_lower_bound)
    worth = ((2 * np.maximum(alpha, 0.5) - 1) ** 2).sum()
    assert found.effective_labels.value == pytest.approx(worth, rel=1e-4)
    assert sum(found.k_rows.values()) == 4_000
    assert found.k_rows[2] == (trust.k == 2).sum()
    assert found.k_median == np.median(trust.k)
    assert found.unreachable_share == trust.unreachable_share
    curve = numbers.curve
    expected = raw.alpha_curve_.predict(np.array(curve.margin))
    np.testing.assert_allclose(np.maximum(curve.alpha, 1e-3), expected)
    assert np.dot(curve.pool_share, curve.margin) == pytest.approx(margin(pool).mean(), abs=0.011)
    assert (np.array(curve.low) <= curve.high).all()


def test_the_band_holds_the_true_curve_and_shrinks_with_more_rows():
    widths = []
    for n in (400, 6_400):
        rng = np.random.default_rng(n)
        x = rng.uniform(0, 1, n)
        right = rng.random(n) < 0.5 + 0.45 * x
        sure = (1 + x) / 2
        probs = np.column_stack([sure, 1 - sure])
        curve = audit(probs, np.where(right, 0, 1), replicates=200).numbers.curve
        inner = slice(10, 91)
        truth = 0.5 + 0.45 * np.array(curve.margin)[inner]
        inside = (np.array(curve.low)[inner] <= truth) & (truth <= np.array(curve.high)[inner])
        assert inside.mean() > 0.95
        widths.append(curve.band_width)
        assert 4 * n <= curve.rows_to_halve_band <= 8.1 * n
    # 16 times the rows: between n^(-1/2) and n^(-1/3).
    assert 16 ** (1 / 3) * 0.85 < widths[0] / widths[1] < 4 * 1.15


@pytest.mark.parametrize("n", [50, 200, 1_000])
@pytest.mark.parametrize(
    ("start", "rise", "steps"),
    [(0.75, 0.0, None), (0.95, 0.0, None), (0.5, 0.45, None), (0.75, 0.0, 8), (0.5, 0.45, 8)],
)
def test_the_band_holds_at_its_ends_too(n, start, rise, steps):
    """At the least, a quarter, half, three quarters and at the most; ``steps``: with ties."""
    rng = np.random.default_rng(n)
    at, trials = np.array([0.001, 0.25, 0.5, 0.75, 1.0]), 200
    held, width = np.zeros(5), np.zeros(5)
    for _ in range(trials):
        x = rng.random(n)
        if steps:
            x = np.ceil(steps * x) / steps
        low, high = monotone_band(x, rng.random(n) < start + rise * x, at)
        held += (low <= start + rise * at) & (start + rise * at <= high)
        width += high - low
    assert (held / trials >= 0.93).all()
    # Each limit is that of 2 n^(2/3) rows, over which the curve rises.
    window = min(1, 2 * n ** (-1 / 3))
    assert width[2] / trials < 5 * 0.5 / np.sqrt(n * window) + rise * window


@pytest.mark.parametrize("classes", [2, 4])
def test_the_band_of_a_flat_curve_holds_where_labels_are_most_and_least_confident(classes):
    held = np.zeros(2)
    for seed in range(30):
        planted = flat(seed, 200, classes=classes)
        curve = audit(planted.val, planted.y, pool=planted.pool, replicates=50).numbers.curve
        held += [curve.low[end] <= 0.75 <= curve.high[end] for end in (0, -1)]
        assert (np.array(curve.low) <= curve.alpha).all()
        assert (np.array(curve.alpha) <= curve.high).all()
        assert (np.diff([curve.low, curve.high]) >= 0).all()
    assert (held >= 27).all()


def test_the_band_of_a_single_margin_is_the_exact_interval():
    right = np.arange(60) % 3 > 0
    (before, low, beyond), (first, high, last) = monotone_band(
        np.full(60, 0.5), right, np.array([0.4, 0.5, 0.6])
    )
    exact = binomtest(40, 60).proportion_ci()
    assert (before, low, beyond) == pytest.approx((0, exact.low, exact.low))
    assert (first, high, last) == pytest.approx((exact.high, exact.high, 1))


def test_the_band_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    x, right = rng.integers(0, 30, 400) / 30, rng.random(400) < 0.7
    at, order = np.linspace(-0.1, 1.1, 41), rng.permutation(400)
    np.testing.assert_array_equal(
        monotone_band(x, right, at), monotone_band(x[order], right[order], at)
    )


@pytest.mark.parametrize("decimals", [1, 8])
def test_the_auc_of_margins_agrees_with_scikit_learn(decimals):
    rng = np.random.default_rng(0)
    x = rng.random(200).round(decimals)
    right = rng.random(200) < 0.5 + 0.4 * x
    found = margin_auc(x, right)
    assert found.value == pytest.approx(roc_auc_score(right, x))
    assert found.low < found.value < found.high
    assert margin_auc(x, np.ones(200, bool)) is None
    assert margin_auc(x, np.zeros(200, bool)) is None


def test_the_interval_of_the_auc_holds():
    rng = np.random.default_rng(0)
    # Of margins that are uniform and right with chance 0.75 - rise / 2 + rise * margin.
    for rise in (0.0, 0.4):
        truth, held = 0.5 + rise / (12 * 0.75 * 0.25), 0
        for _ in range(300):
            x = rng.random(200)
            found = margin_auc(x, rng.random(200) < 0.75 - rise / 2 + rise * x)
            held += found.low <= truth <= found.high
        assert 0.92 <= held / 300 <= 0.98


def test_distance_is_the_largest_gap_of_the_distribution_functions():
    rng = np.random.default_rng(0)
    val, pool = rng.uniform(0, 1, 300), rng.uniform(0.2, 1, 2_000)
    every = np.concatenate([val, pool])
    gaps = np.array([(val <= t).mean() - (pool <= t).mean() for t in every])
    found = compare(val, pool)
    assert found.distance == pytest.approx(np.abs(gaps).max())
    assert found.at == every[np.abs(gaps).argmax()]
    assert found.val_is_lower
    assert found.p_value < 1e-6
    assert compare(val, rng.uniform(0, 1, 2_000)).p_value > 0.001


def test_importance_weights_give_v_the_margins_of_the_pool():
    rng = np.random.default_rng(1)
    val, pool = rng.uniform(0, 1, 4_000), rng.beta(3, 1, 20_000)
    weight = importance_weights(val, pool)
    assert weight.mean() == pytest.approx(1, abs=0.01)
    assert np.average(val, weights=weight) == pytest.approx(pool.mean(), abs=0.01)
    right = rng.random(4_000) < val
    assert np.average(right, weights=weight) == pytest.approx(pool.mean(), abs=0.03)


def test_predicted_classes_are_compared_as_scipy_does():
    planted = calibrated(n=400)
    drift = audit(planted.val, planted.y, pool=planted.pool, replicates=50).numbers.drift
    counts = [np.bincount(p.argmax(axis=1), minlength=5) for p in (planted.val, planted.pool)]
    assert drift.classes_p_value == pytest.approx(chi2_contingency(counts).pvalue)


def test_classes_agree_with_scikit_learn():
    planted = calibrated()
    names = [f"c{label}" for label in range(5)]
    labels = TeacherLabels.from_probs(np.arange(1_000), planted.val, names)
    found = audit(labels, planted.y, replicates=50).numbers.per_class.classes
    said = labels.hard
    confused = confusion_matrix(planted.y, said)
    np.fill_diagonal(confused, 0)
    np.testing.assert_allclose(
        [c.precision for c in found], precision_score(planted.y, said, average=None)
    )
    np.testing.assert_allclose(
        [c.recall for c in found], recall_score(planted.y, said, average=None)
    )
    assert [c.confused_with for c in found] == [names[c] for c in confused.argmax(axis=0)]
    assert [c.gold_rows for c in found] == np.bincount(planted.y).tolist()
    assert sum(c.pool_share for c in found) == pytest.approx(1)


def test_two_classes_are_compared_as_mantel_and_haenszel_do():
    rng = np.random.default_rng(2)
    _, probs, y = chances(rng, 500, classes=2)
    labels = TeacherLabels.from_probs(np.arange(500), probs)
    val = read_val(labels, y)
    first = val.predicted == 0
    excess = variance = 0.0
    for rows in np.array_split(np.argsort(val.margin, kind="stable"), 10):
        n, a, r = len(rows), first[rows].sum(), val.right[rows].sum()
        excess += (first & val.right)[rows].sum() - a * r / n
        variance += a * (n - a) * r * (n - r) / (n**2 * (n - 1))
    found = compare_curves(val)
    assert found.tested == 2
    assert found.p_value == pytest.approx(chi2.sf(excess**2 / variance, 1))


def test_the_test_of_curves_keeps_its_level():
    low = sum(
        compare_curves(read_val(stored(planted)[0], planted.y)).p_value < 0.1
        for planted in (calibrated(seed, 500) for seed in range(80))
    )
    assert 1 <= low <= 18  # binomial(80, 0.1): 8 on average


def test_labels_that_are_right_half_of_the_time_are_at_the_lower_bound():
    trust = audit(np.tile([0.7, 0.3], (60, 1)), np.arange(60) % 2, replicates=50).numbers.trust
    assert trust.share_at_lower_bound.value == 1
    assert (trust.mean_alpha.value, trust.effective_labels.value) == (0.5, 0)


def test_a_name_means_one_thing_in_noise():
    files = (Path(noisyteacher.__file__).parent / "noise").rglob("*.py")
    made = [node for file in files for node in ast.parse(file.read_text()).body]
    names = [n.name for n in made if isinstance(n, ast.ClassDef | ast.FunctionDef)]
    double = [name for name, times in Counter(names).items() if times > 1 and name[0] != "_"]
    assert not double
