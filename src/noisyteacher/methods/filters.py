"""Filters: train on the teacher labels that seem right, and drop the others or weigh them 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from noisyteacher.core.errors import warn
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import negative_cross_entropy_from_log, selected_binary_ce_from_log
from noisyteacher.methods.batch import (
    Batch,
    Columns,
    Labels,
    Modules,
    Noise,
    Output,
    Rows,
    all_rows,
    given,
    gold_losses,
    keep_rows,
    one_hot,
    pool_labels,
    top_classes,
)
from noisyteacher.methods.method import (
    EMBEDDINGS,
    ONCE,
    PRETRAINED,
    SOFT_LABELS,
    VIEW_STATISTICS,
    Grid,
    Method,
    TargetMethod,
)
from noisyteacher.noise import margin

LEAST_PER_CLASS = 25  # what class balancing of UPS leaves of each class at least
_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class ConfidenceFilter(TargetMethod):
    """Vanilla distillation on the pool rows whose teacher label has a confidence of ``threshold``.

    Args:
        threshold: a number, or ``"auto"``: the lowest at which the teacher is right on a share of
            ``precision`` of the rows of V that are kept.
        precision: the share that ``"auto"`` requires.
        score: the confidence: the top ``"probability"``, or its ``"margin"`` over the second.
        hard: whether to train on the teacher's top class.
    """

    threshold: float | str = "auto"
    precision: float = 0.9
    score: str = "probability"
    hard: bool = False

    formula: ClassVar[str] = "1{max ys ≥ τ} ce(ys, f), τ from V; other rows dropped"
    reference: ClassVar[str] = "folklore"
    grid: ClassVar[Grid] = {"precision": (0.5, 0.6, 0.7, 0.8, 0.9)}

    def __post_init__(self) -> None:
        super().__post_init__()
        number = isinstance(self.threshold, int | float) and not isinstance(self.threshold, bool)
        self._check(
            self.threshold == "auto" or (number and 0 <= float(self.threshold) <= 1),
            "threshold",
            'a number between 0 and 1, or "auto"',
        )
        self._check(0 < self.precision <= 1, "precision", "above 0 and at most 1")
        self._check(self.score in ("probability", "margin"), "score", '"probability" or "margin"')

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        pool = pool_labels(self, rows, labels)
        if self.threshold == "auto":
            val = given(self, labels).take(rows.val_ids)
            threshold = tuned_threshold(self._sure(val), val.hard == rows.val_y, self.precision)
        else:
            threshold = float(self.threshold)
        keep = rows.gold
        keep[~rows.gold] = self._sure(pool) >= threshold
        if len(pool) and not keep[~rows.gold].any():
            warn(f"{self!r} keeps no row of the pool: only gold rows are left to train on.")
        return keep_rows(self.target_columns(rows, pool), keep)

    def _sure(self, labels: TeacherLabels) -> np.ndarray:
        if self.score == "margin":
            return np.asarray(margin(labels), np.float32)
        return labels.topk_prob[:, 0]


def tuned_threshold(sure: np.ndarray, right: np.ndarray, precision: float) -> float:
    """The lowest score at which the rows of V at or above it are right often enough; else inf."""
    order = np.argsort(-sure, kind="stable")
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    # Equal scores are kept or dropped together: only the last of them is a possible threshold.
    last = np.append(sure[order][1:] < sure[order][:-1], True)
    good = np.flatnonzero(last & (share >= precision))
    return float(sure[order][good[-1]]) if len(good) else np.inf


@dataclass(frozen=True)
class ConfidentPruning(TargetMethod):
    """Vanilla distillation without the rows that confident learning considers mislabeled.

    Confident learning needs the predictions of a classifier that was not trained on these labels.
    Here, this classifier is the student before its first epoch, pre-trained on A alone. The rows to
    drop are determined once, at this point; they stay in the batches with weight 0.
    """

    hard: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, PRETRAINED})
    whole_pool: ClassVar[bool] = True
    formula: ClassVar[str] = (
        "w ce(ys, f), w = 0 for the n(label, class) rows of largest p(class) − p(label), "
        "n: the confident joint, p: the pre-trained student"
    )
    reference: ClassVar[str] = "Northcutt et al. JAIR 2021"
    unverified: ClassVar[str] = "a student of A in place of cross-validation"

    def target_columns(self, rows: Rows, pool: TeacherLabels) -> Columns:
        columns = super().target_columns(rows, pool)
        columns.values["label"] = top_classes(rows, pool)
        return columns

    def refresh_every(self) -> int:
        return ONCE

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        pool = columns.y < 0
        wrong = find_mislabeled(
            student_probs[pool].float().cpu().numpy(), columns.values["label"][pool].cpu().numpy()
        )
        columns.weight.fill_(1.0)
        columns.weight[pool] = torch.from_numpy(~wrong).to(columns.weight)


def confident_joint(
    probs: Float[np.ndarray, "n L"], label: Int[np.ndarray, " n"]
) -> Int[np.ndarray, "L L"]:
    """Rows counted by their label and by the class they surely belong to; unsure rows by neither.

    A row is sure of a class where that class has at least the mean probability it has over the
    rows labeled so; of several such classes, the most probable counts.
    """
    classes = probs.shape[1]
    counts = np.bincount(label, minlength=classes)
    own = np.bincount(label, weights=probs[np.arange(len(label)), label], minlength=classes)
    # A class that no row has as its label is taken for no row's true class either.
    threshold = np.divide(own, counts, out=np.full(classes, np.inf), where=counts > 0)
    joint = np.zeros((classes, classes), np.int64)
    # In blocks: the probabilities of a large pool fill much of the memory already.
    for first in range(0, len(label), _BLOCK_ROWS):
        block = probs[first : first + _BLOCK_ROWS]
        sure = block >= threshold - 1e-6  # a row at the mean itself is sure, whatever the rounding
        truth = np.where(sure, block, -1.0).argmax(1)
        some = sure.any(1)
        np.add.at(joint, (label[first : first + _BLOCK_ROWS][some], truth[some]), 1)
    return joint


def find_mislabeled(
    probs: Float[np.ndarray, "n L"], label: Int[np.ndarray, " n"]
) -> Bool[np.ndarray, " n"]:
    """Mark, for each label and each other class, as many rows as the joint has of that pair.

    The joint is first scaled so that its rows sum to what each label has. Rows of the largest
    p(class) − p(label) go first; one whose most probable class is its label is never marked.
    """
    joint = confident_joint(probs, label)
    counts = np.bincount(label, minlength=len(joint))
    wanted = np.stack([_shares(row, count) for row, count in zip(joint, counts, strict=True)])
    marked = np.zeros(len(label), bool)
    for here in np.flatnonzero(counts):
        mine = np.flatnonzero(label == here)
        for there in np.flatnonzero(wanted[here]):
            if there != here:
                # Rounded to float32, leads that differ would tie.
                lead = np.subtract(probs[mine, there], probs[mine, here], dtype=np.float64)
                marked[mine[np.argsort(-lead, kind="stable")[: wanted[here, there]]]] = True
    return np.asarray(marked & (probs.argmax(1) != label))


def _shares(row: Int[np.ndarray, " L"], total: int) -> Int[np.ndarray, " L"]:
    """The row scaled to whole numbers that sum to ``total``: the largest remainders round up."""
    if not row.any():
        return row
    exact = row * (total / row.sum())
    whole: np.ndarray = np.floor(exact).astype(np.int64)
    up = np.argsort(whole - exact, kind="stable")[: total - whole.sum()]
    whole[up] += 1
    return whole


@dataclass(frozen=True)
class CutStat(TargetMethod):
    """Vanilla distillation on the pool rows whose label agrees best with those of their neighbours.

    The statistic of a row compares how much of its neighbourhood, in the teacher's embedding, has
    another label with how much would if labels were drawn at random. The lower it is, the more
    reliable is the label.

    Args:
        fraction: the share of the pool that is kept, with the lowest statistic.
        neighbours: the number of rows in a neighbourhood, including the row itself.
        among: neighbours are searched among this many rows of the pool, drawn once; 0 means all.
            The time grows with this number times the size of the pool.
        hard: whether to train on the teacher's top class.
    """

    fraction: float = 0.5
    neighbours: int = 20
    among: int = 20_000
    hard: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, EMBEDDINGS})
    whole_pool: ClassVar[bool] = True
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

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
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


class Selection(NamedTuple):
    """The labels that UPS selects for each pool row."""

    positive: np.ndarray  # (n,) int64: the class taken as the label, -1 where none is
    negative: np.ndarray  # (n, L) bool: classes taken as not the label


@dataclass(frozen=True)
class UPS(Method):
    """Uncertainty-aware pseudo-label selection, once, from the teacher's statistics over views.

    The loss is the mean cross-entropy of the positives, which include the gold rows, plus the mean
    negative cross-entropy of the rows for which only some classes are excluded. With ``binary``, it
    is one binary cross-entropy over each row's selected classes. Both means are over a whole batch,
    so several processes cannot share a batch, except with ``binary``.

    Args:
        positive_threshold, positive_std: a positive has at least this mean probability and less
            than this deviation, at temperature 1.
        negative_threshold, negative_std: a negative class is below both, at temperature 2.
        binary: whether to use the multi-label form of the loss.
        balance: whether to keep equally many positives of each class, those with the lowest
            deviation.
    """

    positive_threshold: float = 0.7
    positive_std: float = 0.05
    negative_threshold: float = 0.05
    negative_std: float = 0.005
    binary: bool = False
    balance: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, VIEW_STATISTICS})
    whole_pool: ClassVar[bool] = True
    formula: ClassVar[str] = "mean ce(ŷ, f) over positives + mean −log(1 − f_c) over negatives"
    reference: ClassVar[str] = "Rizve et al. ICLR 2021"
    unverified: ClassVar[str] = "the thresholds the SLaM paper used; the equation of `binary`"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("positive_threshold", "negative_threshold"):
            self._check(0 <= getattr(self, name) <= 1, name, "between 0 and 1")
        for name in ("positive_std", "negative_std"):
            self._check(getattr(self, name) > 0, name, "above 0")
        object.__setattr__(self, "whole_batch", not self.binary)

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        extras = pool_labels(self, rows, labels).extras
        chosen = self.select(extras["view_mean"], extras["view_std"])
        label = np.array(rows.y, np.int64)
        label[~rows.gold] = chosen.positive
        negative = np.zeros((len(rows), rows.classes), bool)
        negative[~rows.gold] = chosen.negative
        keep = (label >= 0) | negative.any(axis=1)
        if len(rows) > rows.gold.sum() and not (keep & ~rows.gold).any():
            warn(f"{self!r} selects no row of the pool: only gold rows are left to train on.")
        columns = all_rows(rows)
        columns.values["label"] = torch.from_numpy(label)
        columns.values["negative"] = torch.from_numpy(negative)
        return keep_rows(columns, keep)

    def select(self, view_mean: np.ndarray, view_std: np.ndarray) -> Selection:
        """Choose positives and negatives; both inputs are (n, 2, L), at temperatures 1 and 2."""
        mean, std = view_mean[:, 0], view_std[:, 0]
        best = mean.argmax(axis=1)
        at_best = np.arange(len(best)), best
        sure = (mean[at_best] >= self.positive_threshold) & (std[at_best] < self.positive_std)
        if self.balance:
            sure &= _balanced(best, std[at_best], sure, mean.shape[1])
        negative = (view_std[:, 1] < self.negative_std) & (
            view_mean[:, 1] < self.negative_threshold
        )
        negative[at_best] = False
        if not self.binary:
            negative[sure] = False
        return Selection(np.where(sure, best, -1), negative)

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        logits, label = output.logits, batch.values["label"]
        negative, positive = batch.values["negative"].float(), label >= 0
        log_probs = logits.log_softmax(1)
        with_label = gold_losses(logits, label)
        if self.binary:
            target = one_hot(label, logits.shape[1])
            losses = selected_binary_ce_from_log(target, target + negative, log_probs)
            losses = torch.where(batch.gold, with_label, losses)
            return (losses * batch.weight).mean()
        without = negative_cross_entropy_from_log(negative, log_probs)
        return _group_mean(with_label * batch.weight, positive) + _group_mean(
            without * batch.weight, ~positive
        )


def _group_mean(losses: Tensor, group: Tensor) -> Tensor:
    """Mean over the rows of a group, 0 where it is empty."""
    return (losses * group).sum() / group.sum().clamp(min=1)


def _balanced(best: np.ndarray, std: np.ndarray, sure: np.ndarray, classes: int) -> np.ndarray:
    """(n,) bool: the surest positives, as many of each class as of the rarest."""
    counts = np.bincount(best[sure], minlength=classes)
    most = max(LEAST_PER_CLASS, int(counts.min()))
    keep = np.zeros(len(best), bool)
    for label in range(classes):
        members = np.flatnonzero(sure & (best == label))
        keep[members[np.argsort(std[members], kind="stable")[:most]]] = True
    return keep
