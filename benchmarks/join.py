"""What joining the teacher's columns by id adds to a training step. The bar: under 3 %.

    python benchmarks/join.py [--csv PATH] [--device cuda]

A step makes a batch of 128 images from single examples, moves it to the device, and trains a
student on it with `SLaMLoss`. "joined" finds the columns by id with `JoinTeacher`, in the same
process as the step (workers would hide it); "ready" is the same step with the batch's columns
already there as tensors, on the device. Steps of both kinds take turns in one run; the figures are
the best of each. On a busy machine two steps differ by more than the join takes: "join alone" times
nothing else. Students: ResNet-20 for 32 × 32 images and, for a step as small as any, an MLP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from measuring import parser_of, told, write_csv
from noisyteacher.integrations.torch_data import JoinTeacher, TeacherColumns, teacher_loss
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import SLaMLoss
from noisyteacher.models import ResNetCifar
from noisyteacher.noise import TeacherNoise

ROWS, GOLD, BATCH, WARM_UP = 50_000, 500, 128, 5
STORES = {"10 classes": (10, None), "top 20 of 1000": (1000, 20)}
Example = tuple[object, Tensor]


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    student: str
    store: str
    text_ids: bool

    def model(self) -> nn.Module:
        classes = STORES[self.store][0]
        if self.student == "ResNet-20":
            return ResNetCifar(20, classes).build()
        width = 1024
        return nn.Sequential(
            nn.Flatten(), nn.Linear(3072, width), nn.ReLU(), nn.Linear(width, classes)
        )

    def ids(self) -> np.ndarray:
        rows = np.arange(ROWS)
        return np.array([f"n{row % 1000:08d}_{row}" for row in rows]) if self.text_ids else rows

    def columns(self) -> TeacherColumns:
        classes, top = STORES[self.store]
        rng, ids = np.random.default_rng(0), self.ids()
        logits = 3 * rng.standard_normal((ROWS, classes), dtype=np.float32)
        labels = TeacherLabels.from_logits(ids, logits, k=top)
        y = rng.integers(0, classes, GOLD)
        noise = TeacherNoise(k=5).fit(labels.take(ids[:GOLD]), y)
        return TeacherColumns(labels, noise, ids[:GOLD], y)


def batches(setting: Setting, steps: int) -> Iterator[list[Example]]:
    """Shuffled examples, as a dataset would hand them out."""
    rng, ids = np.random.default_rng(1), setting.ids()
    images = torch.randn(1000, 3, 32, 32)
    for _ in range(steps):
        yield [(ids[row], images[row % len(images)]) for row in rng.integers(0, ROWS, BATCH)]


def seconds(action: Callable[[], object], device: torch.device) -> float:
    """Of the action and all the work it left to the device."""
    began = time.perf_counter()
    action()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def measure(setting: Setting, steps: int, device: torch.device) -> dict[str, float]:
    """Best milliseconds of both kinds of step and of the join alone, and what each adds."""
    torch.manual_seed(0)
    model = setting.model().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    join, loss = JoinTeacher(setting.columns()), SLaMLoss()

    def train_on(x: Tensor, teacher: dict[str, Tensor]) -> None:
        optimizer.zero_grad()
        on_device = {name: value.to(device) for name, value in teacher.items()}
        teacher_loss(loss, model(x.to(device)), on_device).backward()
        optimizer.step()

    def joined(examples: list[Example]) -> None:
        train_on(*join(examples))

    def ready(examples: list[Example], teacher: dict[str, Tensor]) -> None:
        train_on(default_collate([image for _, image in examples]), teacher)

    taken: dict[str, list[float]] = {"joined": [], "ready": [], "join": []}
    for examples in batches(setting, steps + WARM_UP):
        teacher = {name: value.to(device) for name, value in join(examples)[1].items()}
        turns = [("joined", lambda e=examples: joined(e))]
        turns.append(("ready", lambda e=examples, t=teacher: ready(e, t)))
        ids = [name for name, _ in examples]
        taken["join"].append(seconds(lambda i=ids: join.columns.join(i), device))
        # Whoever goes second finds the images in the cache.
        for name, action in turns if len(taken["ready"]) % 2 else turns[::-1]:
            taken[name].append(seconds(action, device))
    best = {name: 1e3 * min(times[WARM_UP:]) for name, times in taken.items()}
    return {
        "ready_ms": round(best["ready"], 3),
        "joined_ms": round(best["joined"], 3),
        "added_percent": round(100 * (best["joined"] / best["ready"] - 1), 2),
        "join_alone_ms": round(best["join"], 3),
        "join_alone_percent": round(100 * best["join"] / best["ready"], 2),
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=30, help="of ResNet-20; the MLP takes tenfold")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    device = torch.device(args.device)
    rows = []
    for student, store, text_ids in product(("ResNet-20", "MLP"), STORES, (False, True)):
        steps = args.steps if student == "ResNet-20" else 10 * args.steps
        figures = measure(Setting(student, store, text_ids), steps, device)
        kind = "text" if text_ids else "integer"
        row = {"student": student, "store": store, "ids": kind, "batch": BATCH}
        rows.append(told(row | figures))
    write_csv(args.csv, rows, device)


if __name__ == "__main__":
    main()
