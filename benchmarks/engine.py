"""Training speed: the engine against a plain PyTorch loop of the same model, in one run.

The loop runs twice: eagerly, and with ``torch.compile(mode="reduce-overhead")``, which captures the
model in CUDA graphs, as the engine does, and is what a user would try first. The eager loop is as
fast as the host's CPU launches kernels, so the compiled one is the fairer rival.

On a GPU (ResNet-56 v1, 32×32, bfloat16, augmentation and label fetch in):

    python benchmarks/engine.py --csv benchmarks/engine-gpu.csv

On a CPU (ResNet-20 v1, float32):

    python benchmarks/engine.py --device cpu --csv benchmarks/engine-cpu.csv

The compiled loop needs a C++ compiler and takes a minute to compile, so on a CPU it is left out
unless ``--compiled`` asks for it. Images are random: speed does not depend on what they show.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from measuring import parser_of, told, write_csv
from noisyteacher.data import ImageViews, Split, image_tensor
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Consistency, Method, SLaM, Vanilla
from noisyteacher.models import ResNetCifar
from noisyteacher.models.layers import Conv3x3, NormAct
from noisyteacher.train import Job, Problem, TrainConfig, TrainData, train

CLASSES = 100


def make_data(rows: int, seed: int = 0) -> tuple[TrainData, TeacherLabels, np.ndarray]:
    """Random images, laid out as the decoded cache has them, with random teacher labels."""
    rng = np.random.default_rng(seed)
    images = image_tensor(rng.integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8))
    logits = rng.normal(size=(rows, CLASSES)).astype(np.float32) * 2
    labels = TeacherLabels.from_logits(np.arange(rows), logits)
    views = ImageViews(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    return TrainData(images, views, CLASSES), labels, rng.integers(0, CLASSES, rows)


def jobs_for(
    methods: list[Method], depth: int, data: TrainData, labels: TeacherLabels, y: np.ndarray
) -> list[Job]:
    rows = len(y)
    gold, val, pool = np.split(
        np.random.default_rng(0).permutation(rows), [rows // 10, rows // 10 + 500]
    )
    problem = Problem(
        data,
        np.arange(rows),
        y,
        Split(gold, val, pool[:0], pool),
        ResNetCifar(depth=depth, classes=CLASSES, version=1),
    )
    return [
        problem.job(f"{i}_{type(method).__name__}", method, labels, seed=i)
        for i, method in enumerate(methods)
    ]


class LoopSpeed(NamedTuple):
    """What a plain loop reached, and how long its first ten steps took (compiling included)."""

    images_per_second: float
    warm_up_seconds: float


def plain_loop(
    data: TrainData,
    labels: TeacherLabels,
    depth: int,
    batch: int,
    steps: int,
    device: str,
    compiled: bool = False,
) -> LoopSpeed:
    """The loop everyone writes first: same augmentation, labels by index, PyTorch's own layers.

    ``compiled`` wraps the model in ``torch.compile(mode="reduce-overhead")``; augmentation and
    optimizer stay eager.
    """
    NormAct.fused = Conv3x3.fused = False
    model = ResNetCifar(depth=depth, classes=CLASSES, version=1).build().to(device)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if compiled:
        # Otherwise a second batch size would be compiled for sizes of any kind, and run slower.
        torch.compiler.reset()
        model = torch.compile(model, mode="reduce-overhead", dynamic=False)
    images = data.inputs.to(device)
    targets = torch.from_numpy(labels.probs).to(device)
    generator = torch.Generator(device)
    bf16 = device == "cuda"
    _wait(device)
    warming = began = time.perf_counter()
    for step in range(-10, steps):
        if step == 0:
            _wait(device)
            began = time.perf_counter()
        index = torch.randint(len(images), (batch,), device=device)
        x = data.views.weak(images[index], generator)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=bf16):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), targets[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    _wait(device)
    seconds = time.perf_counter() - began
    NormAct.fused = Conv3x3.fused = True
    return LoopSpeed(steps * batch / seconds, began - warming)


def engine(
    jobs: list[Job], data: TrainData, batch: int, steps: int, epochs: int, device: str
) -> dict[str, float]:
    """Summed images/s over the students, seconds to the first step, and memory per student."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    config = TrainConfig(epochs=epochs, batch_size=batch, steps_per_epoch=steps, eval_every=epochs)
    began = time.perf_counter()
    done = train(jobs, data, config, device=device, cohort=len(jobs), quiet=True)
    wall = time.perf_counter() - began
    # On a GPU all students share the same seconds; on a CPU they follow one another.
    seconds = [student.history.seconds for student in done]
    busy = max(seconds) if device == "cuda" else sum(seconds)
    result = {
        "images_per_second": sum(student.history.examples for student in done) / busy,
        "seconds_to_first_step": wall - busy,
    }
    if device == "cuda":
        result["peak_mib_per_student"] = (
            (torch.cuda.max_memory_allocated() - before) / len(jobs) / 2**20
        )
    return result


def data_seconds(data: TrainData, batch: int, steps: int, device: str) -> float:
    """Seconds per step that go into fetching rows and making the weak view, nothing else."""
    images, generator = data.inputs.to(device), torch.Generator(device)
    began = 0.0
    for step in range(-3, steps):
        if step == 0:
            _wait(device)
            began = time.perf_counter()
        index = torch.randint(len(images), (batch,), device=device)
        data.views.weak(images.index_select(0, index), generator)
    _wait(device)
    return (time.perf_counter() - began) / steps


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def cases(device: str) -> list[tuple[str, int, int, list[Method]]]:
    """(name, depth, batch, methods); the plain loops are measured per (depth, batch)."""
    if device == "cpu":
        return [("one student", 20, 128, [Vanilla()]), ("one student, SLaM", 20, 128, [SLaM()])]
    return [
        ("one student", 56, 128, [Vanilla()]),
        ("one student", 56, 256, [Vanilla()]),
        ("one student, SLaM", 56, 256, [SLaM()]),
        ("cohort of 8", 56, 256, [Vanilla()] * 4 + [SLaM()] * 4),
        ("cohort of 8, two views", 56, 256, [Consistency(inner=SLaM())] * 8),
    ]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, help="steps per epoch (default 100, 10 on a CPU)")
    parser.add_argument("--only", help="run only the cases whose name holds this text")
    parser.add_argument(
        "--compiled",
        action=argparse.BooleanOptionalAction,
        help="also time the plain loop with torch.compile (default: on a GPU)",
    )
    args = parser.parse_args()
    steps = args.steps or (10 if args.device == "cpu" else 100)
    with_compiled = args.device == "cuda" if args.compiled is None else args.compiled
    data, labels, y = make_data(5_000 if args.device == "cpu" else 50_000)
    plain: dict[tuple[int, int], LoopSpeed] = {}
    compiled: dict[tuple[int, int], LoopSpeed] = {}
    rows = []
    for name, depth, batch, methods in cases(args.device):
        if args.only and args.only not in name:
            continue
        size = (depth, batch)
        if size not in plain:
            plain[size] = plain_loop(data, labels, *size, steps, args.device)
            if with_compiled:
                compiled[size] = plain_loop(data, labels, *size, steps, args.device, compiled=True)
        jobs = jobs_for(methods, depth, data, labels, y)
        measured = engine(jobs, data, batch, steps, 3, args.device)
        row = {
            "case": name,
            "model": f"ResNet-{depth} v1",
            "batch": batch,
            "students": len(methods),
            "plain_images_per_second": round(plain[size].images_per_second),
            "images_per_second": round(measured["images_per_second"]),
            "ratio": round(measured["images_per_second"] / plain[size].images_per_second, 2),
            "seconds_to_first_step": round(measured["seconds_to_first_step"], 1),
            "peak_mib_per_student": round(measured.get("peak_mib_per_student", 0)),
        }
        if with_compiled:
            rival = compiled[size]
            row |= {
                "compiled_images_per_second": round(rival.images_per_second),
                "ratio_to_compiled": round(
                    measured["images_per_second"] / rival.images_per_second, 2
                ),
                "compile_seconds": round(rival.warm_up_seconds, 1),
            }
        if args.device == "cpu":
            # On a GPU the views are part of the captured step and cannot be timed beside it.
            step = batch / measured["images_per_second"]
            row["data_share_of_step"] = round(data_seconds(data, batch, steps, "cpu") / step, 4)
        rows.append(told(row))
    write_csv(args.csv, rows, args.device)


if __name__ == "__main__":
    main()
