"""Labeling by the workers of a Ray cluster.

This process cuts the files into shards, sends them to the workers, and saves what comes back, so
that only it needs the files and the store. A worker that dies, with its machine or alone, is
started again elsewhere, and its shard is labeled again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from noisyteacher.core.errors import InputError
from noisyteacher.core.user_code import import_extra
from noisyteacher.pipeline.labeling import LabeledShard, Say, Shard, ShardLabeler
from noisyteacher.pipeline.teachers import Teacher

_MOST_DEATHS = 100  # of a shard's worker: more is the fault of the shard
_SHARDS_AHEAD = 2  # per worker, so that none waits for its next one


class RayWorkers:
    """A runner for ``label_files``: actors that each hold the model.

    Args:
        open_teacher: opens the model, in the worker.
        address: of a running cluster, or "auto" for the one that this machine belongs to;
            "local" starts one on this machine.
        workers: how many; None: as many as the cluster has room for now.
        gpus: per worker, a fraction where several share one; None: 1 where there are GPUs.
    """

    def __init__(
        self,
        open_teacher: Callable[[], Teacher],
        address: str = "local",
        *,
        workers: int | None = None,
        gpus: float | None = None,
        say: Say = lambda text: None,
    ) -> None:
        self._ray = ray = import_extra("ray", "ray", "--ray needs Ray")
        if not ray.is_initialized():
            try:
                ray.init(address=address, log_to_driver=False)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"There is no Ray cluster at {address!r}: {' '.join(str(error).split())}"
                ) from error
        there = ray.cluster_resources()
        if gpus is None:
            gpus = 1.0 if there.get("GPU", 0) >= 1 else 0.0
        room = there.get("GPU", 0) / gpus if gpus else there.get("CPU", 0)
        self._count = workers or max(1, int(room))
        self._make, self._gpus, self._say = open_teacher, gpus, say
        say(
            f"Labeling with {self._count} Ray workers"
            + (f", {gpus:g} GPUs each." if gpus else " of one core each.")
        )

    def __call__(self, shards: Iterable[Shard], batch_size: int) -> Iterator[LabeledShard]:
        """Label shards in any order."""
        ray = self._ray
        actor = ray.remote(
            num_cpus=1, num_gpus=self._gpus, max_restarts=-1, max_task_retries=_MOST_DEATHS
        )(_Worker)
        workers = [actor.remote(self._make, batch_size) for _ in range(self._count)]
        try:
            yield from self._run(workers, iter(shards))
        finally:
            for worker in workers:
                ray.kill(worker)

    def _run(self, workers: list[Any], shards: Iterator[Shard]) -> Iterator[LabeledShard]:
        ray = self._ray
        flying: dict[Any, tuple[Any, Shard]] = {}
        lost: Counter[int] = Counter()

        def send(worker: Any, shard: Shard | None) -> None:
            if shard is not None:
                flying[worker.label.remote(shard)] = (worker, shard)

        for worker in workers * _SHARDS_AHEAD:
            send(worker, next(shards, None))
        while flying:
            (ready,), _ = ray.wait(list(flying), num_returns=1)
            worker, shard = flying.pop(ready)
            try:
                result, said = ray.get(ready)
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, InputError) else error from None
            except ray.exceptions.RayError as error:
                # Its answer was lost with the machine that held it, or it died too often.
                lost[shard.number] += 1
                died = isinstance(error, ray.exceptions.ActorDiedError)
                if died or lost[shard.number] > _MOST_DEATHS:
                    raise InputError(
                        f"The workers of Ray died at rows {shard.first_row} to "
                        f"{shard.first_row + len(shard.ids) - 1} of {shard.file} repeatedly: "
                        f"{' '.join(str(error).split())[:300]}"
                    ) from error
                send(worker, shard)
                continue
            send(worker, next(shards, None))
            for line in said:
                self._say(line)
            yield result


class _Worker:
    """Holds the model, and labels a shard at a time."""

    def __init__(self, open_teacher: Callable[[], Teacher], batch_size: int) -> None:
        self._labeler = ShardLabeler(open_teacher(), batch_size)

    def label(self, shard: Shard) -> tuple[LabeledShard, list[str]]:
        """The shard's labels, and what there is to tell."""
        said: list[str] = []
        return self._labeler.label(shard, said.append), said
