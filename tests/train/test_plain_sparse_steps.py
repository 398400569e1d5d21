"""Students of words against the same training in dense matrices and plain PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from test_sparse_steps import CLASSES, ROWS, WORDS, columns_of, problem

from noisyteacher.data import BagViews
from noisyteacher.methods import Consistency, Method, Output, SLaM, Vanilla
from noisyteacher.train import Adam, Cosine, TrainConfig
from noisyteacher.train.sparse_steps import _steps, train_on_words

CONFIG = TrainConfig(
    3, 32, Adam(0.05, weight_decay=0.2), Cosine(warmup=0.3), gold_repeat=3, steps_per_epoch=7
)
VIEWS = BagViews(0.2, 0.6)


def dropped(x: csr_matrix, share: float, rng: np.random.Generator) -> torch.Tensor:
    """Words that stay are longer, so that rows keep their mean length."""
    chance = rng.random(x.nnz, np.float32)
    dense, place = np.zeros(x.shape, np.float32), 0
    for row in range(x.shape[0]):
        for at in range(x.indptr[row], x.indptr[row + 1]):
            if chance[place] >= share:
                dense[row, x.indices[at]] = x.data[at] / (1 - share) ** 0.5
            place += 1
    return torch.from_numpy(dense)


def plain(x: csr_matrix, method: Method, columns, seed: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    weight = torch.zeros(WORDS, CLASSES, requires_grad=True)
    bias = torch.zeros(CLASSES, requires_grad=True)
    adam = torch.optim.AdamW([weight, bias], lr=0.05, weight_decay=0.2)
    entries = [*range(ROWS)]
    for _ in range(CONFIG.gold_repeat - 1):
        entries += [row for row in range(ROWS) if columns.y[row] >= 0]
    for epoch in range(CONFIG.epochs):
        rng = np.random.default_rng([seed, epoch])
        order: list[int] = []
        while len(order) < 7 * 32:
            order += rng.permutation(entries).tolist()
        rates = CONFIG.schedule.factors(epoch, CONFIG.epochs, 7)
        for step in range(7):
            rows = np.array(order[32 * step : 32 * step + 32])
            weak = dropped(x[rows], 0.2, rng) @ weight + bias
            strong = None
            if "strong" in method.views:
                strong = dropped(x[rows], 0.6, rng) @ weight + bias
            done = torch.tensor((7 * epoch + step) / (7 * CONFIG.epochs))
            batch = columns.batch(torch.from_numpy(rows))
            loss = method.loss(Output(weak, strong=strong), batch, None, done)
            adam.param_groups[0]["lr"] = 0.05 * float(rates[step])
            adam.zero_grad()
            loss.backward()
            adam.step()
    return weight.detach().numpy().T, bias.detach().numpy()


class Ramped(Vanilla):
    """A loss that depends on how far the training has come."""

    def loss(self, output, batch, modules, progress):  # type: ignore[no-untyped-def]
        return super().loss(output, batch, modules, progress) * (1 + 3 * progress)


@pytest.mark.parametrize("method", [Vanilla(), Ramped(), Consistency(SLaM())], ids=repr)
def test_steps_on_sparse_rows_equal_those_on_dense_ones(method: Method) -> None:
    x, y, labels = problem()
    columns = columns_of(method, y, labels).columns
    ours = train_on_words(x, method, columns, CLASSES, config=CONFIG, views=VIEWS, seed=4)
    weight, bias = plain(x, method, columns, 4)
    np.testing.assert_allclose(ours.weight, weight, atol=2e-4)
    np.testing.assert_allclose(ours.bias, bias, atol=2e-4)


def test_an_epoch_shows_every_row_and_is_long_enough() -> None:
    assert [_steps(rows, 256) for rows in (10, 900, 1800, 3000, 12_000, 25_600, 25_601)] == [
        *(15, 15, 30, 50, 50),
        *(100, 101),
    ]
