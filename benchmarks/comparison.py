"""What one comparison costs: a teacher and six students on CIFAR-100, and the same by a plain loop.

    python benchmarks/comparison.py --data DIR --csv benchmarks/comparison-gpu.csv

Runs `noisyteacher bench cifar100 --labeled 5000 --trials 1` with six one-view methods, from nothing
to rows, then times the plain eager loop of `engine.py` on a few epochs of both networks. What that
loop would need for the same steps, one student after another, is computed from those epochs;
evaluation is left out of it.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from engine import make_data, plain_loop
from measuring import parser_of, told, write_csv
from noisyteacher.bench import run_recipe
from noisyteacher.bench.method_sets import parse_methods
from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.recipes.images import cifar100
from noisyteacher.models import ResNetCifar

# The paper's methods with hard labels (UPS has no hard form), and calibration around one of them.
METHODS = (
    "Vanilla(hard=True);TaylorCE(hard=True);VID(hard=True);Weighted(hard=True);SLaM(hard=True);"
    "Calibrated(TaylorCE(hard=True))"
)
TRAINING_ROWS = 50_000


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds cifar100/")
    parser.add_argument("--out", type=Path, help="keep the run here; default: nowhere")
    parser.add_argument("--methods", default=METHODS, help="default: %(default)s")
    parser.add_argument("--labeled", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--plain-epochs", type=float, default=2, help="of the plain loop")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    recipe = replace(
        cifar100(), labeled=(args.labeled,), methods=parse_methods(args.methods), trials=1
    ).with_student(args.epochs)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as nowhere:
        rows = run_recipe(recipe, args.out or nowhere, data=args.data, device=args.device)
    seconds = time.perf_counter() - began
    plain = plain_seconds(recipe, args.plain_epochs, args.device)
    result = {
        "students": len(rows),
        "epochs": args.epochs,
        "minutes": round(seconds / 60, 2),
        "plain_loop_minutes": round(plain / 60, 2),
        "ratio": round(plain / seconds, 2),
    }
    write_csv(args.csv, [told(result)], args.device)


def plain_seconds(recipe: Recipe, epochs: float, device: str) -> float:
    """The plain loop's time for teacher, pre-training and all students."""
    labeled = recipe.labeled[0]
    student = recipe.student_training
    students = len(recipe.methods) * student.epochs * (TRAINING_ROWS - recipe.selection)
    training = recipe.pretraining
    examples = {
        recipe.student: students + (training.epochs * labeled if training else 0),
        recipe.teacher: recipe.teacher_training.epochs * labeled,
    }
    data, labels, _ = make_data(TRAINING_ROWS)
    steps = max(1, int(epochs * TRAINING_ROWS / student.batch_size))
    total = 0.0
    for model, count in examples.items():
        assert isinstance(model, ResNetCifar)
        batch = student.batch_size
        rate = plain_loop(data, labels, model.depth, batch, steps, device).images_per_second
        print(f"plain loop, ResNet-{model.depth}: {rate:,.0f} images/s", flush=True)
        total += count / rate
    return total


if __name__ == "__main__":
    main()
