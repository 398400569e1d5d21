"""The choice between networks: an anchor, and whoever is clearly better than it.

Averaging networks would cost several models, so one is chosen. The anchor is the candidate that
does well in general; another replaces it only if its held-out score is better by more than one
standard error of the paired difference. Among several such, the best score wins; ties go to the
smaller log-loss, then to the name, and never depend on the order of a list. Without an anchor, or
among candidates that leave it out, the best score wins.

As the rule is applied to every resample of the held-out rows, the stated accuracy is corrected for
the choice exactly as it is for a blend (``Evidence``).

Where the rule keeps a student of the teacher's labels although its gain is negative and surely not
large, which the verdict calls not worth it, the best student of gold labels alone is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from noisyteacher.choose.choice import Candidate, Choice, compare_candidates
from noisyteacher.choose.decision import Evidence, Interval
from noisyteacher.choose.verdict import is_no_gain


class AnchoredEvidence(Evidence):
    """Held-out logits of networks on the same gold rows, and the anchored choice between them.

    Args:
        y: (n,) true classes.
        logits: for each candidate (n, L), predicted by students that were not trained on the row.
        names: of the candidates.
        anchor: the place of the anchor; None is no anchor.
        teacher, metric, seed: as in ``Evidence``.
    """

    def __init__(
        self,
        y: np.ndarray,
        logits: Sequence[np.ndarray],
        names: Sequence[str],
        anchor: int | None,
        teacher: np.ndarray | None = None,
        metric: str = "accuracy",
        seed: int = 0,
    ) -> None:
        super().__init__(y, [one[None] for one in logits], teacher, metric, seed)
        self.anchor = anchor
        self.rank = np.argsort(np.argsort(np.array(names)))
        self.said = self.logits.argmax(2)  # (candidates, n)

    def _weights(
        self, counts: np.ndarray, members: Sequence[int] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """All weight on the candidate that the rule chooses for every row of counts."""
        chosen = self.choose(counts, range(len(self.said)) if members is None else members)
        weight = np.zeros((len(counts), len(self.said)))
        weight[np.arange(len(counts)), chosen] = 1
        return np.ones_like(weight), weight

    def choose(self, counts: np.ndarray, members: Sequence[int]) -> np.ndarray:
        """(b,) the candidate chosen where row i of n counts ``counts[b, i]`` times."""
        if len(members) == 1:
            return np.full(len(counts), members[0])
        places = np.array(sorted(members))
        found = [self._score(i, counts) for i in places]
        score = np.stack([value for value, _ in found], axis=1)
        if self.anchor is not None and self.anchor in members:
            anchor, anchor_influence = self._score(self.anchor, counts)
            for i, (value, influence) in enumerate(found):
                variance = np.sum(counts * (influence - anchor_influence) ** 2, axis=1)
                clear = value - anchor > np.sqrt(variance) / counts.sum(1)
                if places[i] != self.anchor:
                    score[:, i] = np.where(clear, score[:, i], -np.inf)
        rows = self.losses.shape[-1]
        loss = counts @ self.losses[places].reshape(-1, rows).T
        loss = loss.reshape(len(counts), len(places), -1).min(2)
        rank = np.broadcast_to(self.rank[places], score.shape)
        return np.asarray(places[np.lexsort((rank, loss, -score))[:, 0]])

    def _score(self, candidate: int, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(b,) its score, and (b, n) how much each row moves it, times n: mean 0 over the rows."""
        said, total = self.said[candidate], counts.sum(1, keepdims=True)
        hit = (said == self.y).astype(float)
        if self.metric == "accuracy":
            mean = counts @ hit[:, None] / total
            return mean[:, 0], hit - mean
        size = self.logits.shape[2]
        true, named = np.eye(size)[self.y], np.eye(size)[said]
        both = counts @ (true + named)  # (b, L): rows of the class, and rows said to be of it
        there = both > 0
        f1 = np.divide(2 * (counts @ (true * named)), both, where=there, out=np.zeros_like(both))
        share = np.divide(total, both, where=there, out=np.zeros_like(both))
        classes = there.sum(1, keepdims=True)
        moved = 2 * hit * share[:, self.y] - (f1 * share)[:, self.y] - (f1 * share)[:, said]
        return f1.sum(1) / classes[:, 0], moved / classes


def choose_network(candidates: Sequence[Candidate], evidence: AnchoredEvidence) -> Choice:
    """The anchored choice, or the best student of gold labels alone where the teacher's cost.

    Resamples in which the rule prefers gold labels alone say nothing about the teacher, so the
    interval of ``gain`` is that of students of the teacher's labels against the others. Where a
    student of gold labels alone is returned, ``gain`` is what the others would have brought.
    """
    choice = compare_candidates(candidates, evidence, evidence.blend())
    taught = [i for i, c in enumerate(candidates) if c.uses_teacher]
    alone = [i for i, c in enumerate(candidates) if not c.uses_teacher]
    if not taught:
        return choice
    gain = evidence.difference(evidence.held_out_scores(taught), evidence.held_out_scores(alone))
    if choice.gold_weight == 0:
        value, half = choice.gain.value, gain.high - gain.value
        if value >= 0 or not is_no_gain(value, value + half):
            return replace(choice, gain=Interval(value, value - half, value + half))
    found = compare_candidates(candidates, evidence, evidence.blend(alone))
    return replace(found, score=found.gold_only, gain=gain)
