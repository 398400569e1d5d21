"""Teachers have favourites: accuracy, curves and shares of each class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import chi2, norm

from noisyteacher.auditing.curve import margin_grid
from noisyteacher.auditing.reading import RowSummary, ValReading
from noisyteacher.noise.isotonic import fit_step_isotonic, step_value
from noisyteacher.noise.teacher import MIN_CLASS_ROWS

FEW_GOLD_ROWS = 10
_ROWS_PER_STRATUM = 50
_FEWEST_ROWS = 10  # of a predicted class, to call it broken
_BROKEN_BY = 0.15  # less right than its margins promise
_BROKEN_P = 0.01  # by chance, over all classes together


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

    The generalised Cochran, Mantel and Haenszel test of right answers against predicted classes,
    within groups of neighbouring margins. Classes with fewer than 50 rows are tested as one.
    """

    tested: int  # classes with rows enough for a curve of their own
    p_value: float | None  # None with nothing to compare
    effect: float  # how far a class's accuracy is from what margins promise, chance taken off


@dataclass(frozen=True)
class PerClass:
    """All classes, and the test of their curves."""

    classes: list[ClassReport]
    curves: ClassCurves
    few_gold: list[str]  # classes with fewer than 10 rows in V
    few_predicted: list[str]  # classes with fewer than 50 predicted rows: no curve of their own
    never_predicted: list[str]  # classes of V that the teacher never names on V


@dataclass(frozen=True)
class _Stratum:
    """Rows with neighbouring margins, by group."""

    rows: Float[np.ndarray, " c"]
    excess: Float[np.ndarray, " c"]  # right answers beyond the stratum's share of them
    chance: float  # scale of the excess's covariance, were it drawn without regard to groups

    @property
    def variance(self) -> Float[np.ndarray, " c"]:
        return np.asarray(self.chance * self.rows * (self.rows.sum() - self.rows))

    @property
    def covariance(self) -> Float[np.ndarray, "c c"]:
        both = self.rows.sum() * np.diag(self.rows) - np.outer(self.rows, self.rows)
        return np.asarray(self.chance * both)


def look_at_classes(val: ValReading, pool: RowSummary, names: Sequence[str]) -> PerClass:
    """Report each class; ``names`` are all L of them."""
    gold = np.bincount(val.y, minlength=len(names))
    predicted = np.bincount(val.predicted, minlength=len(names))
    never = [n for n, g, p in zip(names, gold, predicted, strict=True) if g > 0 and p == 0]
    return PerClass(
        classes=_reports(val, pool, names, gold, predicted),
        curves=compare_curves(val),
        few_gold=[n for n, g in zip(names, gold, strict=True) if g < FEW_GOLD_ROWS],
        few_predicted=[n for n, p in zip(names, predicted, strict=True) if p < MIN_CLASS_ROWS],
        never_predicted=never,
    )


def compare_curves(val: ValReading) -> ClassCurves:
    """Test whether right answers depend on the predicted class at equal margins."""
    predicted = np.bincount(val.predicted, minlength=val.num_classes)
    enough = predicted >= MIN_CLASS_ROWS
    group = np.where(enough, np.cumsum(enough) - 1, enough.sum())[val.predicted]
    groups = int(enough.sum()) + bool((predicted[~enough] > 0).any())
    excess, covariance = np.zeros(groups), np.zeros((groups, groups))
    for stratum in _strata(val, group, groups):
        excess += stratum.excess
        covariance += stratum.covariance
    variance = np.diag(covariance)
    if groups < 2 or not variance.any():
        return ClassCurves(int(enough.sum()), None, 0.0)
    statistic = float(excess @ np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) @ excess)
    # Squared differences are too large by their variance, on average.
    squared = (excess**2 - variance) / np.bincount(group, minlength=groups)
    effect = float(np.sqrt(max(0.0, squared.sum() / len(val))))
    return ClassCurves(int(enough.sum()), float(chi2.sf(statistic, groups - 1)), effect)


def _strata(val: ValReading, group: Int[np.ndarray, " n"], groups: int) -> Iterator[_Stratum]:
    strata = np.clip(len(val) // _ROWS_PER_STRATUM, 1, 50)
    for rows in np.array_split(np.argsort(val.margin, kind="stable"), strata):
        n, hits = len(rows), int(val.right[rows].sum())
        count = np.bincount(group[rows], minlength=groups).astype(np.float64)
        excess = np.bincount(group[rows], val.right[rows], groups) - count * hits / n
        yield _Stratum(count, excess, hits * (n - hits) / (n**2 * max(1, n - 1)))


def _reports(
    val: ValReading,
    pool: RowSummary,
    names: Sequence[str],
    gold: Int[np.ndarray, " c"],
    predicted: Int[np.ndarray, " c"],
) -> list[ClassReport]:
    hits = np.bincount(val.y[val.right], minlength=len(names))
    excess, variance = np.zeros(len(names)), np.zeros(len(names))
    for stratum in _strata(val, val.predicted, len(names)):
        excess += stratum.excess
        variance += stratum.variance
    confused = _most_confused(val, len(names))
    shares = [gold / len(val), predicted / len(val)]
    shares.append(np.bincount(pool.predicted, minlength=len(names)) / len(pool))
    reports, grid = [], margin_grid(pool.margin)
    broken = _broken(excess, variance, predicted)
    for c, name in enumerate(names):
        said, true = int(predicted[c]), int(gold[c])
        gold_share, predicted_share, pool_share = (float(share[c]) for share in shares)
        reports.append(
            ClassReport(
                name=name,
                gold_rows=true,
                predicted_rows=said,
                precision=float(hits[c] / said) if said else None,
                recall=float(hits[c] / true) if true else None,
                expected_precision=float((hits[c] - excess[c]) / said) if said else None,
                confused_with=names[confused[c]] if confused[c] >= 0 else None,
                gold_share=gold_share,
                predicted_share=predicted_share,
                pool_share=pool_share,
                broken=bool(broken[c]),
                alpha=_own_curve(val, c, grid) if said >= MIN_CLASS_ROWS else None,
            )
        )
    return reports


def _broken(
    excess: Float[np.ndarray, " c"], variance: Float[np.ndarray, " c"], rows: Int[np.ndarray, " c"]
) -> Bool[np.ndarray, " c"]:
    """Far less right than the margins promise, and not by chance."""
    enough = rows >= _FEWEST_ROWS
    worst = norm.ppf(_BROKEN_P / max(1, int(enough.sum())))
    far = excess < -_BROKEN_BY * rows
    return np.asarray(enough & far & (excess < worst * np.sqrt(variance)))


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
