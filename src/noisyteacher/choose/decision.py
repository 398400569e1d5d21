"""The decision: how candidates are blended, and what accuracy the result can be believed to have.

**The rule.** Every candidate is solved at every setting. Each of these students gets the
temperature that minimizes its out-of-fold loss, and a weight proportional to
``exp(-SHARPNESS · √n · loss) / settings of its candidate``. The returned student is the
weighted average of their logits, which for linear students is one linear student. Nothing is
chosen, so nothing flips when two candidates are close.

**The loss** of a row is the log-loss of ``(n p + SMOOTHING) / (n + SMOOTHING · classes)``, where p
is the probability of its class: as if every class had a tenth of a gold row more. A class with one
gold row has none in the fold that predicts it. Students of gold labels alone then rule it out as
far as the solver went (e^-14 to e^-19 with 200 gold rows of 77 classes), and by plain log-loss such
rows, which hardly any student gets right, decided the weights. More folds leave as many rows
without their class, and new rows lack theirs at least about as often. Leaving such rows out of the
loss cost 20 points in a cell whose teacher was good.

**The constants** were first set on 192 cells of eight sets. In the benchmark of results/decisions
(332 cells of seven sets), every smoothing from 0 to 0.25 with sharpness 3 or 4 has the same mean
accuracy to 0.03 points; sharpness 2 loses 0.05 to 0.1 and 6 loses 0.03. Chosen on six of the sets
and judged on the seventh, for each in turn, the two constants give 0.003 points less than those
below. Smoothing is for many classes: on banking77 (77 classes, 8 cells a size, pools of 1 500) it
brought 2.4 points with 100 gold rows and 1.5 with 200. Without self-training the blend loses 0.2
points on average. Calibrated students, or SLaM per class on hard labels, did not help.

**The stated accuracy.** The out-of-fold accuracy of a rule that was tuned on the same rows is
optimistic. So the gold rows are resampled, the whole rule is applied to each resample, and its
result is scored on the rows left out (bootstrap bias-corrected cross-validation, Tsamardinos et
al. 2018). The interval is Wilson's at the number of gold rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp, softmax

from noisyteacher.core.errors import InputError

METRICS = ("accuracy", "macro_f1")
RESAMPLES = 1000
SHARPNESS = 4.0
SMOOTHING = 0.1
# The largest first: of students that are sure of everything, all temperatures are as good.
TEMPERATURES = np.exp(np.linspace(np.log(10.0), np.log(0.1), 21))
_CHUNK = 50  # resamples whose blended logits are in memory at a time
_Z = 1.959964  # of a 95% interval


def macro_f1(y: np.ndarray, said: np.ndarray) -> float:
    """scikit-learn's, without its checks: it is computed for thousands of resamples."""
    size = int(max(y.max(), said.max())) + 1
    right = np.bincount(y[y == said], minlength=size)
    named = np.bincount(y, minlength=size) + np.bincount(said, minlength=size)
    return float(np.mean(2 * right[named > 0] / named[named > 0]))


@dataclass(frozen=True)
class Interval:
    """A number measured on gold rows, with its 95% confidence interval."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} ({self.low:{spec}} to {self.high:{spec}})"

    @property
    def width(self) -> float:
        """The upper end minus the lower end."""
        return self.high - self.low

    @classmethod
    def wilson(cls, share: float, rows: int) -> Interval:
        """Wilson's interval for a share that was measured on this many rows."""
        center = (share + _Z**2 / (2 * rows)) / (1 + _Z**2 / rows)
        half = _Z * np.sqrt(share * (1 - share) / rows + _Z**2 / (4 * rows**2))
        half /= 1 + _Z**2 / rows
        return cls(float(share), float(max(0.0, center - half)), float(min(1.0, center + half)))


@dataclass(frozen=True)
class Part:
    """One student of a blend: a candidate at one of its settings, its logits divided by T."""

    candidate: int
    setting: int
    temperature: float
    weight: float

    @property
    def factor(self) -> float:
        """What its logits are multiplied by."""
        return self.weight / self.temperature


class Evidence:
    """Out-of-fold logits of all candidates on the same gold rows, and the rule applied to them.

    Args:
        y: (n,) true classes.
        logits: for each candidate (settings, repeats × n, L), predicted by folds that left the
            row out; repeats of the cross-fit follow each other.
        teacher: (n, L) the teacher's probabilities of the same rows; NaN rows where it has none.
        metric: "accuracy" or "macro_f1".
    """

    def __init__(
        self,
        y: np.ndarray,
        logits: Sequence[np.ndarray],
        teacher: np.ndarray | None = None,
        metric: str = "accuracy",
        seed: int = 0,
    ) -> None:
        if metric not in METRICS:
            raise InputError(f"metric must be one of {', '.join(METRICS)}, not {metric!r}.")
        if not logits:
            raise InputError("A decision needs at least one candidate.")
        self.y, self.metric, self.seed = np.asarray(y), metric, seed
        self.repeats = logits[0].shape[1] // len(self.y)
        self.truth = np.tile(self.y, self.repeats)
        self.owner = np.repeat(np.arange(len(logits)), [len(one) for one in logits])
        self.place = np.concatenate([np.arange(len(one)) for one in logits])
        stacked = np.concatenate(list(logits)).astype(np.float32)  # (students, repeats × n, L)
        self.logits = stacked - stacked.mean(-1, keepdims=True)
        self.teacher = teacher

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def losses(self) -> np.ndarray:
        """(students, temperatures, n) smoothed log-loss of every student at every temperature."""
        students, rows, classes = self.logits.shape
        n = len(self)
        out = np.empty((students, len(TEMPERATURES), rows), np.float32)
        for i, temperature in enumerate(TEMPERATURES):
            tempered = self.logits / np.float32(temperature)
            own = np.take_along_axis(tempered, self.truth[None, :, None], axis=2)[..., 0]
            chance = np.exp(own - logsumexp(tempered, axis=2))
            out[:, i] = -np.log((n * chance + SMOOTHING) / (n + SMOOTHING * classes))
        shape = (students, len(TEMPERATURES), self.repeats, n)
        return np.asarray(out.reshape(shape).mean(2))

    def blend(self, members: Sequence[int] | None = None) -> list[Part]:
        """The rule on all rows: a part for every student of the given candidates."""
        temperature, weight = self._weights(np.ones((1, len(self))), members)
        return [
            Part(int(self.owner[i]), int(self.place[i]), float(temperature[0, i]), float(w))
            for i, w in enumerate(weight[0])
            if w > 0
        ]

    def predictions(self, parts: Sequence[Part]) -> np.ndarray:
        """(repeats × n, L) out-of-fold logits of a blend."""
        first = np.searchsorted(self.owner, np.arange(self.owner.max() + 1))
        return np.asarray(
            sum(p.factor * self.logits[first[p.candidate] + p.setting] for p in parts)
        )

    @cached_property
    def _resamples(self) -> np.ndarray:
        """(resamples, n) how often each row was drawn."""
        rng = np.random.default_rng([self.seed, len(self)])
        n = len(self)
        return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)

    def _weights(
        self, counts: np.ndarray, members: Sequence[int] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Temperature and weight of every student for every row of counts, both (b, students)."""
        students, steps, n = self.losses.shape
        mean = counts @ self.losses.reshape(-1, n).T / counts.sum(1, keepdims=True)
        mean = mean.reshape(len(counts), students, steps)
        settings = np.bincount(self.owner)[self.owner]
        worth = -SHARPNESS * np.sqrt(n) * mean.min(2) - np.log(settings)
        if members is not None:
            worth[:, ~np.isin(self.owner, list(members))] = -np.inf
        return TEMPERATURES[mean.argmin(2)], softmax(worth, axis=1)

    def held_out_scores(self, members: Sequence[int] | None = None) -> np.ndarray:
        """(resamples,) score of the rule on the rows that each resample left out."""
        scores = []
        shape = self.logits.shape
        flat = self.logits.reshape(shape[0], -1)
        for counts in np.array_split(self._resamples, RESAMPLES // _CHUNK):
            temperature, weight = self._weights(counts, members)
            factor = (weight / temperature).astype(np.float32)
            said = (factor @ flat).reshape(len(counts), *shape[1:]).argmax(2)
            for drawn, named in zip(counts, said, strict=True):
                left = np.tile(drawn == 0, self.repeats)
                scores.append(self.score(self.truth[left], named[left]))
        return np.array(scores)

    def teacher_estimate(self) -> Interval | None:
        """The teacher's score on the rows that it labeled; nothing about it was tuned on them."""
        if self.teacher is None:
            return None
        known = np.isfinite(self.teacher).all(1)
        said = self.teacher[known].argmax(1)
        return Interval.wilson(self.score(self.y[known], said), int(known.sum()))

    def score(self, y: np.ndarray, said: np.ndarray) -> float:
        if len(y) == 0:
            return float("nan")
        if self.metric == "macro_f1":
            return macro_f1(y, said)
        return float(np.mean(y == said))

    def estimate(self, scores: np.ndarray) -> Interval:
        """The mean over resamples, with Wilson's interval at the number of gold rows."""
        return Interval.wilson(float(np.nanmean(scores)), len(self))

    def difference(self, scores: np.ndarray, others: np.ndarray) -> Interval:
        """The mean paired difference over resamples, with a normal interval at n rows.

        A left-out part has about 0.37 n rows, so its spread is scaled to n. If no resample tells
        the two apart, up to 3/n of new rows may still do so (the rule of three).
        """
        gap = scores - others
        left_out = float(np.mean(self._resamples == 0))
        spread = float(np.nanstd(gap))
        half = float(_Z * spread * np.sqrt(left_out)) if spread else 3 / len(self)
        value = float(np.nanmean(gap))
        return Interval(value, value - half, value + half)
