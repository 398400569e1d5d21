"""SLaM in scikit-learn: a pipeline whose pool is scaled like X, beside a tuned baseline.

    python examples/sklearn_classifier.py

The teacher is a random forest that was trained elsewhere; it labeled your digits, with mistakes.
"""

import numpy as np
import sklearn
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

from noisyteacher.integrations.sklearn import SLaMClassifier


def main() -> None:
    sklearn.set_config(enable_metadata_routing=True)
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(x))
    x, y = x[order], y[order]
    gold, pool, test, elsewhere = (
        slice(0, 40),
        slice(40, 1100),
        slice(1100, 1400),
        slice(1400, None),
    )
    teacher = RandomForestClassifier(50, max_depth=4, random_state=0)
    teacher.fit(x[elsewhere], y[elsewhere])

    student = SLaMClassifier(random_state=0).set_fit_request(
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
    search = GridSearchCV(alone, {"model__C": [0.1, 1, 10, 100, 1000]}, cv=KFold(5))
    search.fit(x[gold], y[gold])
    print(f"teacher accuracy {teacher.score(x[test], y[test]):.3f}")
    print(f"gold only accuracy {search.score(x[test], y[test]):.3f} (tuned logistic regression)")
    print(f"student accuracy {pipe.score(x[test], y[test]):.3f}")
    print(student.verdict_)


if __name__ == "__main__":
    main()
