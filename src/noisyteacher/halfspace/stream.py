"""Examples of a noisy halfspace: who labels the points, one sample, or a stream for many runs.

The noise is random classification noise, Massart noise, or a teacher with α(x): ``accuracy`` is the
true chance that a label is right, ``known_accuracy`` is what the learner knows of it. Functions of
x take points (..., d) and give (...).

Blocks of the stream are drawn ahead by worker threads while the learners work. Block number b has
a generator of its own, seeded by (seed, b), so the examples do not depend on the number of threads
and two runs never share a draw.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.reprs import ShortRepr
from noisyteacher.halfspace.conditions import check_alpha, check_count, check_noise
from noisyteacher.halfspace.shapes import Shape

_BLOCK_FLOATS = 2**20  # a block of points, 4 MB: small enough for the cache, large enough to fill

PointFunction = Callable[[Tensor], Tensor]
Seed = int | tuple[int, ...]


@dataclass(frozen=True)
class RandomNoise:
    """Every label is turned round with the same chance ``eta`` (RCN)."""

    eta: float

    def __post_init__(self) -> None:
        check_noise(self.eta)

    def accuracy(self, x: Tensor) -> float | Tensor:
        """1 − η, whatever the point."""
        return 1.0 - self.eta

    known_accuracy = accuracy


@dataclass(frozen=True)
class MassartNoise:
    """The label of x is turned round with chance η(x) ≤ ``bound``; only the bound is known."""

    eta: PointFunction
    bound: float

    def __post_init__(self) -> None:
        check_noise(self.bound)

    def accuracy(self, x: Tensor) -> float | Tensor:
        """1 − η(x), checked against the bound; x is (..., d)."""
        rate = _values(self.eta, x, "eta")
        if bool(((rate < 0.0) | (rate > self.bound)).any()):
            raise InputError(
                f"eta(x) gave values from {float(rate.min()):g} to {float(rate.max()):g}, outside "
                f"[0, bound={self.bound:g}]."
            )
        return 1.0 - rate

    def known_accuracy(self, x: Tensor) -> float | Tensor:
        """1 − bound."""
        return 1.0 - self.bound


@dataclass(frozen=True)
class NoisyTeacher:
    """The paper's teacher: right with chance α(x), which is known and is never ½."""

    alpha: PointFunction

    def accuracy(self, x: Tensor) -> float | Tensor:
        """α(x); x is (..., d)."""
        alpha = _values(self.alpha, x, "alpha")
        check_alpha(alpha)
        return alpha

    known_accuracy = accuracy


Noise = RandomNoise | MassartNoise | NoisyTeacher


def _values(function: PointFunction, x: Tensor, name: str) -> Tensor:
    values = torch.as_tensor(function(x), dtype=torch.float32, device=x.device)
    if values.shape not in (x.shape[:-1], torch.Size()):
        raise InputError(
            f"{name}(x) must give one value a point, shape {tuple(x.shape[:-1])}, not "
            f"{tuple(values.shape)}."
        )
    return values.expand(x.shape[:-1])


@dataclass(frozen=True, repr=False)
class Block(ShortRepr):
    """Some steps of all runs, laid out for the learners: the runs are the last axis."""

    x: Tensor  # (steps, dim, runs) float32
    y0: Tensor  # (steps, runs) float32: 1 where the noisy label is +1, else 0
    alpha: float | Tensor  # what the learner is told; a tensor has shape (steps, runs)

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, repr=False)
class Examples(ShortRepr):
    """A plain sample."""

    x: np.ndarray  # (n, dim) float32
    y: np.ndarray  # (n,) int64, noisy labels -1 and +1
    truth: np.ndarray  # (n,) int64, true labels -1 and +1
    alpha: np.ndarray  # (n,) float32, what the learner is told


@dataclass(frozen=True)
class NoisyHalfspace:
    """A halfspace problem: where the points lie and who labels them."""

    shape: Shape
    noise: Noise

    def sample(self, n: int, seed: Seed = 0) -> Examples:
        """Draw n examples."""
        check_count("n", n)
        block = self._draw(n, 1, seed, 0, torch.device("cpu"))
        alpha = torch.as_tensor(block.alpha, dtype=torch.float32).expand(n, 1)
        return Examples(
            x=block.x[:, :, 0].numpy(),
            y=_signs(block.y0[:, 0]),
            truth=_signs(self.shape.positive(block.x)[:, 0]),
            alpha=alpha[:, 0].numpy().copy(),
        )

    def stream(
        self, runs: int, steps: int, seed: Seed = 0, device: torch.device | str = "cpu"
    ) -> Iterator[Block]:
        """Yield blocks that hold ``steps`` fresh examples for each of ``runs`` runs in all."""
        check_count("runs", runs)
        check_count("steps", steps)
        device = torch.device(device)
        length = max(1, min(steps, _BLOCK_FLOATS // (runs * self.shape.dim)))
        lengths = [min(length, steps - start) for start in range(0, steps, length)]
        if device.type != "cpu":
            # The device works ahead by itself.
            for index, size in enumerate(lengths):
                yield self._draw(size, runs, seed, index, device)
            return
        yield from self._drawn_ahead(lengths, runs, seed)

    def _drawn_ahead(self, lengths: list[int], runs: int, seed: Seed) -> Iterator[Block]:
        workers = max(1, min(4, os.cpu_count() or 1))
        waiting: deque[Future[Block]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            for index, size in enumerate(lengths):
                waiting.append(
                    pool.submit(self._draw, size, runs, seed, index, torch.device("cpu"))
                )
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    @torch.no_grad()
    def _draw(self, steps: int, runs: int, seed: Seed, index: int, device: torch.device) -> Block:
        generator = torch.Generator(device).manual_seed(_block_seed(seed, index))
        x = torch.empty((steps, self.shape.dim, runs), device=device)
        self.shape.fill(x, generator)
        points = x.movedim(1, 2)
        chance = torch.empty((steps, runs), device=device).uniform_(generator=generator)
        right = chance < self.noise.accuracy(points)
        y0 = (right == self.shape.positive(x)).float()
        return Block(x, y0, self.noise.known_accuracy(points))


def _signs(positive: Tensor) -> np.ndarray:
    return np.where(positive.numpy() > 0, 1, -1)


def _block_seed(seed: Seed, index: int) -> int:
    """A 32-bit seed (all that a CPU generator takes): another one for every index."""
    start = int(np.random.SeedSequence(seed).generate_state(1)[0])
    # An odd factor and shifted exclusive-ors are one-to-one on 32 bits.
    word = (start + index) & 0xFFFFFFFF
    for factor in (0x85EBCA6B, 0xC2B2AE35):
        word ^= word >> 16
        word = (word * factor) & 0xFFFFFFFF
    return word ^ (word >> 16)
