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

**The constants** were set on 192 cells (five text sets as embeddings and three tables, four
teachers, 50 to 1 000 gold rows, two seeds, 400 test rows each, drawn by
``benchmarks/decision_cells.py``), by mean regret against the best in hindsight of gold only, hard
labels, Taylor-CE, SLaM and self-training: 0.04 points with the default candidates, 0.18 without
self-training, 0.54 without forward correction. Sharpness 3 to 6 is flat. Calibrated students, or
SLaM per class on hard labels, did not lower it. The best single candidate to keep always, forward
correction, had 0.62; SLaM 1.74, gold only 3.95, hard labels 6.82.

These figures are of plain log-loss. Smoothing was measured on the same kind of cells with pools of
1 500 rows, as the change of mean accuracy. On banking77 (77 classes, 8 cells a size) it brings 2.4
points with 100 gold rows and 1.5 with 200; with its pool of 5 000 and a teacher that is right on 13
%, 7.5 and 3.4. On TREC, emotion, irony, SST-2 and digits (192 cells) it changes +0.03 ± 0.16, -0.06
± 0.11, -0.03 ± 0.11 and 0.00 ± 0.01 with 50, 100, 200 and 400 gold rows; on the four text sets
joined as 14 classes (25 to 100 gold rows, 25 cells of three draws) -0.18. 0.05 to 1 are alike on
banking77, and more than 0.1 costs TREC and digits up to 0.1; 0.1 was set with all six in view.
Chosen on the five other sets alone, where 0 to 0.1 are alike, it would be 0.02, which brings
banking77 0.6 and 1.5; chosen on banking77 and four others, 0.25 or 1, which change the fifth by
-0.12 to +0.02.
In the benchmark itself (results/decisions, pools of 5 000) TREC lost 0.6 points with 100 gold rows
(12 cells; two of them lost 4.4 and 2.6) and at most 0.1 at its other sizes, and banking77 gained
2.0 and 1.1 with 100 and 200.

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
class Estimate:
    """A share between 0 and 1 with its 95% interval."""

    value: float
    low: float
    high: float

    @classmethod
    def wilson(cls, share: float, rows: int) -> Estimate:
        """Wilson's interval of a share that was measured on so many rows."""
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

    def teacher_estimate(self) -> Estimate | None:
        """The teacher's score on the rows that it labeled; nothing about it was tuned on them."""
        if self.teacher is None:
            return None
        known = np.isfinite(self.teacher).all(1)
        said = self.teacher[known].argmax(1)
        return Estimate.wilson(self.score(self.y[known], said), int(known.sum()))

    def score(self, y: np.ndarray, said: np.ndarray) -> float:
        if len(y) == 0:
            return float("nan")
        if self.metric == "macro_f1":
            return macro_f1(y, said)
        return float(np.mean(y == said))

    def estimate(self, scores: np.ndarray) -> Estimate:
        """The mean over resamples, with Wilson's interval at the number of gold rows."""
        return Estimate.wilson(float(np.nanmean(scores)), len(self))

    def difference(self, scores: np.ndarray, others: np.ndarray) -> Estimate:
        """The mean paired difference over resamples, with a normal interval at n rows.

        A left-out part has about 0.37 n rows, so its spread is scaled to n. If no resample tells
        the two apart, up to 3/n of new rows may still do so (the rule of three).
        """
        gap = scores - others
        left_out = float(np.mean(self._resamples == 0))
        spread = float(np.nanstd(gap))
        half = _Z * spread * np.sqrt(left_out) if spread else 3 / len(self)
        value = float(np.nanmean(gap))
        return Estimate(value, value - half, value + half)
