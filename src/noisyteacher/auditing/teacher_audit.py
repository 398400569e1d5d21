"""The audit of a teacher: its arguments are checked once, then measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from noisyteacher.auditing.bootstrap import Bootstrap
from noisyteacher.auditing.findings import Finding, all_alike, find
from noisyteacher.auditing.gold_comparison import AuditInputs, GoldInputs, read_inputs
from noisyteacher.auditing.measurements import Case, Numbers, measure
from noisyteacher.auditing.recommend import Recommendation, recommend
from noisyteacher.core.errors import InputError, MissingIdsError, first_few, warn
from noisyteacher.core.reprs import notebook_html
from noisyteacher.data.dataset import take_rows
from noisyteacher.io.classes import class_numbers
from noisyteacher.io.ids import are_among
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.checks import as_array, check_shape
from noisyteacher.labels.teacher_labels import unique_ids
from noisyteacher.methods import Method
from noisyteacher.noise import TeacherNoise
from noisyteacher.noise.covariates import LabelsOrProbs
from noisyteacher.noise.isotonic import Number
from noisyteacher.noise.saving import ONE_OVER_K

_FEWEST_REPLICATES = 50
_WIDTH = 80
_CLASSES_SHOWN, _MARGINS_SHOWN, _NAME_SHOWN = 10, 6, 19
_CONFUSED_SHOWN = 16  # of the name of the class that it is confused with


@dataclass(frozen=True, repr=False)
class Audit:
    """The result of an audit; ``str(audit)`` is a readable summary."""

    numbers: Numbers
    findings: list[Finding]
    recommendation: Recommendation

    @property
    def warnings(self) -> list[str]:
        """The findings that advise against using the labels, or this audit, as they are."""
        return [finding.text for finding in self.findings if finding.warning]

    def to_dict(self) -> dict[str, Any]:
        """The audit as lists, numbers and texts, ready for JSON; methods become their repr."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def summary(self) -> str:
        """The audit as plain text: numbers, then what they say, then what to do."""
        lines = [
            *_heading(self.numbers),
            "",
            *_quality(self.numbers),
            "",
            *_trust(self.numbers),
            "",
            *_classes(self.numbers),
            "",
            "Findings",
            *(_item("!" if finding.warning else "-", finding.text) for finding in self.findings),
            "",
            *_advice(self.recommendation),
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        numbers = self.numbers
        return (
            f"Audit(teacher={numbers.teacher!r}, val_rows={numbers.val_rows}, "
            f"pool_rows={numbers.pool_rows}, accuracy={numbers.quality.accuracy.value:.3f}, "
            f"warnings={len(self.warnings)}, recommended={self.recommendation.method!r})"
        )

    def _repr_html_(self) -> str:
        numbers, right = self.numbers, self.numbers.quality.accuracy
        facts = [
            ("Gold rows", f"{numbers.val_rows:,}"),
            ("Pool rows", f"{numbers.pool_rows:,}"),
            ("Accuracy", f"{right.value:.1%} ({right.low:.1%} to {right.high:.1%})"),
            ("Recommended method", repr(self.recommendation.method)),
            *(("Warning" if one.warning else "Finding", one.text) for one in self.findings),
        ]
        return notebook_html(f"Audit of {numbers.teacher or 'a teacher'}", facts=facts)


def _plain(value: Any) -> Any:
    if isinstance(value, Method):
        return repr(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def audit(
    labels: LabelsOrProbs | str | Path,
    y: Any,
    ids: Any = None,
    *,
    pool: LabelsOrProbs | str | Path | None = None,
    inputs: Any = None,
    gold_ids: Any = None,
    gold_y: Any = None,
    gold_inputs: Any = None,
    pool_inputs: Any = None,
    kind: str | None = None,
    lower_bound: Number = 0.5,
    threshold: Number = 0.9,
    replicates: int = 1000,
    seed: int = 0,
) -> Audit:
    """Measure a teacher on gold rows, and recommend whether and how to distill it.

    "V" are the gold rows that the teacher was not trained on, and "A" those that it may have been
    trained on.

    Args:
        labels: the teacher's labels: TeacherLabels, the path of a label store, or probabilities (n,
            L). Rows that are in neither V nor A are the pool, unless ``pool`` is given.
        y: the true classes of V, (v,), as numbers or class names.
        ids: the ids of V's rows, (v,). By default all rows of ``labels`` are V, in their order.
            Rows that the teacher did not label are left out, with a warning.
        pool: the teacher's labels of the pool, if they are separate.
        inputs: the inputs of V: texts, or numbers (v, ...) such as embeddings. With these, linear
            students with and without the teacher's labels are compared as in ``distill``.
        gold_ids: the ids of A.
        gold_y, gold_inputs: the classes and inputs of A, which the linear students are then also
            trained on.
        pool_inputs: the inputs of the pool, one row for each of its labels, or a pair (ids,
            inputs). Without them, linear students are trained on the gold labels alone, and the
            audit does not tell whether distilling helps.
        kind: the kind of inputs of the student: "text", "image" or "table". By default it is that
            of ``inputs``.
        lower_bound, threshold: as in ``TeacherNoise``.
        replicates, seed: the number of bootstrap samples, and their seed.
    """
    if replicates < _FEWEST_REPLICATES:
        raise InputError(f"replicates must be at least {_FEWEST_REPLICATES}, not {replicates}.")
    if kind not in (None, "text", "image", "table"):
        raise InputError(f'kind must be "text", "image" or "table", not {kind!r}.')
    if str(lower_bound) == ONE_OVER_K:
        raise InputError(f"An audit's lower_bound must be a number, not {lower_bound!r}.")
    labels, pool = _opened(labels), None if pool is None else _opened(pool)
    store = _as_labels(labels)
    truth = class_numbers(y, store.classes)
    val_ids = store.ids if ids is None else unique_ids(ids)
    if len(val_ids) != len(truth):
        raise InputError(f"{len(truth)} true classes were given for {len(val_ids)} gold rows.")
    labeled = np.arange(len(truth))
    if ids is not None:
        labeled = np.flatnonzero(have_teacher_label(val_ids, store))
    a_ids = store.ids[:0] if gold_ids is None else unique_ids(gold_ids)
    given_pool = None if pool is None else _given_pool(pool, labels, store)
    rest = _pool(store, given_pool, val_ids, a_ids)
    read = None
    if inputs is not None:
        # As in distill: a gold row needs no teacher label to judge, unless the teacher saw others.
        kept = np.arange(len(truth)) if gold_inputs is None else labeled
        read = GoldInputs(
            take_rows(read_inputs(inputs, len(truth), "inputs"), kept),
            truth[kept],
            np.isin(kept, labeled),
            *_gold_inputs(gold_inputs, gold_y, store),
            *_pool_inputs(pool_inputs, rest),
        )
    elif gold_inputs is not None or pool_inputs is not None:
        raise InputError(
            "gold_inputs and pool_inputs require inputs, on which students are compared."
        )
    case = Case(
        val=store if ids is None else store.take(val_ids[labeled]),
        y=truth[labeled],
        pool=rest,
        gold_ids=a_ids,
        given_pool_ids=val_ids[:0] if given_pool is None else given_pool.ids,
        inputs=read,
        noise=TeacherNoise(lower_bound=lower_bound, threshold=threshold),
        bootstrap=Bootstrap(len(labeled), replicates, seed),
    )
    numbers = measure(case)
    findings = find(numbers)
    compared = None if numbers.comparison is None else numbers.comparison.kind
    return Audit(numbers, findings, recommend(numbers, findings, kind or compared))


def have_teacher_label(ids: np.ndarray, labels: TeacherLabels) -> np.ndarray:
    """(n,) bool: which gold rows have a teacher label. Warns about those without one."""
    found = labels.has(ids)
    missing = ids[~found].tolist()
    if missing and not found.any():
        raise MissingIdsError(
            f"None of the {len(ids)} gold ids has a teacher label. The first gold ids are "
            f"{first_few(missing, 2)}, and the first ids of the labels "
            f"{first_few(labels.ids.tolist(), 2)}."
        )
    if missing:
        warn(
            f"{len(missing)} of {len(ids)} gold ids have no teacher label and are not used to "
            f"measure the teacher: {first_few(missing)}.",
        )
    return found


def _opened(given: LabelsOrProbs | str | Path) -> LabelsOrProbs:
    return TeacherLabels.open(given, extras=()) if isinstance(given, str | Path) else given


def _as_labels(labels_or_probs: LabelsOrProbs, first_id: int = 0) -> TeacherLabels:
    """Probabilities as they would be stored, so that the audit sees what training will see."""
    if isinstance(labels_or_probs, TeacherLabels):
        return labels_or_probs
    given = as_array(labels_or_probs, "Teacher probabilities")
    check_shape(given, "Teacher probabilities", ("n", "L"))
    return TeacherLabels.from_probs(np.arange(first_id, first_id + len(given)), given)


def _given_pool(pool: LabelsOrProbs, labels: LabelsOrProbs, store: TeacherLabels) -> TeacherLabels:
    if isinstance(pool, TeacherLabels) != isinstance(labels, TeacherLabels):
        raise InputError("labels and pool must both be TeacherLabels, or both probabilities.")
    made = _as_labels(pool, first_id=len(store))  # arrays have no ids: none may be shared
    if made.classes != store.classes:
        raise InputError("the labels of the pool have other classes than those of the gold rows.")
    return made


def _pool(
    store: TeacherLabels, given: TeacherLabels | None, val_ids: np.ndarray, gold_ids: np.ndarray
) -> TeacherLabels | None:
    """The pool without rows of V and A; None where nothing is left."""
    source = store if given is None else given
    known = are_among(source.ids, val_ids) | are_among(source.ids, gold_ids)
    if known.all():
        return None
    return source.take(source.ids[~known]) if known.any() else source


def _gold_inputs(
    inputs: Any, y: Any, store: TeacherLabels
) -> tuple[AuditInputs | None, np.ndarray]:
    if (inputs is None) != (y is None):
        raise InputError("gold_inputs and gold_y must be given together.")
    if inputs is None:
        return None, np.empty(0, np.int64)
    truth = class_numbers(y, store.classes)
    return read_inputs(inputs, len(truth), "gold_inputs"), truth


def _pool_inputs(given: Any, pool: TeacherLabels | None) -> tuple[AuditInputs | None, np.ndarray]:
    if given is None or pool is None:
        return None, np.empty(0, np.int64)
    if not isinstance(given, tuple):
        return read_inputs(given, len(pool), "pool_inputs"), pool.ids
    ids = unique_ids(given[0])
    return read_inputs(given[1], len(ids), "pool_inputs"), ids


# -- the summary --------------------------------------------------------------------------------


def _heading(numbers: Numbers) -> Iterator[str]:
    kept = "all" if numbers.stored == numbers.num_classes else f"top {numbers.stored}"
    yield f"Audit of the teacher {numbers.teacher or '(unnamed)'}"
    pool = f"{numbers.pool_rows} pool rows" if numbers.pool_rows else "no pool"
    stored = f"{kept} of {numbers.num_classes} classes stored"
    yield f"{numbers.val_rows} gold rows, {pool}, {stored}"
    yield "(in brackets: 95% intervals)"


def _quality(numbers: Numbers) -> Iterator[str]:
    quality = numbers.quality
    yield _line("accuracy", f"{quality.accuracy:.1%}")
    shown = [k for k in (2, 3, 5, 10, 20) if k in quality.top_k and k < numbers.num_classes]
    for k in shown:
        yield _line(f"top-{k} accuracy", f"{quality.top_k[k]:.1%}")
    after = f"{quality.temperature:.2f}"
    yield _line("best temperature", after)
    for name, label in (("log_loss", "log-loss"), ("brier", "Brier score"), ("ece", "ECE")):
        before, later = getattr(quality.before, name), getattr(quality.after, name)
        yield _line(label, f"{before:.3f}")
        yield _line("  at that temperature", f"{later:.3f}")
    if numbers.drift is not None:
        for name in ("margin", "entropy"):
            pair = getattr(numbers.drift, name)
            yield _line(
                f"{name}, gold and pool",
                f"mean {pair.val_mean:.3f} and {pair.pool_mean:.3f}; distance "
                f"{pair.distance:.3f}, p = {pair.p_value:.2g}",
            )
    if numbers.comparison is not None:
        yield _line("without the teacher", f"{numbers.comparison.gold_only:.1%}")
        if numbers.comparison.student is not None:
            yield _line("with the teacher", f"{numbers.comparison.student:.1%}")


def _trust(numbers: Numbers) -> Iterator[str]:
    curve, trust = numbers.curve, numbers.trust
    yield f"alpha by margin, from the least to the most confident label of {numbers.pool_name}"
    shown: dict[str, None] = {}  # by margin, of which there may be few
    for at in np.linspace(0, len(curve.margin) - 1, _MARGINS_SHOWN).round().astype(int).tolist():
        value, low, high = (column[at] for column in (curve.alpha, curve.low, curve.high))
        bar = "#" * round(30 * value)
        shown[f"  {curve.margin[at]:.3f}  {value:.2f} ({low:.2f} to {high:.2f})  {bar}"] = None
    yield from shown
    if curve.auc is not None and not all_alike(numbers):
        yield _line("AUC of the margins", f"{curve.auc:.2f}")
    whose = "pool" if numbers.pool_rows else "gold"
    yield _line(f"{whose} at the lower bound", f"{trust.share_at_lower_bound:.1%}")
    yield _line("mean alpha", f"{trust.mean_alpha:.3f}")
    yield _line("equivalent gold labels", f"{trust.effective_labels:.0f} for {trust.rows} labels")
    yield _line("k(x), median", f"{trust.k_median:.0f}")


def _classes(numbers: Numbers) -> Iterator[str]:
    seen = [c for c in numbers.per_class.classes if c.gold_rows or c.predicted_rows]
    worst = sorted(seen, key=lambda c: 2.0 if c.precision is None else c.precision)
    head = f"{'class':<20}{'gold':>5}{'predicted':>11}{'precision':>11}{'recall':>8}"
    yield f"{head}{'pool' if numbers.pool_rows else '':>7}  confused with"
    for c in worst[:_CLASSES_SHOWN]:
        counts = f"{_shortened(c.name):<20}{c.gold_rows:>5}{c.predicted_rows:>11}"
        pool = _percent(c.pool_share if numbers.pool_rows else None)
        shares = f"{_percent(c.precision):>11}{_percent(c.recall):>8}{pool:>7}"
        yield f"{counts}{shares}  {_shortened(c.confused_with or '', _CONFUSED_SHOWN)}".rstrip()
    if len(seen) > _CLASSES_SHOWN:
        yield f"and {len(seen) - _CLASSES_SHOWN} more classes with higher precision"


def _advice(recommendation: Recommendation) -> Iterator[str]:
    yield f"Recommendation: {recommendation.method!r}"
    if recommendation.without_views != recommendation.method:
        yield f"  if the inputs cannot be augmented: {recommendation.without_views!r}"
    yield from (_item("-", reason) for reason in recommendation.reasons)
    yield _item("-", f"Compare with {', '.join(map(repr, recommendation.rivals))}.")


def _shortened(name: str, most: int = _NAME_SHOWN) -> str:
    name = " ".join(name.split())
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _line(label: str, value: str) -> str:
    return f"{label:<24}{value}"


def _item(mark: str, text: str) -> str:
    return fill(text, _WIDTH, initial_indent=f"{mark} ", subsequent_indent="  ")
