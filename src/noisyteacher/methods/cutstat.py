"""CutStat: keep the teacher labels that their neighbours share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from sklearn.neighbors import NearestNeighbors

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import EMBEDDINGS, SOFT_LABELS, Columns, Grid, Rows
from noisyteacher.methods.targets import TargetMethod, keep_rows, pool_labels
from noisyteacher.noise import TeacherNoise


@dataclass(frozen=True, repr=False)
class CutStat(TargetMethod):
    """Vanilla distillation on the pool rows whose label agrees best with those around them.

    A row's statistic compares how much of its neighbourhood, in the teacher's embedding, has
    another label than it with how much would if labels were dealt at random; the lower, the more
    its label can be trusted.

    Args:
        fraction: of the pool, the share with the lowest statistic that is kept.
        neighbours: how many rows make a neighbourhood, the row itself among them.
        among: neighbours are looked for among so many rows of the pool, drawn once; 0: all. The
            time grows with this times the pool.
        hard: train on the teacher's top class.
    """

    fraction: float = 0.5
    neighbours: int = 20
    among: int = 20_000
    hard: bool = False

    own_needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, EMBEDDINGS})
    formula: ClassVar[str] = (
        "ce(ys, f) on the rows of the lowest z, "
        "z = (Σ w 1{other label} − (1 − π) Σ w) / √(π (1 − π) Σ w²), w = 1 / (1 + distance)"
    )
    reference: ClassVar[str] = "Muhlenbach et al. 2004; Lang et al. 2022"
    grid: ClassVar[Grid] = {"fraction": (0.1, 0.3, 0.5, 0.7, 0.9)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(0 < self.fraction <= 1, "fraction", "above 0 and at most 1")
        self._check(self.neighbours >= 2, "neighbours", "at least 2")
        self._check(self.among >= 0, "among", "a number of rows, or 0 for all")

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        pool = pool_labels(self, rows, labels)
        columns, keep = self.target_columns(rows, pool), rows.gold
        if len(pool):
            embedding = pool.extras["embedding"].astype(np.float32)
            z = cut_statistic(embedding, pool.hard, self.neighbours, self.among)
            best = np.argsort(z, kind="stable")[: max(1, int(self.fraction * len(z)))]
            keep[np.flatnonzero(~rows.gold)[best]] = True
        return keep_rows(columns, keep)


def cut_statistic(
    embedding: Float[np.ndarray, "n d"],
    label: Int[np.ndarray, " n"],
    neighbours: int,
    among: int = 0,
) -> Float[np.ndarray, " n"]:
    """How many of a row's neighbours have another label than it, against chance, in deviations."""
    row = np.arange(len(label))
    known = row
    if 0 < among < len(label):
        known = np.sort(np.random.default_rng(0).permutation(row)[:among])
    # Brute force: trees gain nothing in as many dimensions as embeddings have.
    near = NearestNeighbors(n_neighbors=min(neighbours, len(known)), algorithm="brute")
    distance, found = near.fit(embedding[known]).kneighbors(embedding)
    index = known[found]
    # A row is its own neighbour, also where it was not drawn or where twins took its place.
    alone = ~(index == row[:, None]).any(1)
    index[alone, -1], distance[alone, -1] = row[alone], 0
    weight = 1 / (1 + distance.astype(np.float64))
    other = (weight * (label[index] != label[:, None])).sum(1)
    share = (np.bincount(label) / len(label))[label]
    deviation = np.sqrt(share * (1 - share) * np.square(weight).sum(1))
    surplus = other - (1 - share) * weight.sum(1)
    # Where all labels are the same, none stands out.
    return np.asarray(np.divide(surplus, deviation, out=np.zeros(len(label)), where=deviation > 0))
