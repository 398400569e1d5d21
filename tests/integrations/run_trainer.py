"""Train a tiny encoder with a Hugging Face ``Trainer``; run by tests, also as two processes.

run_trainer.py FILE BATCH ACCUMULATION    batch and accumulation of each process
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before there is a group: its defaults would keep it
from safetensors.torch import save_file
from small_teacher import CLASSES, small_problem
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from noisyteacher.integrations.huggingface import TrainerLoss
from noisyteacher.integrations.torch_data import TeacherColumns

SMALL = small_problem()


class Examples(Dataset):
    """Token ids, one for each feature's sign and size, and a label."""

    def __init__(self, x: np.ndarray, labels: np.ndarray) -> None:
        self.tokens = np.clip(np.round(3 * x + 20), 1, 39).astype(np.int64)
        self.tokens += 40 * np.arange(x.shape[1])
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"input_ids": torch.from_numpy(self.tokens[row]), "labels": int(self.labels[row])}


def tiny_model() -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=240,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=8,
        num_labels=CLASSES,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def trainer_loss() -> TrainerLoss:
    labels = SMALL.labels()
    known = slice(0, SMALL.val.stop)
    return TrainerLoss(
        TeacherColumns(labels, SMALL.noise(labels), SMALL.ids()[known], SMALL.y[known])
    )


def make_trainer(folder: Path, **arguments: Any) -> Trainer:
    loss = trainer_loss()
    settings = {
        "output_dir": str(folder),
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "epoch",
        "disable_tqdm": True,
        "learning_rate": 3e-3,
        "seed": 1,
    } | arguments
    return Trainer(
        tiny_model(),
        TrainingArguments(**settings),
        train_dataset=Examples(SMALL.x[: SMALL.pool.stop], loss.label_column(SMALL.ids())),
        eval_dataset=Examples(SMALL.x[SMALL.test], SMALL.y[SMALL.test]),
        compute_loss_func=loss,
        compute_metrics=lambda p: {
            "accuracy": float((p.predictions.argmax(1) == p.label_ids).mean())
        },
    )


def main(file: str, batch: str, accumulation: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(
            Path(folder),
            per_device_train_batch_size=int(batch),
            gradient_accumulation_steps=int(accumulation),
            max_steps=3,
            optim="sgd",
            learning_rate=0.5,
            lr_scheduler_type="constant",
        )
        trainer.train()
        if trainer.is_world_process_zero():
            save_file(trainer.model.state_dict(), file)
    if dist.is_initialized():
        # Threads of a group that is left as it is may abort the process on its way out.
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
