"""V as the audit reads it: how good the teacher is there, and how well it is calibrated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import chi2

from noisyteacher.auditing.bootstrap import Bootstrap, interval, pivot_interval
from noisyteacher.choose.decision import Interval
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise.calibration import fit_temperature, safe_log, tempered, tempered_slope
from noisyteacher.noise.covariates import TeacherRows, covariates_by_size

BINS = 15
_ERRORS_TO_TEST = 1.0
_SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000)


@dataclass(frozen=True)
class RowSummary:
    """What the audit compares between V and the pool: three numbers per row."""

    predicted: Int[np.ndarray, " n"]
    margin: Float[np.ndarray, " n"]
    entropy: Float[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.margin)


@dataclass(frozen=True)
class ValReading(RowSummary):
    """V, row by row. A column of ``logs`` stands for ``times`` equally probable classes."""

    y: Int[np.ndarray, " n"]
    rank: Int[np.ndarray, " n"]  # the truth's place in the teacher's order; K if not stored
    logs: Float[np.ndarray, "n m"]
    times: Float[np.ndarray, " m"]
    stored: int
    num_classes: int

    @property
    def right(self) -> Bool[np.ndarray, " n"]:
        """Where the teacher's first choice is the truth."""
        return np.asarray(self.predicted == self.y)

    @property
    def log_truth(self) -> Float[np.ndarray, " n"]:
        """The log-probability of the true class."""
        return np.asarray(self.logs[np.arange(len(self.y)), self.rank])


def summarize_rows(labels: TeacherLabels) -> RowSummary:
    """Summarize V or a pool block by block; it is never made dense."""
    rows = TeacherRows(labels)
    margin = covariates_by_size(rows, 1, "margin")[0]
    return RowSummary(labels.hard, margin, -covariates_by_size(rows, 1, "entropy")[0])


def read_val(labels: TeacherLabels, y: Int[np.ndarray, " n"]) -> ValReading:
    """Read V, with the probability of every stored class, and of one that is not stored."""
    k, others = labels.k, labels.num_classes - labels.k
    probs, times = labels.topk_prob.astype(np.float64), np.ones(k)
    if others:
        probs = np.column_stack([probs, labels.tail.astype(np.float64) / others])
        times = np.append(times, float(others))
    found = labels.topk_index == y[:, None]
    return ValReading(
        **vars(summarize_rows(labels)),
        y=y,
        rank=np.where(found.any(axis=1), found.argmax(axis=1), k),
        logs=safe_log(probs),
        times=times,
        stored=k,
        num_classes=labels.num_classes,
    )


@dataclass(frozen=True)
class Reliability:
    """What the teacher says of its top class against how often it is right, bin by bin.

    Bins are equal parts of 0 to 1, each with its upper end; empty ones are left out.
    """

    rows: list[int]
    confidence: list[float]
    accuracy: list[float]


@dataclass(frozen=True)
class Scores:
    """Scores of probabilities on V."""

    log_loss: Interval  # natural logarithm; probabilities below 1e-12 count as that
    brier: Interval  # sum over classes of squared errors, 0 to 2
    ece: Interval  # expected calibration error of the top class
    overconfidence: Interval  # mean probability of the top class less accuracy
    p_value: float  # of errors like these, were the probabilities right: chi-squared over the bins
    reliability: Reliability


@dataclass(frozen=True)
class Quality:
    """The teacher on V."""

    accuracy: Interval
    top_k: dict[int, Interval]  # the truth among the k first choices, up to what is stored
    temperature: Interval  # above 1: the teacher is too sure of itself
    before: Scores  # as the teacher says it
    after: Scores  # at the temperature, which was fitted on the same rows


def measure_quality(val: ValReading, bootstrap: Bootstrap) -> Quality:
    """Accuracy, top-k accuracy, log-loss, Brier score and calibration, with intervals."""
    sizes = [k for k in _SIZES if k <= val.stored]
    hits = val.rank[:, None] < np.array(sizes)
    inverse = 1 / fit_temperature(val.logs, val.times, val.log_truth)
    columns = [
        np.column_stack(tempered_slope(val.logs, val.times, val.log_truth, inverse)),
        _score_columns(val, 1.0),
        _score_columns(val, inverse),
    ]
    drawn = bootstrap.means(np.concatenate(columns, axis=1))
    stops = np.cumsum([part.shape[1] for part in columns])
    slopes, before, after = np.split(drawn, stops[:-1], axis=1)
    top_k = {k: Interval.wilson(float(hits[:, i].mean()), len(val)) for i, k in enumerate(sizes)}
    return Quality(
        accuracy=top_k[1],
        top_k=top_k,
        temperature=_temperature_interval(inverse, slopes),
        before=_scores(val, 1.0, columns[1], before),
        after=_scores(val, inverse, columns[2], after),
    )


def _temperature_interval(inverse: float, slopes: Float[np.ndarray, "replicates 2"]) -> Interval:
    """One Newton step from the fit to each replicate's own: its log-loss is nearly a parabola."""
    # Where the fit stands at the end of its range, the curvature may be 0 and no step is sure.
    step = slopes[:, 0] / np.maximum(slopes[:, 1], 1e-12)
    drawn = 1 / np.clip(inverse - step, inverse / 10, inverse * 10)
    return interval(1 / inverse, drawn)


def _score_columns(val: ValReading, inverse: float) -> Float[np.ndarray, "n m"]:
    """log-loss, Brier score, (confidence - right), and the last again in the bin of each row."""
    probs = tempered(val.logs, val.times, inverse)
    truth = probs[np.arange(len(val)), val.rank]
    brier = (probs**2) @ val.times - 2 * truth + 1
    gap = probs[:, 0] - val.right
    in_bin = np.zeros((len(val), BINS))
    in_bin[np.arange(len(val)), _bins(probs[:, 0])] = gap
    return np.column_stack([-np.log(truth), brier, gap, in_bin])


def _scores(
    val: ValReading,
    inverse: float,
    columns: Float[np.ndarray, "n m"],
    drawn: Float[np.ndarray, "replicates m"],
) -> Scores:
    mean = columns.mean(axis=0)
    sure = tempered(val.logs, val.times, inverse)[:, 0]
    return Scores(
        log_loss=interval(mean[0], drawn[:, 0]),
        brier=interval(mean[1], drawn[:, 1]),
        ece=pivot_interval(float(np.abs(mean[3:]).sum()), np.abs(drawn[:, 3:]).sum(axis=1)),
        overconfidence=interval(mean[2], drawn[:, 2]),
        p_value=_calibration_test(sure, val.right),
        reliability=_reliability(sure, val.right),
    )


def _calibration_test(sure: Float[np.ndarray, " n"], right: np.ndarray) -> float:
    bins = _bins(sure)
    variance = np.bincount(bins, sure * (1 - sure), BINS)
    # Where hardly an error is expected a single one would decide; such bins are tested as one.
    bins = np.where(variance < _ERRORS_TO_TEST, BINS, np.arange(BINS))[bins]
    variance = np.bincount(bins, sure * (1 - sure), BINS + 1)
    gap = np.bincount(bins, sure - right, BINS + 1)
    tested = variance > 0
    statistic = float((gap[tested] ** 2 / np.maximum(variance[tested], _ERRORS_TO_TEST)).sum())
    return float(chi2.sf(statistic, max(1, int(tested.sum()))))


def _reliability(sure: Float[np.ndarray, " n"], right: np.ndarray) -> Reliability:
    bins = _bins(sure)
    rows = np.bincount(bins, minlength=BINS)
    used = rows > 0
    said, hits = (np.bincount(bins, v, BINS)[used] / rows[used] for v in (sure, right))
    return Reliability(rows[used].tolist(), said.tolist(), hits.tolist())


def _bins(sure: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    return np.asarray(np.clip(np.ceil(sure * BINS).astype(np.int64) - 1, 0, BINS - 1))
