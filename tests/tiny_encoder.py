"""A Hugging Face text classifier of a few hundred weights, with its tokenizer, in a folder."""

from __future__ import annotations

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
