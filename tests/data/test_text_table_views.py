"""Views of bags, token sequences and tables."""

from __future__ import annotations

import math

import pytest
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.data import BagViews, EncoderViews, TableViews


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bag(count: int = 500, entries: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    indices = torch.randint(0, 1000, (count, entries), generator=seeded(1))
    values = torch.rand(count, entries, generator=seeded(2)) + 0.1
    values[:, 30:] = 0  # padding
    indices[:, 30:] = 0
    return indices, values


@pytest.mark.parametrize(("view", "share"), [("weak", 0.1), ("strong", 0.6)])
def test_bag_entries_are_dropped_and_the_rest_scaled(view: str, share: float) -> None:
    indices, values = bag()
    shown_indices, shown = getattr(BagViews(), view)((indices, values), seeded())
    assert torch.equal(shown_indices, indices)
    real = values > 0
    kept = (shown != 0) & real
    torch.testing.assert_close(shown[kept], values[kept] / math.sqrt(1 - share))
    assert (shown[~real] == 0).all()
    assert abs(kept.sum() / real.sum() - (1 - share)) < 0.02
    assert values[real].min() > 0  # the stored bag is untouched
    # The expected squared length stays.
    assert abs(shown.square().sum() / values.square().sum() - 1) < 0.03


def test_bag_views_follow_their_generator() -> None:
    views = BagViews()
    assert views.has_strong
    assert torch.equal(views.weak(bag(), seeded(4))[1], views.weak(bag(), seeded(4))[1])
    assert not torch.equal(views.weak(bag(), seeded(4))[1], views.weak(bag(), seeded(5))[1])
    assert torch.equal(views.plain(bag())[1], bag()[1])
    assert torch.equal(BagViews(weak_drop=0).weak(bag(), seeded())[1], bag()[1])


def tokens(count: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(10, 500, (count, 20), generator=seeded(1))
    ids[:, 0] = 2
    ids[:, 14] = 3
    ids[:, 15:] = 0
    attention = torch.ones_like(ids)
    attention[:, 15:] = 0
    return ids, attention


@pytest.mark.parametrize("mask_id", [4, None])
def test_words_are_dropped_but_never_special_tokens(mask_id: int | None) -> None:
    ids, attention = tokens()
    views = EncoderViews(mask_id=mask_id, keep_ids=(2, 3))
    shown, seen = views.strong((ids, attention), seeded())
    changed = (shown != ids) if mask_id is not None else (seen != attention)
    assert not changed[:, 0].any()
    assert not changed[:, 14:].any()
    assert abs(changed[:, 1:14].float().mean() - 0.15) < 0.02
    if mask_id is None:
        assert torch.equal(shown, ids)
        assert (seen[changed] == 0).all()
    else:
        assert torch.equal(seen, attention)
        assert (shown[changed] == mask_id).all()
    assert torch.equal(ids, tokens()[0])
    assert torch.equal(attention, tokens()[1])


def test_the_first_token_stays_without_being_named() -> None:
    ids, attention = tokens()
    shown, _ = EncoderViews(strong_drop=0.9, mask_id=4).strong((ids, attention), seeded())
    assert torch.equal(shown[:, 0], ids[:, 0])


def test_weak_tokens_are_plain() -> None:
    views = EncoderViews()
    for view in (views.plain(tokens()), views.weak(tokens(), seeded())):
        assert torch.equal(view[0], tokens()[0])
        assert torch.equal(view[1], tokens()[1])


def test_tables_are_standardised() -> None:
    x = torch.tensor([[1.0, 2000.0], [3.0, 2004.0]])
    views = TableViews(mean=(2.0, 2002.0), std=(1.0, 2.0))
    expected = torch.tensor([[-1.0, -1.0], [1.0, 1.0]])
    assert torch.equal(views.plain(x), expected)
    assert torch.equal(views.weak(x, seeded()), expected)
    half = TableViews((2.0, 2002.0), (1.0, 2.0), dtype=torch.bfloat16)
    assert half.strong(x, seeded()).dtype == torch.bfloat16


def test_table_noise_and_dropout() -> None:
    x = torch.full((4000, 5), 7.0)
    dropping = TableViews((5.0,) * 5, (2.0,) * 5, strong_drop=0.2, strong_noise=0)
    shown = dropping.strong(x, seeded())
    assert set(shown.unique().tolist()) == {0.0, 1.0}
    assert abs((shown == 0).float().mean() - 0.2) < 0.02
    noisy = TableViews((5.0,) * 5, (2.0,) * 5, strong_drop=0, strong_noise=0.2, weak_noise=0.05)
    assert abs(noisy.strong(x, seeded()).std() - 0.2) < 0.01
    assert abs(noisy.strong(x, seeded()).mean() - 1) < 0.01
    assert abs(noisy.weak(x, seeded()).std() - 0.05) < 0.005
    assert torch.equal(noisy.strong(x, seeded(1)), noisy.strong(x, seeded(1)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BagViews(weak_drop=1.0), "weak_drop must be"),
        (lambda: BagViews(strong_drop=-0.1), "strong_drop must be"),
        (lambda: EncoderViews(strong_drop=2), "strong_drop must be"),
        (lambda: EncoderViews(mask_id=-1), "mask_id must be"),
        (lambda: TableViews((0.0, 1.0), (1.0,)), "2 means and 1 deviations"),
        (lambda: TableViews((0.0,), (0.0,)), "above 0"),
        (lambda: TableViews((0.0,), (1.0,), strong_noise=-1), "strong_noise must be"),
        (lambda: TableViews((0.0,), (1.0,), weak_drop=1), "weak_drop must be"),
    ],
)
def test_bad_settings(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]
