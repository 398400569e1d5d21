"""A Hugging Face text classifier of a few hundred weights, with its tokenizer, in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from user_files import BAD, FILLER, GOOD

SPECIAL = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>"]


def save_classifier(folder: Path, classes: dict[int, str]) -> Path:
    """Write a random BERT with a tokenizer of the reviews' words."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = [*SPECIAL, *FILLER, *GOOD, *BAD]
    model = tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>")
    raw = tokenizers.Tokenizer(model)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="<cls> $A <sep>", special_tokens=[("<cls>", 2), ("<sep>", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="<cls>",
        sep_token="<sep>",
        mask_token="<mask>",
    ).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=300,
        id2label=classes,
        label2id={name: i for i, name in classes.items()},
    )
    torch.manual_seed(0)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def save_image_encoder(folder: Path, *, pooler: bool = True) -> Path:
    """Write a random ViT of a few thousand weights with its processor; images become 16 × 16."""
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=20,
        image_size=16,
        patch_size=8,
    )
    torch.manual_seed(0)
    kind = transformers.ViTModel if pooler else transformers.ViTForImageClassification
    kind(config).save_pretrained(folder)
    processor = {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": 16, "width": 16},
        "image_mean": [0.5] * 3,
        "image_std": [0.25] * 3,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder
