"""The alpha curve with its band, what it says of the pool, and how it differs between classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import isotonic_regression
from scipy.stats import beta, chi2, norm, rankdata

from noisyteacher.auditing.bootstrap import LEVEL, Bootstrap, interval
from noisyteacher.auditing.quality import RowSummary, ValReading
from noisyteacher.choose.decision import Interval
from noisyteacher.noise.isotonic import fit_step_isotonic, step_value
from noisyteacher.noise.teacher_noise import MIN_CLASS_ROWS

_GRID_POINTS = 101
# The band shrinks like its windows, n^(-1/3), and like n^(-1/2) where all rows have one margin.
_SLOWEST, _FASTEST = 1 / 3, 1 / 2
_FEW_GOLD_ROWS = 10
_ROWS_PER_STRATUM = 50
_FEWEST_ROWS = 10  # of a predicted class, to call it broken
_BROKEN_BY = 0.15  # less right than its margins promise
_BROKEN_P = 0.01  # by chance, over all classes together


@dataclass(frozen=True)
class ValGroup:
    """Rows of V with neighboring margins."""

    rows: int
    margin: float  # their mean
    accuracy: float


@dataclass(frozen=True)
class AlphaCurve:
    """alpha(x) against the margin, before the lower bound, with a pointwise 95% band.

    ``monotone_band`` says how the band is made; it also contains the estimate.
    """

    margin: list[float]  # percentiles of the pool's margins
    alpha: list[float]
    low: list[float]
    high: list[float]
    pool_share: list[float]  # of the pool, at margins up to this one and above the one before
    val_groups: list[ValGroup]  # what the curve was fitted to, up to 20 groups
    band_width: float  # mean over the pool of high - low
    rows_to_halve_band: int  # how many rows V should have for a band half as wide
    auc: Interval | None  # whether margins tell right labels from wrong ones, as in margin_auc


@dataclass(frozen=True)
class PoolTrust:
    """How much of the pool the noise model trusts."""

    rows: int
    mean_alpha: Interval
    share_at_lower_bound: Interval
    effective_labels: Interval  # sum of (2 alpha - 1)^2, in gold labels
    k_rows: dict[int, int]  # k(x) -> pool rows that have it
    k_median: float
    unreachable_share: float  # of rows with k = L because k(x) lay beyond the stored classes


@dataclass(frozen=True)
class StepFits:
    """Isotonic fits to reweighted copies of V, all on the knots of V itself."""

    knots: Float[np.ndarray, " m"]
    knot: Int[np.ndarray, " n"]  # of each row
    right: Float[np.ndarray, " n"]

    @classmethod
    def of(cls, margin: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> StepFits:
        knots, knot = np.unique(margin, return_inverse=True)
        return cls(knots, knot, right.astype(np.float64))

    def fit(self, weight: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
        """The step function's value at every knot, also at those whose rows weigh nothing."""
        total = np.bincount(self.knot, weight, len(self.knots))
        hits = np.bincount(self.knot, weight * self.right, len(self.knots))
        seen = total > 0
        fitted = isotonic_regression(hits[seen] / total[seen], weights=total[seen]).x
        # A query takes the value at the next knot that is there, the last one beyond the end.
        following = np.cumsum(seen, dtype=np.int64) - seen.astype(np.int64)
        return np.asarray(fitted[np.minimum(following, len(fitted) - 1)])

    def at(self, margin: Float[np.ndarray, " q"]) -> Int[np.ndarray, " q"]:
        """The knot whose value each margin takes."""
        return np.minimum(np.searchsorted(self.knots, margin), len(self.knots) - 1)


def effective_labels(alpha: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """What a teacher label is worth in gold labels: (2 alpha - 1)^2, and 0 below 1/2.

    Of two equally likely classes, a label that names the right one with chance alpha carries this
    share of a gold label's Fisher information: nothing at 1/2, where SLaM ignores it, all at 1.
    """
    return np.asarray((2 * np.maximum(alpha, 0.5) - 1) ** 2)


def margin_grid(pool_margin: Float[np.ndarray, " p"]) -> Float[np.ndarray, " g"]:
    """Where curves are shown: at the pool's percentiles, from its lowest margin to its highest."""
    shares = np.linspace(0.0, 1.0, _GRID_POINTS)
    return np.unique(np.quantile(pool_margin, shares, method="higher"))


def fit_alpha_curve(
    val: ValReading, pool: RowSummary, lower_bound: float, bootstrap: Bootstrap
) -> tuple[AlphaCurve, dict[str, Interval]]:
    """The curve, and the intervals of PoolTrust's numbers by name."""
    margin, right, pool_margin = val.margin, val.right, pool.margin
    fits = StepFits.of(margin, right)
    grid = margin_grid(pool_margin)
    pool_at_knot = np.bincount(fits.at(pool_margin), minlength=len(fits.knots))
    pool_share = np.bincount(np.searchsorted(grid, pool_margin)) / len(pool_margin)
    at_grid = fits.at(grid)

    def pool_numbers(value: Float[np.ndarray, " m"]) -> list[float]:
        alpha = np.maximum(value, lower_bound)
        worth = effective_labels(value) @ pool_at_knot
        bound = pool_at_knot[value <= lower_bound].sum() / len(pool_margin)
        return [float(alpha @ pool_at_knot / len(pool_margin)), float(bound), float(worth)]

    value = fits.fit(np.ones(len(margin)))
    drawn_numbers = [
        pool_numbers(fits.fit(weight)) for weights in bootstrap.weights() for weight in weights
    ]
    low, high = monotone_band(margin, right, grid)
    low, high = np.minimum(low, value[at_grid]), np.maximum(high, value[at_grid])
    width = float((high - low) @ pool_share)
    names = ("mean_alpha", "share_at_lower_bound", "effective_labels")
    numbers = {
        name: interval(now, draws)
        for name, now, draws in zip(
            names, pool_numbers(value), np.array(drawn_numbers).T, strict=True
        )
    }
    wanted = len(margin) * _growth_to_halve(margin, right, grid, pool_share)
    curve = AlphaCurve(
        margin=grid.tolist(),
        alpha=value[at_grid].tolist(),
        low=low.tolist(),
        high=high.tolist(),
        pool_share=pool_share.tolist(),
        val_groups=_grouped(margin, right),
        band_width=width,
        rows_to_halve_band=int(float(f"{wanted:.1e}")),  # two digits
        auc=margin_auc(margin, right),
    )
    return curve, numbers


def monotone_band(
    margin: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"], at: Float[np.ndarray, " g"]
) -> Float[np.ndarray, "2 g"]:
    """Pointwise 95% limits at increasing margins, if the chance to be right never falls with them.

    Labels of smaller margins are then right no more often, so the lower limit for a window of rows
    that ends at a margin holds at this margin too; the upper limit is that of a window that begins
    there. Both are Clopper and Pearson's. A window has 2 n^(2/3) rows, which balances the spread of
    their mean with the rise of the curve within them. It has fewer near the ends, where a limit is
    therefore far away, and more where margins are equal, because it takes all rows of a margin or
    none. Isotonic regression of the limits makes them non-decreasing. A running maximum of the
    lower limit and minimum of the upper one would be narrower, but would hold too rarely, because
    they pick the most extreme of many windows.
    """
    order = np.argsort(margin)
    margin, rows = margin[order], len(margin)
    hits = np.concatenate([[0], np.cumsum(right[order])])
    window = min(rows, int(np.ceil(2 * rows ** (2 / 3))))
    stop = np.searchsorted(margin, at, side="right")
    start = np.searchsorted(margin, margin[np.maximum(stop - window, 0)])
    low = _exact_limit((1 - LEVEL) / 2, hits[stop] - hits[start], stop - start)
    start = np.searchsorted(margin, at)
    stop = np.searchsorted(margin, margin[np.minimum(start + window, rows) - 1], side="right")
    wrong = stop - start - (hits[stop] - hits[start])
    high = 1 - _exact_limit((1 - LEVEL) / 2, wrong, stop - start)
    return np.stack([isotonic_regression(limit).x for limit in (low, high)])


def _exact_limit(
    level: float, hits: Int[np.ndarray, " g"], rows: Int[np.ndarray, " g"]
) -> Float[np.ndarray, " g"]:
    """Clopper and Pearson's lower limit of a share; 0 without hits."""
    limit = beta.ppf(level, np.maximum(hits, 1), rows - np.maximum(hits, 1) + 1)
    return np.where(hits > 0, limit, 0.0)


def _growth_to_halve(
    margin: Float[np.ndarray, " n"],
    right: Bool[np.ndarray, " n"],
    grid: Float[np.ndarray, " g"],
    pool_share: Float[np.ndarray, " g"],
) -> float:
    """How many times larger V should be, from how much wider the bands of its quarters are."""

    def width(rows: Int[np.ndarray, " m"]) -> float:
        low, high = monotone_band(margin[rows], right[rows], grid)
        return float((high - low) @ pool_share)

    order = np.argsort(margin, kind="stable")
    quarters = [width(order[first::4]) for first in range(min(4, len(order)))]
    fewer, whole = float(np.mean(quarters)), width(order)
    # Limits cross where the teacher is right less often the surer it is; then they tell no rate.
    rate = np.log(fewer / whole) / np.log(4) if min(fewer, whole) > 0 else _SLOWEST
    return float(2 ** (1 / np.clip(rate, _SLOWEST, _FASTEST)))


def margin_auc(margin: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> Interval | None:
    """The share of pairs of a right and a wrong label in which the right one's margin is larger.

    The area under the ROC curve: 0.5 where margins tell nothing; None where all labels are right
    or all are wrong. The interval is Wilson's for as many rows as would vary as much as the
    statistic of Mann and Whitney does where margins tell nothing.
    """
    hits, rows = int(right.sum()), len(right)
    wrong = rows - hits
    if not hits or not wrong:
        return None
    above = rankdata(margin)[right].sum() - hits * (hits + 1) / 2
    as_many = max(1, round(3 * hits * wrong / (rows + 1)))
    return Interval.wilson(float(above / (hits * wrong)), as_many)


def _grouped(margin: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> list[ValGroup]:
    groups = np.array_split(np.argsort(margin, kind="stable"), min(20, max(1, len(margin) // 10)))
    return [
        ValGroup(len(rows), float(margin[rows].mean()), float(right[rows].mean()))
        for rows in groups
    ]


# -- classes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassReport:
    """One class on V and in the pool; None where there are no rows to tell."""

    name: str
    gold_rows: int
    predicted_rows: int  # rows of V that the teacher gives this class
    precision: float | None  # how often it is right when it says so
    recall: float | None  # how much of the class it finds
    expected_precision: float | None  # what the margins promise, all classes taken together
    confused_with: str | None  # what its wrong answers most often are in truth
    gold_share: float  # of V
    predicted_share: float  # of V
    pool_share: float  # of the pool's predictions
    broken: bool  # much less right than its margins promise
    alpha: list[float] | None  # its own alpha curve at the grid of margins, given rows enough


@dataclass(frozen=True)
class ClassCurves:
    """Whether alpha depends on the class that the teacher names, and not on the margin alone.

    The generalized Cochran, Mantel and Haenszel test of right answers against predicted classes,
    within groups of neighboring margins. Classes with fewer than 50 rows are tested as one.
    """

    tested: int  # classes with rows enough for a curve of their own
    p_value: float | None  # None with nothing to compare
    effect: float  # how far accuracies are from what margins promise, less what chance explains


@dataclass(frozen=True)
class PerClass:
    """All classes, and the test of their curves."""

    classes: list[ClassReport]
    curves: ClassCurves
    few_gold: list[str]  # classes with fewer than 10 rows in V
    few_predicted: list[str]  # classes with fewer than 50 predicted rows: no curve of their own
    never_predicted: list[str]  # classes of V that the teacher never names on V


@dataclass(frozen=True)
class _Strata:
    """Rows of V in strata of neighboring margins, by group."""

    rows: Float[np.ndarray, "s c"]
    excess: Float[np.ndarray, " c"]  # right answers beyond each stratum's share of them
    chance: Float[np.ndarray, " s"]  # scale of its covariance, were it drawn regardless of groups

    @classmethod
    def of(cls, val: ValReading, group: Int[np.ndarray, " n"], groups: int) -> _Strata:
        strata = int(np.clip(len(val) // _ROWS_PER_STRATUM, 1, 50))
        parts = np.array_split(np.argsort(val.margin, kind="stable"), strata)
        rows = np.array([np.bincount(group[part], minlength=groups) for part in parts], float)
        hits, n = np.array([val.right[part].sum() for part in parts]), rows.sum(axis=1)
        excess = np.bincount(group, val.right, groups) - (hits / n) @ rows
        return cls(rows, excess, hits * (n - hits) / (n**2 * np.maximum(1, n - 1)))

    @property
    def variance(self) -> Float[np.ndarray, " c"]:
        size = self.rows.sum(axis=1, keepdims=True)
        return np.asarray(self.chance @ (self.rows * (size - self.rows)))

    @property
    def covariance(self) -> Float[np.ndarray, "c c"]:
        within = np.diag((self.chance * self.rows.sum(axis=1)) @ self.rows)
        return np.asarray(within - (self.chance * self.rows.T) @ self.rows)


def report_classes(val: ValReading, pool: RowSummary, names: Sequence[str]) -> PerClass:
    """Report each class; ``names`` are all L of them."""
    count = partial(np.bincount, minlength=len(names))
    gold, predicted, hits = count(val.y), count(val.predicted), count(val.y[val.right])
    shares = [gold / len(val), predicted / len(val), count(pool.predicted) / len(pool)]
    strata = _Strata.of(val, val.predicted, len(names))
    broken, confused = _broken(strata, predicted), _most_confused(val, len(names))
    grid = margin_grid(pool.margin)
    reports = []
    for c, name in enumerate(names):
        said, true, right = int(predicted[c]), int(gold[c]), int(hits[c])
        gold_share, predicted_share, pool_share = (float(share[c]) for share in shares)
        reports.append(
            ClassReport(
                name=name,
                gold_rows=true,
                predicted_rows=said,
                precision=right / said if said else None,
                recall=right / true if true else None,
                expected_precision=float((right - strata.excess[c]) / said) if said else None,
                confused_with=names[confused[c]] if confused[c] >= 0 else None,
                gold_share=gold_share,
                predicted_share=predicted_share,
                pool_share=pool_share,
                broken=bool(broken[c]),
                alpha=_own_curve(val, c, grid) if said >= MIN_CLASS_ROWS else None,
            )
        )
    return PerClass(
        classes=reports,
        curves=compare_curves(val),
        few_gold=[r.name for r in reports if r.gold_rows < _FEW_GOLD_ROWS],
        few_predicted=[r.name for r in reports if r.predicted_rows < MIN_CLASS_ROWS],
        never_predicted=[r.name for r in reports if r.gold_rows and not r.predicted_rows],
    )


def compare_curves(val: ValReading) -> ClassCurves:
    """Test whether right answers depend on the predicted class at equal margins."""
    predicted = np.bincount(val.predicted, minlength=val.num_classes)
    enough = predicted >= MIN_CLASS_ROWS
    group = np.where(enough, np.cumsum(enough) - 1, enough.sum())[val.predicted]
    groups = int(enough.sum()) + bool((predicted[~enough] > 0).any())
    strata = _Strata.of(val, group, groups)
    excess, variance = strata.excess, strata.variance
    if groups < 2 or not variance.any():
        return ClassCurves(int(enough.sum()), None, 0.0)
    inverse = np.linalg.pinv(strata.covariance, rcond=1e-10, hermitian=True)
    # Squared differences are too large by their variance, on average.
    squared = (excess**2 - variance) / np.bincount(group, minlength=groups)
    effect = float(np.sqrt(max(0.0, squared.sum() / len(val))))
    p_value = float(chi2.sf(float(excess @ inverse @ excess), groups - 1))
    return ClassCurves(int(enough.sum()), p_value, effect)


def _broken(strata: _Strata, rows: Int[np.ndarray, " c"]) -> Bool[np.ndarray, " c"]:
    """Far less right than the margins promise, and not by chance."""
    enough = rows >= _FEWEST_ROWS
    worst = norm.ppf(_BROKEN_P / max(1, int(enough.sum())))
    far = strata.excess < -_BROKEN_BY * rows
    return np.asarray(enough & far & (strata.excess < worst * np.sqrt(strata.variance)))


def _most_confused(val: ValReading, classes: int) -> Int[np.ndarray, " c"]:
    """The truth behind most wrong answers of each predicted class; -1 where none is wrong."""
    wrong = ~val.right
    pair, count = np.unique(val.predicted[wrong] * classes + val.y[wrong], return_counts=True)
    most = np.full(classes, -1)
    order = np.lexsort((-pair, count))  # the largest comes last and stays; of equal, the lower
    most[pair[order] // classes] = pair[order] % classes
    return most


def _own_curve(val: ValReading, label: int, grid: Float[np.ndarray, " g"]) -> list[float]:
    own = val.predicted == label
    curve = fit_step_isotonic(val.margin[own], val.right[own].astype(np.float64))
    values: list[float] = step_value(curve, grid).tolist()
    return values
