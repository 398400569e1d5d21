"""SLaM in scikit-learn: a pipeline whose pool is scaled like X, beside a tuned baseline.

    python examples/sklearn_classifier.py

Fifty digits have gold labels, about five of each. The teacher is a random forest that was trained
on 397 other digits, so it knows more than the gold labels do. It labeled your digits, with errors.
Accuracies are means over five random splits, with their standard deviations.
"""

import numpy as np
import sklearn
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

from noisyteacher.integrations.sklearn import SLaMClassifier


def one_split(seed: int) -> tuple[float, float, float]:
    """Test accuracy of the teacher, of gold labels alone and of the student."""
    x, y = load_digits(return_X_y=True)
    gold, rest = train_test_split(np.arange(len(x)), train_size=50, stratify=y, random_state=seed)
    pool, test, elsewhere = rest[:300], rest[300:-397], rest[-397:]
    teacher = RandomForestClassifier(50, max_depth=4, random_state=seed)
    teacher.fit(x[elsewhere], y[elsewhere])

    student = SLaMClassifier(random_state=seed).set_fit_request(
        X_pool=True, teacher_probs=True, teacher_probs_gold=True
    )
    pipe = Pipeline([("scale", MinMaxScaler()), ("student", student)], transform_input=["X_pool"])
    pipe.fit(
        x[gold],
        y[gold],
        X_pool=(x[pool],),  # a tuple of one: cross-validation never cuts it
        teacher_probs=(teacher.predict_proba(x[pool]),),
        teacher_probs_gold=teacher.predict_proba(x[gold]),  # NaN in rows it was trained on, if any
    )

    # What the gold labels reach without a teacher: logistic regression, its strength tuned.
    alone = Pipeline([("scale", MinMaxScaler()), ("model", LogisticRegression(max_iter=2000))])
    search = GridSearchCV(alone, {"model__C": [0.1, 1, 10, 100, 1000]}, cv=4)
    search.fit(x[gold], y[gold])
    if seed == 0:
        print(f"The first split: {student.verdict_}")
    teacher_score, gold_score, score = (m.score(x[test], y[test]) for m in (teacher, search, pipe))
    return teacher_score, gold_score, score


if __name__ == "__main__":
    sklearn.set_config(enable_metadata_routing=True)
    splits = np.array([one_split(seed) for seed in range(5)])
    for name, column in zip(["teacher", "gold only", "student"], splits.T, strict=True):
        print(f"{name} accuracy {column.mean():.3f} ± {column.std(ddof=1):.3f}")
