"""Rivals that leave rows out or change their target: oracles, planted mistakes, and their edges."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from method_problems import DONE, Problem, make_rows, tiny, train_linear, whole_batch
from test_planted_noise import said, two_classes

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    GCE,
    TTM,
    Batch,
    Columns,
    ConfidentPruning,
    CutStat,
    Fidelity,
    Method,
    Output,
    PartialLabels,
    Rows,
    TruncatedGCE,
    Vanilla,
    filters,
    fit_and_prepare,
)
from noisyteacher.methods.filters import (
    _shares,
    confident_joint,
    cut_statistic,
    find_mislabeled,
)

PROBLEM = tiny()


def columns_of(method: Method) -> Columns:
    return fit_and_prepare(method, PROBLEM.rows, PROBLEM.labels).columns


def clusters(
    wrong: float, classes: int = 4, n: int = 800
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n, 2) points around one centre per class, their classes, and labels with mistakes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, classes, n)
    centres = 6 * np.stack([np.cos(np.arange(classes)), np.sin(np.arange(classes))], 1)
    x = (centres[truth] + rng.normal(size=(n, 2))).astype(np.float32)
    label = np.where(rng.random(n) < wrong, (truth + rng.integers(1, classes, n)) % classes, truth)
    return x, truth, label


# -- CutStat --------------------------------------------------------------------------------------


def test_cut_statistic_oracle() -> None:
    points = np.array([[0.0], [1.0], [2.0], [10.0]], np.float32)
    z = cut_statistic(points, np.array([0, 0, 1, 1]), 3)
    np.testing.assert_allclose(z, (-1, -0.816497, -0.142857, -1), atol=2e-6)
    assert (cut_statistic(points, np.zeros(4, np.int64), 3) == 0).all()  # nothing stands out


def test_cut_statistic_follows_plain_code() -> None:
    x, _, label = clusters(0.3, n=60)
    got = cut_statistic(x, label, 7)
    for i in range(60):
        distance = np.sqrt(((x - x[i]) ** 2).sum(1))
        near = np.argsort(distance)[:7]
        share, w = np.mean(label == label[i]), 1 / (1 + distance[near])
        differs = w[label[near] != label[i]].sum()
        z = (differs - (1 - share) * w.sum()) / np.sqrt(share * (1 - share) * (w**2).sum())
        assert got[i] == pytest.approx(z, rel=1e-4, abs=1e-4)


def test_neighbours_from_a_part_of_the_pool_tell_much_the_same() -> None:
    x, truth, label = clusters(0.4)
    whole, part = cut_statistic(x, label, 20), cut_statistic(x, label, 20, among=200)
    assert np.corrcoef(whole, part)[0, 1] > 0.85
    best = np.argsort(part)[:300]
    assert np.mean(label[best] == truth[best]) > 0.97
    # Twins at distance 0 do not push a row out of its own neighbourhood.
    twins = cut_statistic(np.zeros((6, 1), np.float32), np.array([1, 1, 1, 1, 1, 0]), 3)
    assert twins[5] == pytest.approx((2 - 5 / 6 * 3) / np.sqrt(5 / 36 * 3))


def test_cut_stat_keeps_the_labels_that_are_right() -> None:
    x, truth, label = clusters(0.4)
    probs = np.where(np.arange(4) == label[:, None], 0.7, 0.1)
    labels = TeacherLabels.from_probs(np.arange(800), probs, extras={"embedding": x})
    y = np.where(np.arange(800) < 20, truth, -1)
    rows = Rows(np.arange(800), y, np.arange(10), truth[:10], 4)
    kept = fit_and_prepare(CutStat(fraction=0.4), rows, labels).columns
    assert kept.index[:20].tolist() == list(range(20))  # gold rows stay
    assert len(kept) == 20 + int(0.4 * 780)
    assert kept.rows_per_epoch == 800
    pool = kept.index[20:].numpy()
    assert np.mean(label[20:] == truth[20:]) < 0.65
    assert np.mean(label[pool] == truth[pool]) > 0.97


def test_cut_stat_with_no_pool() -> None:
    rows = PROBLEM.rows
    gold = Rows(rows.ids[:108], rows.y[:108], rows.val_ids, rows.val_y, rows.classes)
    assert len(fit_and_prepare(CutStat(), gold, PROBLEM.labels).columns) == 108


# -- confident pruning ----------------------------------------------------------------------------


def test_the_largest_remainders_round_up() -> None:
    assert _shares(np.array([3, 7]), 7).tolist() == [2, 5]  # exactly 2.1 and 4.9
    assert _shares(np.array([5, 1, 4]), 6).tolist() == [3, 1, 2]  # exactly 3, 0.6 and 2.4
    assert _shares(np.array([0, 0]), 5).tolist() == [0, 0]


def test_confident_joint_oracle() -> None:
    probs = np.array([(0.9, 0.1), (0.8, 0.2), (0.3, 0.7), (0.4, 0.6), (0.2, 0.8), (0.65, 0.35)])
    label = np.array([0, 0, 0, 1, 1, 1])
    assert confident_joint(probs, label).tolist() == [[2, 1], [0, 2]]
    # The last row is labeled 1 and sure of nothing: no row of label 1 is counted as class 0.
    assert find_mislabeled(probs, label).tolist() == [False, False, True, False, False, False]


def test_a_class_without_labels_is_nobodys_truth() -> None:
    probs = np.array([(0.2, 0.1, 0.7), (0.3, 0.6, 0.1), (0.6, 0.3, 0.1)])
    joint = confident_joint(probs, np.array([0, 1, 0]))
    assert not joint[:, 2].any()
    assert not joint[2].any()


@pytest.mark.parametrize("classes", [2, 5, 20])
def test_planted_mistakes_are_found(classes: int) -> None:
    rng = np.random.default_rng(classes)
    n = 3000
    truth = rng.integers(0, classes, n)
    label = np.where(rng.random(n) < 0.3, (truth + rng.integers(1, classes, n)) % classes, truth)
    logits = rng.normal(size=(n, classes)) + 4 * np.eye(classes)[truth]
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    marked = find_mislabeled(probs, label)
    assert np.mean(label[marked] != truth[marked]) > 0.9
    assert marked[label != truth].mean() > 0.85
    assert not marked[probs.argmax(1) == label].any()


def test_leads_that_differ_do_not_tie_in_float32() -> None:
    sure = np.repeat([(0.9, 0.1, 0), (0.1, 0.9, 0), (0, 0.8, 0.2), (0, 0.2, 0.8)], 10, axis=0)
    small = 1e-9 * np.arange(20, 0, -1)
    unsure = np.stack([small, np.full(20, 0.5), np.full(20, 0.5)], 1)
    probs = np.concatenate([sure, unsure]).astype(np.float32)
    label = np.repeat([0, 0, 1, 2, 0, 0], 10)
    # Of label 0 as many are sure of 1 as of 0: half of its 40 rows are marked, ten unsure ones too.
    marked = np.flatnonzero(find_mislabeled(probs, label))
    assert marked.tolist() == [*range(10, 20), *range(50, 60)]


def test_the_joint_is_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    label, probs = rng.integers(0, 5, 1000), rng.dirichlet(np.full(5, 0.3), 1000)
    whole = confident_joint(probs, label)
    monkeypatch.setattr(filters, "_BLOCK_ROWS", 64)
    np.testing.assert_array_equal(confident_joint(probs, label), whole)
    assert whole.any()


def test_the_joint_of_a_large_pool_needs_little_memory() -> None:
    probs = np.full((40_000, 100), 0.01, np.float32)
    label = np.arange(40_000) % 100
    tracemalloc.start()
    try:
        confident_joint(probs, label)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < probs.nbytes / 2


def test_predictions_of_the_pool_stay_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(probs: np.ndarray, label: np.ndarray) -> np.ndarray:
        seen.append(probs.dtype)
        return find_mislabeled(probs, label)

    monkeypatch.setattr(filters, "find_mislabeled", watched)
    method = ConfidentPruning()
    method.refresh(torch.full((120, 4), 0.25), torch.full((100, 4), 0.25), columns_of(method))
    assert seen == [np.float32]


def test_pruning_is_settled_once_by_the_student_as_it_starts() -> None:
    method = ConfidentPruning()
    columns = columns_of(method)
    assert method.refresh_every() > 10**6
    said = columns.values["label"]
    assert said[:108].tolist() == PROBLEM.truth[:108].tolist()
    probs = torch.full((120, 4), 0.02)
    other = (said + 1) % 4
    probs[torch.arange(120), torch.where(torch.arange(120) < 114, said, other)] = 0.94
    method.refresh(probs, probs[8:108], columns)
    assert (columns.weight[:114] == 1).all()  # gold rows, and pool rows that the student confirms
    assert columns.weight[114:].min() == 0
    dropped = columns.weight == 0
    output = Output(torch.randn(120, 4, generator=torch.Generator().manual_seed(0)))
    rest = Batch(
        columns.y[~dropped],
        columns.weight[~dropped],
        {name: value[~dropped] for name, value in columns.values.items()},
        {},
    )
    whole = method.loss(output, whole_batch(columns), None, DONE)
    plain = Vanilla().loss(Output(output.logits[~dropped]), rest, None, DONE)
    torch.testing.assert_close(whole, plain * (~dropped).float().mean())


# -- truncated GCE --------------------------------------------------------------------------------


def test_truncated_gce_leaves_out_improbable_labels_after_the_start() -> None:
    method, plain = TruncatedGCE(start=0.5), GCE()
    columns = columns_of(method)
    assert method.q == plain.q == 0.7
    probs = torch.full((120, 4), 0.1)
    probs[torch.arange(120), columns.values["label"]] = 0.7
    probs[112:] = 0.25  # of no label more than half
    probs[:4] = 0.25
    batch, output = whole_batch(columns), Output(probs.log().requires_grad_())
    early = method.loss(output, batch, None, torch.tensor(0.4))
    torch.testing.assert_close(early, plain.loss(output, batch, None, DONE))
    late = method.loss(output, batch, None, torch.tensor(0.5))
    each = plain.example_losses(output.logits, batch)
    torch.testing.assert_close(late, each[:112].sum() / 120)
    (gradient,) = torch.autograd.grad(late, output.logits)
    moved = gradient.abs().sum(1) > 0
    assert not moved[112:].any()
    assert moved[:4].all()  # gold rows stay whatever the student says


def test_a_renewed_method_keeps_its_wrappers_weights() -> None:
    method = Fidelity(beta=2.0, inner=ConfidentPruning())
    columns = columns_of(method)
    before = columns.weight.clone()
    agreed = torch.full((120, 4), 0.02)
    agreed[torch.arange(120), columns.values["label"]] = 0.94
    for _ in range(2):
        method.refresh(agreed, agreed[8:108], columns)
        torch.testing.assert_close(columns.weight, before)


# -- other targets --------------------------------------------------------------------------------


def labeled(*logits: float) -> tuple[Rows, TeacherLabels]:
    labels = TeacherLabels.from_logits(np.arange(2), np.array([logits, logits], np.float32))
    y = np.array([0, -1])
    return Rows(np.arange(2), y, np.array([0]), y[:1], len(logits)), labels


def test_ttm_oracle() -> None:
    rows, labels = labeled(3.0, 1.0, 0.2)
    columns = fit_and_prepare(TTM(), rows, labels).columns
    assert columns.values["target"][0].tolist() == [1, 0, 0]
    # Stored log-probabilities have half precision.
    np.testing.assert_allclose(
        columns.values["target"][1], (0.619396, 0.227863, 0.152741), atol=1e-4
    )
    losses = TTM().example_losses(torch.tensor([[2.0, 1.0, 0.0]] * 2), whole_batch(columns))
    assert losses[1].item() == pytest.approx(0.940951, abs=1e-4)


def test_partial_labels_share_the_first_classes() -> None:
    rows, labels = labeled(3.0, 1.0, 2.0, -1.0)
    columns = fit_and_prepare(PartialLabels(), rows, labels).columns
    assert columns.values["target"].tolist() == [[1, 0, 0, 0], [0.5, 0, 0.5, 0]]
    log_f = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    losses = PartialLabels().example_losses(log_f.expand(2, 4), whole_batch(columns))
    assert losses[1].item() == pytest.approx(-(np.log(0.4) + np.log(0.2)) / 2, abs=1e-6)
    assert fit_and_prepare(PartialLabels(top=1), rows, labels).columns.values["target"][
        1
    ].tolist() == [1, 0, 0, 0]
    few = TeacherLabels.from_probs(np.arange(2), labels.probs, k=2)
    with pytest.raises(InputError, match="needs 3 classes per label; 2 are stored"):
        fit_and_prepare(PartialLabels(top=3), rows, few)


def test_partial_labels_share_nothing_with_classes_ruled_out() -> None:
    sure = TeacherLabels.from_probs(np.arange(3), np.eye(3))
    rows = Rows(np.arange(3), np.full(3, -1), np.arange(0), np.arange(0), 3)
    target = fit_and_prepare(PartialLabels(), rows, sure).columns.values["target"]
    assert target.tolist() == np.eye(3).tolist()
    with pytest.warns(
        NoisyTeacherWarning, match="of 3 classes does not distinguish between classes"
    ):
        fit_and_prepare(PartialLabels(top=3), rows, TeacherLabels.from_probs(sure.ids, np.eye(3)))


@pytest.mark.parametrize(
    ("method", "field"),
    [
        (lambda: CutStat(fraction=0.0), "fraction"),
        (lambda: CutStat(neighbours=1), "neighbours"),
        (lambda: CutStat(among=-1), "among"),
        (lambda: TruncatedGCE(threshold=1.0), "threshold"),
        (lambda: TruncatedGCE(start=2.0), "start"),
        (lambda: TruncatedGCE(q=2.0), "q"),
        (lambda: PartialLabels(top=0), "top"),
        (lambda: TTM(temperature=0.0), "temperature"),
    ],
)
def test_settings_out_of_range_are_named(method, field: str) -> None:
    with pytest.raises(InputError, match=field):
        method()


def test_truncation_leaves_planted_mistakes_out() -> None:
    rng = np.random.default_rng(0)
    x, truth = two_classes(rng, 2000)
    right = rng.random(2000) < 0.7
    labels = TeacherLabels.from_probs(np.arange(2000), said(right, truth, np.full(2000, 0.9)))
    problem = Problem(x, truth, make_rows(truth, 4, 100, 2), labels)
    output = train_linear(GCE(hard=True), problem)(x)
    method = TruncatedGCE(hard=True)
    columns = fit_and_prepare(method, problem.rows, labels).columns
    loss = method.loss(output, whole_batch(columns), None, DONE)
    (gradient,) = torch.autograd.grad(loss, output.logits)
    kept = (gradient.abs().sum(1) > 0).numpy()[104:]
    assert kept.mean() > 0.6
    assert right[104:].mean() < 0.75
    assert right[104:][kept].mean() > 0.97
