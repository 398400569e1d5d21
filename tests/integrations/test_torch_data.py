"""Store columns joined to batches by id."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_teacher import CLASSES, small_problem
from torch.utils.data import DataLoader, StackDataset

from noisyteacher.core.errors import InputError, MissingIdsError
from noisyteacher.integrations.torch_data import JoinTeacher, TeacherColumns, teacher_loss
from noisyteacher.losses import SLaMLoss

SMALL = small_problem()


def columns_and_parts(text_ids: bool = False, k: int | None = None):
    labels = SMALL.labels(text_ids, k)
    noise = SMALL.noise(labels)
    known = slice(0, SMALL.val.stop)
    gold_ids, gold_y = SMALL.ids(text_ids)[known], SMALL.y[known]
    return TeacherColumns(labels, noise, gold_ids, gold_y), labels, noise


COLUMNS, LABELS, NOISE = columns_and_parts()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, SMALL.pool.stop - 1), min_size=1, max_size=40))
def test_join_is_the_store_row_by_row(positions: list[int]) -> None:
    joined = COLUMNS.join(SMALL.ids()[positions])
    for place, position in enumerate(positions):
        row = {name: value[place] for name, value in joined.items()}
        if position < SMALL.val.stop:
            assert row["teacher_probs"].tolist() == np.eye(CLASSES)[SMALL.y[position]].tolist()
            assert row["alpha"] == 1
        else:
            stored = LABELS.take(SMALL.ids()[[position]])
            trust = NOISE.predict(stored)
            assert row["teacher_probs"].tolist() == stored.probs[0].tolist()
            assert row["alpha"] == trust.alpha[0]
            assert row["k"] == trust.k[0]


@pytest.mark.parametrize("hard", [False, True])
def test_top_k_columns_give_the_loss_of_dense_ones(hard: bool) -> None:
    columns, labels, noise = columns_and_parts(k=3)
    ids = SMALL.ids()[SMALL.pool]
    trust = noise.predict(labels.take(ids))
    logits = torch.randn(len(ids), CLASSES)
    loss = SLaMLoss(hard=hard)
    dense = loss(logits, labels.take(ids).probs, trust.alpha, trust.k)
    teacher = columns.join(ids)
    assert teacher["topk_index"].shape == (len(ids), 3)
    torch.testing.assert_close(teacher_loss(loss, logits, teacher), dense)


def test_gold_rows_have_plain_cross_entropy_dense_and_top_k() -> None:
    ids, y = SMALL.ids()[:30], torch.from_numpy(SMALL.y[:30])
    logits = torch.randn(30, CLASSES)
    plain = torch.nn.functional.cross_entropy(logits, y)
    for columns in (COLUMNS, columns_and_parts(k=3)[0]):
        torch.testing.assert_close(teacher_loss(SLaMLoss(), logits, columns.join(ids)), plain)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("text_ids", [False, True])
def test_shuffled_loaders_join_the_right_rows(workers: int, text_ids: bool) -> None:
    columns = columns_and_parts(text_ids)[0]
    ids = SMALL.ids(text_ids)
    positions = torch.arange(SMALL.pool.stop)
    loader = DataLoader(
        StackDataset(ids, positions),
        batch_size=64,
        shuffle=True,
        num_workers=workers,
        collate_fn=JoinTeacher(columns),
        generator=torch.Generator().manual_seed(0),
    )
    seen = []
    for shown, teacher in loader:
        wanted = columns.join(ids[shown.numpy()])
        assert teacher.keys() == wanted.keys()
        for name, value in wanted.items():
            assert torch.equal(teacher[name], value)
        seen += shown.tolist()
    assert seen != sorted(seen)
    assert sorted(seen) == positions.tolist()


def test_a_collate_of_ones_own_is_used() -> None:
    join = JoinTeacher(COLUMNS, collate=lambda examples: "+".join(examples))
    batch, teacher = join([(SMALL.ids()[0], "a"), (SMALL.ids()[-1], "b")])
    assert batch == "a+b"
    assert len(teacher["alpha"]) == 2


def test_ids_may_be_a_tensor() -> None:
    ids = torch.from_numpy(SMALL.ids()[:8])  # whose items are tensors, too
    loader = DataLoader(StackDataset(ids, ids), batch_size=8, collate_fn=JoinTeacher(COLUMNS))
    (_, teacher), wanted = next(iter(loader)), COLUMNS.join(ids)
    assert torch.equal(teacher["teacher_probs"], wanted["teacher_probs"])
    with pytest.raises(InputError, match="all strings or all integers"):
        COLUMNS.join(list(ids[:, None]))


@pytest.mark.parametrize("workers", [0, 1])
def test_unknown_ids_are_named(workers: int) -> None:
    data = StackDataset([-5, *SMALL.ids().tolist()], list(range(SMALL.pool.stop + 1)))
    loader = DataLoader(data, num_workers=workers, collate_fn=JoinTeacher(COLUMNS))
    with pytest.raises(MissingIdsError, match="-5"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("gold_ids", "gold_y", "message"),
    [
        (["a"], [0], "'a' .* 1140 must both be strings or both integers"),
        ([1, 2], [0], r"2 gold ids do not match gold labels of shape \(1,\)"),
        ([1, 1], [0, 0], "unique"),
        ([1, 2], [0, 9], r"0\.\.3; found 9"),
        ([1, 2], [0, -1], r"0\.\.3; found -1"),
        ([1, 2], [0.0, 1.0], "whole numbers, not float64"),
    ],
)
def test_wrong_gold_is_refused(gold_ids: list, gold_y: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TeacherColumns(LABELS, NOISE, gold_ids, gold_y)
