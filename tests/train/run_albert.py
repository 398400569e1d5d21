"""A script the two-process test starts: a tiny random ALBERT on made-up token rows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from toy import small

from noisyteacher.data import Split
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import SLaM
from noisyteacher.models import TextEncoder
from noisyteacher.train import Problem, TrainData, train

ALBERT = {
    "model_type": "albert",
    "vocab_size": 40,
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
    "classifier_dropout_prob": 0.0,
}


class TokenViews:
    """Tokens are shown as they are."""

    has_strong = False

    def plain(self, x):
        return x

    def weak(self, x, generator):
        return x


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    tokens = torch.from_numpy(rng.integers(1, 40, (96, 12)))
    y = (tokens[:, 0].numpy() > 20).astype(np.int64)
    logits = np.stack([1 - 2 * y, 2 * y - 1], 1) * 1.5 + rng.normal(size=(96, 2))
    labels = TeacherLabels.from_logits(np.arange(96), logits.astype(np.float32))
    data = TrainData((tokens, torch.ones_like(tokens)), TokenViews(), 2)
    rows = np.arange(96)
    parts = Split(rows[:16], rows[16:48], rows[:0], rows[48:])
    model = TextEncoder("tiny", 2, pretrained=False, config=ALBERT)
    job = Problem(data, rows, y, parts, model).job("albert", SLaM(k=2), labels)
    (student,) = train(job, data, small(2), out=folder, quiet=True, device="cpu")
    if int(os.environ.get("RANK", "0")) == 0:
        state = {name: value.clone() for name, value in student.state.items()}
        save_file(state, folder / "albert.final.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
