"""scikit-learn: a classifier that learns from gold labels and from a teacher's labels of a pool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import nn

from noisyteacher.choose.evidence import DecisionRows
from noisyteacher.choose.folds import LEAST_ROWS, input_groups
from noisyteacher.choose.linear_choice import (
    FOLDS,
    choose_linear,
    default_methods,
    linear_candidates,
)
from noisyteacher.choose.verdict import gold_verdict, verdict
from noisyteacher.core.errors import InputError, first_few, warn
from noisyteacher.data import BagViews, TableViews
from noisyteacher.data.text import padded_bags
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import PRETRAINED, GoldOnly, Method, Rows, SLaM, fit_and_prepare, parse
from noisyteacher.models import BagLinear, CustomModel, Linear, ModelLike, ModelSpec, as_spec
from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.preparation import can_cross_fit, fit_noise
from noisyteacher.train import Adam, BuildsModel, Cosine, Inputs, Job, TrainConfig, TrainData, train
from noisyteacher.train.solver import LinearFit

PREDICT_ROWS = 4096
_DENSE = 0.2  # share of numbers other than 0 above which rows are solved as dense ones
EPOCHS = 10  # parts that the steps of a fit are divided into; methods may look back between them


class SLaMClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # no types shipped
    """A classifier trained on a few gold labels and on a teacher's labels of a large pool.

    Without ``X_pool`` it is trained on the gold labels alone. In cross-validation and parameter
    searches, wrap the pool in tuples: ``X_pool=(X_pool,), teacher_probs=(teacher_probs,)``.
    Scikit-learn would split arrays that have as many rows as X, but never splits tuples.
    ``Pipeline(..., transform_input=["X_pool"])`` transforms what is inside a tuple in the same way
    as X.

    Linear students are trained as in ``distill``: students of several methods and regularization
    strengths are cross-validated on the gold rows and averaged with weights. Columns are not
    scaled, so scale them if their units differ. Networks, and linear students of methods that need
    an optimizer (``Consistency``), are trained in steps, on standardized columns if X is dense.

    Args:
        student: "linear"; a torch module from (b, features) to logits, of which every fit trains a
            copy; a function that returns one, without arguments or with the numbers of features and
            classes; or the settings of a model, or their class (``models.MLP``).
        method: the method, which may be given as text. None averages the methods that ``distill``
            uses for a linear student; for a network it is ``SLaM()``.
        classes: all classes, in the order of the teacher's columns. None takes those of y, sorted.
        folds: the number of folds in which linear students are compared on the gold rows.
        metric: the score by which linear students are compared, "accuracy" or "macro_f1".
        steps: the number of optimizer steps of a network (Adam with a cosine schedule).
        batch_size: rows per step, gold and pool together; at most all rows.
        learning_rate, weight_decay: settings of Adam.
        gold_repeat: how often each gold row is shown for every time that a pool row is shown.
        random_state: the seed of the folds, of a network's initial weights and of the order of
            rows.
        device: where to train a network, such as "cpu" or "cuda". Predictions are made on the CPU.

    After ``fit``: ``classes_``, ``n_features_in_`` and ``noise_`` (the fitted ``TeacherNoise``, or
    None). A linear student has ``coef_`` and ``intercept_`` (its logits are ``X @ coef_.T +
    intercept_``), ``out_of_fold_score_`` (its score on gold rows that it was not trained on,
    corrected for the choice of weights) and ``verdict_`` (a text that compares this score with the
    teacher's and with that of the gold labels alone). A network has ``network_`` and ``views_``
    (which turn rows into its inputs).
    """

    classes_: np.ndarray
    noise_: TeacherNoise | None
    coef_: np.ndarray  # (L, d)
    intercept_: np.ndarray  # (L,)
    out_of_fold_score_: float
    verdict_: str
    network_: nn.Module
    views_: TableViews | BagViews

    def __init__(
        self,
        student: str | ModelLike | Callable[[int, int], Any] = "linear",
        *,
        method: Method | str | None = None,
        classes: Sequence[Any] | None = None,
        folds: int = FOLDS,
        metric: str = "accuracy",
        steps: int = 1000,
        batch_size: int = 256,
        learning_rate: float = 0.01,
        weight_decay: float = 0.1,
        gold_repeat: int = 1,
        random_state: Any = None,
        device: str = "cpu",
    ) -> None:
        self.student = student
        self.method = method
        self.classes = classes
        self.folds = folds
        self.metric = metric
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.gold_repeat = gold_repeat
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_pool: Any = None,
        teacher_probs: Any = None,
        teacher_probs_gold: Any = None,
    ) -> Self:
        """Train on gold labels, and on a teacher's labels if they are given.

        Args:
            X, y: gold rows (n, d), dense or sparse, and their true classes (n,).
            X_pool: rows without labels (m, d), as an array or a tuple of one.
            teacher_probs: (m, L) the teacher's probabilities for these rows, in the order of
                ``classes``; as an array or a tuple of one. The columns of a data frame are found by
                name if they are called like the classes.
            teacher_probs_gold: (n, L) the teacher's probabilities for the gold rows, with NaN in
                rows that it was trained on or did not label. The noise model is fitted on the rows
                without NaN. By default, the teacher's probabilities are used as they are, with a
                warning, because most teachers are overconfident.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float32)
        y = self._encoded(y)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if X_pool is None:
            if teacher_probs is not None or teacher_probs_gold is not None:
                raise InputError("The teacher's probabilities require X_pool.")
            none = np.empty(0, np.int64)
            return self._learn(X, Rows(np.arange(len(y)), y, none, none, len(self.classes_)), seed)
        pool = self._checked_pool(_unwrapped(X_pool), X)
        if not isinstance(X_pool, tuple) and pool.shape[0] == len(y):
            warn(
                "X_pool has as many rows as X. If a search or cross-validation called fit, it has "
                "split the pool like X; to avoid this, pass X_pool=(X_pool,) and "
                "teacher_probs=(teacher_probs,)."
            )
        if teacher_probs_gold is None:
            warn(
                "Without teacher_probs_gold the teacher's accuracy cannot be measured, so its "
                "probabilities are used as they are; give its probabilities on gold rows that it "
                "was not trained on."
            )
        probs = _unwrapped(teacher_probs)
        labels = self._teacher_labels(probs, teacher_probs_gold, len(y), pool.shape[0])
        truth = np.concatenate([y, np.full(pool.shape[0], -1)])
        val_ids, val_y = _validation(labels, y, seed)
        if teacher_probs_gold is not None:
            right = float(np.mean(labels.take(val_ids).hard == val_y))
            if right <= 1 / len(self.classes_):
                # The likeliest reason is columns in another order.
                warn(
                    f"The teacher is right on {right:.1%} of the gold rows, no more than chance. "
                    "Are its columns in the order of `classes` (by default the sorted classes of "
                    "y)?"
                )
        rows = Rows(np.arange(len(truth)), truth, val_ids, val_y, len(self.classes_))
        stack = sparse.vstack if sparse.issparse(X) else np.concatenate
        return self._learn(stack([X, pool]), rows, seed, labels)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, L) probabilities of ``classes_``."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        if hasattr(self, "coef_"):
            return np.asarray(softmax(LinearFit(self.coef_, self.intercept_).logits(X), axis=1))
        if isinstance(self.views_, BagViews) != sparse.issparse(X):
            X = X.toarray() if sparse.issparse(X) else sparse.csr_matrix(X)
        blocks = [X[at : at + PREDICT_ROWS] for at in range(0, X.shape[0], PREDICT_ROWS)]
        return np.concatenate([self._probs(block) for block in blocks])

    def predict(self, X: Any) -> np.ndarray:
        """(n,) the most probable class of each row."""
        chosen = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[chosen])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _encoded(self, y: Any) -> np.ndarray:
        """(n,) int64 positions in ``classes_``, which it sets."""
        check_classification_targets(y)
        found = np.unique(y)
        named = found if self.classes is None else np.asarray(self.classes)
        if named.ndim != 1:
            raise InputError(f"classes must be a list of classes, not {self.classes!r}.")
        # Sorted, as scorers and ensembles of scikit-learn expect; the teacher's columns follow.
        self.classes_, self._teacher_columns = np.unique(named, return_index=True)
        if len(self.classes_) != len(named):
            raise InputError(f"classes must differ from one another, not {self.classes!r}.")
        if len(self.classes_) < 2:
            raise InputError(
                f"SLaMClassifier needs 2 classes or more, not 1 class: {found.tolist()[0]!r}."
            )
        strange = np.setdiff1d(found, self.classes_)
        if len(strange):
            raise InputError(
                f"y has classes that are not in classes: {first_few(strange.tolist())}."
            )
        return np.asarray(np.searchsorted(self.classes_, y), np.int64)

    def _checked_pool(self, pool: Any, X: Any) -> Any:
        """The pool, as wide as X and dense or sparse like X."""
        if np.shape(pool)[1:] != X.shape[1:]:
            raise InputError(
                f"X_pool must have {X.shape[1]} columns like X, not shape {np.shape(pool)}; in a "
                'Pipeline, transform_input=["X_pool"] transforms it like X.'
            )
        pool = validate_data(self, pool, accept_sparse="csr", dtype=np.float32, reset=False)
        if sparse.issparse(X):
            return sparse.csr_matrix(pool)
        return pool.toarray() if sparse.issparse(pool) else pool

    def _teacher_labels(self, probs: Any, gold: Any, known: int, rows: int) -> TeacherLabels:
        """The teacher's labels by position: gold rows first, where it labeled them."""
        if probs is None:
            raise InputError("X_pool needs teacher_probs, the teacher's probabilities on its rows.")
        stored = self._checked_probs("teacher_probs", probs, rows)
        ids = np.arange(known, known + rows)
        if gold is not None:
            on_gold = self._checked_probs("teacher_probs_gold", gold, known)
            seen = np.flatnonzero(~np.isnan(on_gold).any(1))
            if not len(seen):
                raise InputError("teacher_probs_gold has no row without NaN.")
            if self.student == "linear" and len(seen) < LEAST_ROWS:
                raise InputError(
                    f"teacher_probs_gold has {len(seen)} rows without NaN, too few to measure the "
                    f"teacher and compare students: at least {LEAST_ROWS} are needed."
                )
            stored, ids = np.concatenate([on_gold[seen], stored]), np.concatenate([seen, ids])
        return TeacherLabels.from_probs(ids, stored, [str(name) for name in self.classes_])

    def _checked_probs(self, name: str, probs: Any, rows: int) -> np.ndarray:
        wanted = (rows, len(self.classes_))
        if np.shape(probs) != wanted:
            which = "X" if name == "teacher_probs_gold" else "X_pool"
            raise InputError(
                f"{name} must have one row per row of {which} and one column per class, {wanted}, "
                f"not {np.shape(probs)}."
            )
        unknown = "allow-nan" if name == "teacher_probs_gold" else True
        checked = check_array(probs, ensure_all_finite=unknown, input_name=name)
        order, classes = self._teacher_columns, [str(label) for label in self.classes_]
        columns = list(getattr(probs, "columns", ()))
        if sorted(map(str, columns)) == sorted(classes) and isinstance(columns[0], str):
            order = np.array([columns.index(label) for label in classes])  # a frame with names
        return np.asarray(checked)[:, order]

    def _learn(self, X: Any, rows: Rows, seed: int, labels: TeacherLabels | None = None) -> Self:
        """Train the student on all rows (n + m, d)."""
        method = None if labels is None else self._method()
        if method is not None and PRETRAINED in method.needs:
            raise InputError(
                f"{method!r} needs a student pre-trained on gold, which this classifier lacks; "
                "train it with noisyteacher.train."
            )
        if hasattr(self, "coef_"):
            del self.coef_  # of an earlier fit
        if self.student == "linear":
            X = _compact(X)
        words = sparse.issparse(X)
        if self.student == "linear" and (method is None or can_cross_fit(method, words)):
            tried = default_methods(words) if method is None else (GoldOnly(), method)
            methods = (GoldOnly(),) if labels is None else tried
            return self._choose(X, rows, methods, seed, labels)
        method = method or (GoldOnly() if labels is None else SLaM())
        self.views_ = BagViews(weak_drop=0.0) if words else _standardising(X)
        model = self._model(words)
        prepared = fit_and_prepare(method, rows, labels)
        job = Job("student", model, method, prepared, rows.ids, rows.val_ids, seed=seed)
        data = TrainData(_tensors(X), self.views_, rows.classes)
        trained = train(job, data, self._config(len(rows)), device=self.device, quiet=True)[0]
        if trained.history.failed:
            raise InputError(f"Training failed: {trained.history.failed}; lower learning_rate.")
        with torch.random.fork_rng(devices=[]):  # the start that is built here is thrown away
            # In float64 a row's probabilities do not depend on the rows beside it.
            self.network_ = trained.network().double()
        self.noise_ = prepared.noise
        return self

    def _choose(
        self, X: Any, rows: Rows, methods: Sequence[Method], seed: int, labels: TeacherLabels | None
    ) -> Self:
        """The linear student that cross-fitting makes of these methods."""
        gold, measured = rows.y >= 0, np.full(len(rows), -1)
        measured[rows.val_ids] = rows.val_y
        # Rows without a teacher label may have trained the teacher: they say nothing about it.
        judges = gold & (measured >= 0) if (gold & (measured >= 0)).any() else gold
        made = DecisionRows(
            X,
            rows.ids,
            rows.y,
            judges,
            measured >= 0,
            labels,
            rows.classes,
            groups=input_groups(X),
            measured_y=measured,
        )
        choice = choose_linear(
            made, linear_candidates(methods), folds=self.folds, metric=self.metric, seed=seed
        )
        self.coef_, self.intercept_ = choice.student.weight, choice.student.bias
        self.out_of_fold_score_ = choice.score.value
        self.verdict_ = (
            gold_verdict(choice.gold_only, choice.teacher)
            if labels is None
            else verdict(choice, choice.said_of_pool, [str(name) for name in self.classes_])
        )
        self.noise_ = (
            None if labels is None else fit_noise(methods, labels, rows.val_ids, rows.val_y)
        )
        return self

    def _method(self) -> Method | None:
        method = parse(self.method) if isinstance(self.method, str) else self.method
        if method is not None and not isinstance(method, Method):
            raise InputError(
                f"method must be one of noisyteacher.methods, such as SLaM(), not {method!r}."
            )
        return method

    def _config(self, rows: int) -> TrainConfig:
        if self.steps < 1:
            raise InputError(f"steps must be at least 1, not {self.steps}.")
        # A divisor, so that there are exactly so many steps.
        epochs = max(n for n in range(1, EPOCHS + 1) if self.steps % n == 0)
        return TrainConfig(
            epochs=epochs,
            steps_per_epoch=self.steps // epochs,
            batch_size=min(self.batch_size, rows),
            optimizer=Adam(self.learning_rate, self.weight_decay),
            schedule=Cosine(),
            gold_repeat=self.gold_repeat,
        )

    def _model(self, bags: bool) -> BuildsModel:
        features, classes = self.n_features_in_, len(self.classes_)
        if isinstance(self.student, str):
            if self.student != "linear":
                raise InputError(f'student is "linear" or a function, not {self.student!r}.')
            return BagLinear(features, classes) if bags else Linear(features, classes)
        if bags:
            raise InputError("A student of your own needs dense rows, and X is sparse.")
        student: Any = self.student
        if _takes_arguments(student):
            student = partial(student, features, classes)
        own = as_spec(student)
        return replace(own, classes=classes) if isinstance(own, CustomModel) else own

    @torch.no_grad()
    def _probs(self, X: Any) -> np.ndarray:
        shown = self.views_.plain(_tensors(X))  # type: ignore[arg-type]
        if isinstance(shown, tuple):
            logits = self.network_((shown[0], shown[1].double()))
        else:
            logits = self.network_(shown.double())
        return np.asarray(logits.softmax(1).numpy())


def _takes_arguments(student: Any) -> bool:
    """Whether it is a function of the numbers of features and classes, not of nothing."""
    if isinstance(student, nn.Module | ModelSpec) or not callable(student):
        return False
    told = inspect.signature(student).parameters.values()
    return any(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in told)


def _unwrapped(value: Any) -> Any:
    """What a tuple of one holds: scikit-learn neither cuts a tuple nor loses its place."""
    if not isinstance(value, tuple):
        return value
    if len(value) != 1:
        raise InputError(f"The pool is an array or a tuple of one, not a tuple of {len(value)}.")
    return value[0]


def _validation(labels: TeacherLabels, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """V for the noise model: the gold rows that the teacher labeled, with their true classes.

    Without any, the pool itself with classes drawn from the teacher's probabilities, which is what
    taking these at their word means.
    """
    known = labels.ids[labels.ids < len(y)]
    if len(known):
        return known, y[known]
    below = labels.probs.astype(np.float64).cumsum(1)
    drawn = np.random.default_rng(seed).random((len(labels), 1)) * below[:, -1:]
    return labels.ids, (below < drawn).sum(1)


def _standardising(X: np.ndarray) -> TableViews:
    mean, std = X.mean(0, dtype=np.float64), X.std(0, dtype=np.float64)
    return TableViews(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))


def _compact(X: Any) -> Any:
    """Dense or CSR by what X holds, not by how it was given, so that both make one student."""
    if sparse.issparse(X):
        X = sparse.csr_matrix(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        return X.toarray() if X.nnz > _DENSE * np.prod(X.shape) else X
    return X if np.count_nonzero(X) > _DENSE * X.size else sparse.csr_matrix(X)


def _tensors(X: Any) -> Inputs:
    if sparse.issparse(X):
        return padded_bags(X, max(1, int(np.diff(X.indptr).max(initial=0))))
    return torch.tensor(X)
