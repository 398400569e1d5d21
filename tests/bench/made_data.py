"""Small datasets made on the spot, under the names and in the layouts of the paper's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

PARTS = {"train": 200, "test": 40}


def write_images(folder: Path, classes: int, side: int) -> None:
    """``train/<class>/*.png`` and ``test/<class>/*.png``, each class with a colour of its own."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (classes, 3))
    for part, rows in PARTS.items():
        for i in range(max(rows, classes)):
            y = i % classes
            picture = (colours[y] + rng.integers(-40, 41, (side, side, 3))).clip(0, 255)
            path = folder / part / f"class{y:03}" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture.astype(np.uint8)).save(path)


def write_celeba(folder: Path) -> None:
    """The official lists and a few faces without a face."""
    rng = np.random.default_rng(0)
    names = [f"{i:06}.jpg" for i in range(sum(PARTS.values()))]
    male = rng.integers(0, 2, len(names)) * 2 - 1
    images = folder / "img_align_celeba"
    images.mkdir(parents=True)
    for name in names:
        picture = rng.integers(0, 256, (22, 18, 3), dtype=np.uint8)
        Image.fromarray(picture).save(images / name)
    rows = [f"{n}  1 {m}" for n, m in zip(names, male, strict=True)]
    (folder / "list_attr_celeba.txt").write_text("\n".join([str(len(rows)), "Bald Male", *rows]))
    parts = [f"{n} {0 if i < PARTS['train'] else 2}" for i, n in enumerate(names)]
    (folder / "list_eval_partition.txt").write_text("\n".join(parts))


def write_reviews(folder: Path) -> None:
    """``aclImdb``: a good word or a bad one among others."""
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(40)]
    for part, rows in PARTS.items():
        for i in range(rows):
            kind, telling = (("pos", "lovely"), ("neg", "awful"))[i % 2]
            # A last word of the vocabulary that the test part lacks.
            only_here = ["zebra"] if part == "train" and i % 10 < 2 else []
            text = " ".join([*rng.choice(words, 12), telling, *only_here])
            path = folder / part / kind / f"{i}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def write_encoder(folder: Path) -> None:
    """A tiny BERT with random weights, and its tokenizer, as Hugging Face saves them."""
    import transformers

    folder.mkdir(parents=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, "lovely", "awful", *(f"word{i}" for i in range(40))]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=64,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
