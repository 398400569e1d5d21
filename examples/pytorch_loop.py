"""SLaM in a PyTorch loop of your own: the three numbered places are all that changes.

    python examples/pytorch_loop.py

The teacher is a random forest that was trained elsewhere; it labeled your digits, with mistakes.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from torch import nn
from torch.utils.data import DataLoader, StackDataset

from noisyteacher.integrations.torch_data import JoinTeacher, TeacherColumns, teacher_loss
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import SLaMLoss
from noisyteacher.noise import TeacherNoise


def main() -> None:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = torch.tensor(x[order] / 16, dtype=torch.float32), y[order]
    ids = np.array([f"digit-{row}" for row in range(len(x))])
    gold, train, test = slice(0, 100), slice(0, 1100), slice(1100, 1400)

    # What you have: a few true labels, and a teacher's probabilities for everything, stored once.
    teacher = RandomForestClassifier(50, max_depth=4, random_state=0).fit(x[1400:], y[1400:])
    labels = TeacherLabels.from_probs(ids[train], teacher.predict_proba(x[train]))

    # 1. Measure how far the teacher can be trusted, on gold rows that it never saw.
    noise = TeacherNoise().fit(labels.take(ids[gold]), y[gold])
    columns = TeacherColumns(labels, noise, gold_ids=ids[gold], gold_y=y[gold])

    # 2. Let the loader join what the teacher said, by id.
    loader = DataLoader(
        StackDataset(ids[train], x[train]), 64, shuffle=True, collate_fn=JoinTeacher(columns)
    )

    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(student.parameters(), 3e-3)
    for _ in range(20):
        for batch, said in loader:
            loss = teacher_loss(SLaMLoss(hard=True), student(batch), said)  # 3. the loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    print(f"teacher accuracy {teacher.score(x[test], y[test]):.3f}")
    right = student(x[test]).argmax(1).numpy() == y[test]
    print(f"student accuracy {right.mean():.3f}")


if __name__ == "__main__":
    main()
