"""SLaM in a Hugging Face Trainer: a loss function, and a label column made from ids.

python examples/huggingface_trainer.py    # made-up reviews, a tiny new model, no download
"""

import tempfile

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from noisyteacher.integrations.huggingface import TrainerLoss
from noisyteacher.integrations.torch_data import TeacherColumns
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise

TINY = {"vocab_size": 10, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def reviews(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(n, 6) words by number and the class: a word below 3 makes it 0, one of 3 to 5 makes it 1."""
    y = rng.integers(0, 2, n)
    words = rng.integers(6, 10, (n, 6))
    words[np.arange(n), rng.integers(0, 6, n)] = 3 * y + rng.integers(0, 3, n)
    return words, y


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    words, y = reviews(1000, rng)
    ids = np.array([f"review-{row}" for row in range(len(y))])
    said = np.where(rng.random(len(y)) < 0.8, y, 1 - y)  # the teacher is right in 4 of 5
    labels = TeacherLabels.from_probs(ids, np.where(said[:, None] == [0, 1], 0.9, 0.1))

    gold, train, test = slice(0, 100), slice(0, 700), slice(700, None)
    noise = TeacherNoise().fit(labels.take(ids[gold]), y[gold])
    loss = TrainerLoss(TeacherColumns(labels, noise, gold_ids=ids[gold], gold_y=y[gold]))

    def examples(part: slice, column: np.ndarray) -> list[dict]:
        return [{"input_ids": words[part][i], "labels": int(y)} for i, y in enumerate(column)]

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            BertForSequenceClassification(BertConfig(**TINY)),
            TrainingArguments(folder, num_train_epochs=5, learning_rate=1e-3),
            train_dataset=examples(train, loss.label_column(ids[train])),
            eval_dataset=examples(test, y[test]),
            compute_loss_func=loss,
            compute_metrics=lambda p: {"accuracy": (p.predictions.argmax(1) == p.label_ids).mean()},
        )
        trainer.train()
        scores = trainer.evaluate()
    print(f"teacher accuracy {(said == y)[test].mean():.3f}")
    print(f"student accuracy {scores['eval_accuracy']:.3f}")


if __name__ == "__main__":
    main()
