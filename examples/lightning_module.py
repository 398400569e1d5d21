"""SLaM in Lightning: a mixin adds the steps, and the loader joins the teacher's labels by id.

    python examples/lightning_module.py

The teacher is a random forest that was trained elsewhere; it labeled your digits, with mistakes.
"""

import lightning
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn
from torch.utils.data import DataLoader, StackDataset, TensorDataset

from noisyteacher.integrations.lightning import TeacherSteps
from noisyteacher.integrations.torch_data import JoinTeacher, TeacherColumns, teacher_loss
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import SLaMLoss
from noisyteacher.noise import TeacherNoise


class Student(TeacherSteps, lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)

    def student_loss(self, logits: Tensor, teacher: dict[str, Tensor]) -> Tensor:
        return teacher_loss(SLaMLoss(hard=True), logits, teacher)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 3e-3)


def main() -> None:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = torch.tensor(x[order] / 16, dtype=torch.float32), torch.tensor(y[order])
    ids = np.arange(len(x))
    teacher = RandomForestClassifier(50, max_depth=4, random_state=0).fit(x[1400:], y[1400:])
    labels = TeacherLabels.from_probs(ids[:1100], teacher.predict_proba(x[:1100]))
    noise = TeacherNoise().fit(labels.take(ids[:100]), y[:100])

    join = JoinTeacher(TeacherColumns(labels, noise, gold_ids=ids[:100], gold_y=y[:100]))
    loader = DataLoader(StackDataset(ids[:1100], x[:1100]), 64, shuffle=True, collate_fn=join)
    test = DataLoader(TensorDataset(x[1100:1400], y[1100:1400]), 512)

    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(max_epochs=15, logger=False, enable_checkpointing=False)
    trainer.fit(Student(), loader, test)
    print(f"teacher accuracy {teacher.score(x[1100:1400], y[1100:1400].numpy()):.3f}")
    print(f"student accuracy {trainer.callback_metrics['val_accuracy']:.3f}")


if __name__ == "__main__":
    main()
