"""Each planted trait is found, named and acted upon, and nothing else is."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import audit_teachers as teachers
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from noisyteacher.auditing import Interval, audit
from noisyteacher.auditing.findings import find
from noisyteacher.auditing.gold_comparison import GoldComparison
from noisyteacher.auditing.recommend import recommend
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    Calibrated,
    Consistency,
    GoldOnly,
    Method,
    SLaM,
    TaylorCE,
    Vanilla,
    parse,
)


def look(planted, **more):
    return audit(planted.val, planted.y, pool=planted.pool, replicates=200, **more)


def codes(result):
    return {finding.code for finding in result.findings}


def advice(result):
    return " ".join(result.recommendation.reasons)


@pytest.mark.parametrize("seed", range(3))
def test_a_calibrated_teacher(seed):
    result = look(teachers.calibrated(seed))
    assert codes(result) == {"calibrated"}
    assert result.warnings == []
    assert result.recommendation.method == Consistency(SLaM())
    assert result.recommendation.without_views == SLaM()
    assert "calibrated" in advice(result)
    assert result.recommendation.temperature == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_an_overconfident_teacher(seed):
    result = look(teachers.overconfident(seed))
    assert codes(result) == {"overconfident"}
    assert "overconfident" in advice(result)
    assert result.recommendation.temperature == pytest.approx(3, rel=0.2)
    assert result.numbers.quality.after.ece.value < result.numbers.quality.before.ece.value


def test_an_underconfident_teacher():
    result = look(teachers.overconfident(sharper=0.5))
    assert codes(result) == {"underconfident"}
    assert result.recommendation.temperature == pytest.approx(0.5, rel=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_one_broken_class(seed):
    result = look(teachers.broken_class(seed))
    assert {"broken_class", "classes_differ"} <= codes(result)
    assert [c.name for c in result.numbers.per_class.classes if c.broken] == ["2"]
    assert result.numbers.per_class.classes[2].confused_with == "3"
    assert "'2'" in advice(result)
    assert result.recommendation.method == Consistency(SLaM(hard=True, per_class=True))


@pytest.mark.parametrize("seed", range(3))
def test_a_shifted_val(seed):
    result = look(teachers.shifted_val(seed))
    assert "shifted" in codes(result)
    assert "leaked" not in codes(result)
    assert "The gold rows are not like the pool" in advice(result)
    assert any("gold rows are not like the pool" in text for text in result.warnings)
    drift = result.numbers.drift
    assert drift.margin.val_is_lower
    assert drift.reweighted_accuracy.value > result.numbers.quality.accuracy.value


@pytest.mark.parametrize("seed", range(3))
def test_a_leaked_val(seed):
    result = look(teachers.leaked_val(seed))
    assert "leaked" in codes(result)
    assert "nearly_perfect" not in codes(result)
    assert not result.recommendation.slam_helps
    assert "leaked" in advice(result)
    assert "SLaM is unlikely to help here" in advice(result)


def test_a_real_teacher_that_was_trained_on_v():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(y))
    gold, val = order[:60], order[60:360]
    for seen, leaked in ((gold, False), (order[:360], True)):
        teacher = LogisticRegression(C=10, max_iter=300).fit(x[seen] / 16, y[seen])
        labels = TeacherLabels.from_probs(order, teacher.predict_proba(x[order] / 16))
        result = audit(labels, y[val], val, gold_ids=gold, replicates=50)
        assert ("leaked" in codes(result)) == leaked


def compared(teacher_right, gold=150):
    """An audit with the inputs of V and of the pool."""
    x, y, probs = teachers.with_inputs(n=gold + 600, teacher_right=teacher_right)
    return audit(
        probs[:gold],
        y[:gold],
        pool=probs[gold:],
        inputs=x[:gold],
        pool_inputs=x[gold:],
        replicates=50,
    )


def test_gold_labels_that_are_enough_are_recommended_as_the_verdict_says():
    numbers = look(teachers.calibrated(0)).numbers
    even, lost = Interval(0.001, -0.04, 0.04), Interval(-0.03, -0.05, -0.01)
    none = Interval(0.001, -0.01, 0.01)
    for gain, weight, enough in (
        (even, 0.95, True),
        (even, 0.6, False),
        (lost, 0.6, True),
        (none, 0.6, True),
    ):
        found = GoldComparison("table", 1_000, 1_000, even, even, gain, weight, "The verdict.")
        seen = replace(numbers, comparison=found)
        advised = recommend(seen, find(seen), "table")
        assert [f.text for f in find(seen) if f.code == "compared"] == ["The verdict."]
        assert advised.method == (GoldOnly() if enough else SLaM())
        assert advised.distill != enough
        told = "gold and teacher labels do no better than those trained on gold labels alone"
        assert (told in " ".join(advised.reasons)) == enough


def test_a_teacher_that_guesses_is_not_said_to_help():
    result = compared(teacher_right=0.5)
    assert "The teacher's labels were not worth it" in result.summary().replace("\n  ", " ")
    assert result.recommendation.method == GoldOnly()


def test_a_teacher_that_helps_where_gold_is_scarce():
    result = compared(teacher_right=0.95, gold=20)
    found = result.numbers.comparison
    assert found.student.value > found.gold_only.value
    assert not found.gold_is_enough
    assert result.recommendation.distill
    assert found.verdict in result.summary().replace("\n  ", " ")


def test_without_inputs_of_the_pool_nothing_is_said_about_distilling():
    for teacher_right in (0.6, 0.95):
        x, y, probs = teachers.with_inputs(teacher_right=teacher_right)
        result = audit(probs, y, inputs=x, replicates=50)
        found = result.numbers.comparison
        assert (found.student, found.gain) == (None, None)
        assert found.verdict.startswith("Trained on the gold labels alone, linear students have")
        assert "was not tested, because that needs the inputs of the pool as well." in found.verdict
        assert result.recommendation.method == audit(probs, y, kind="table").recommendation.method


def test_without_inputs_nothing_is_said_about_gold_labels_alone():
    planted = teachers.calibrated()
    guesses = np.random.default_rng(1).integers(0, 5, len(planted.y))
    for y in (planted.y, guesses):
        result = look(planted._replace(y=y))
        assert result.recommendation.distill
        told = " ".join([advice(result), *(f.text for f in result.findings)])
        assert "gold labels alone" not in told
        assert "Do not" not in told


def test_students_learn_nothing_from_the_rows_they_are_judged_on():
    rng = np.random.default_rng(0)
    _, _, probs = teachers.with_inputs(n=400)
    found = audit(probs, rng.integers(0, 2, 400), inputs=rng.normal(size=(400, 600)), replicates=50)
    assert 0.4 < found.numbers.comparison.gold_only.value < 0.6


def test_students_learn_from_a_too():
    x, y, probs = teachers.with_inputs(n=600)
    few, rest = slice(0, 40), slice(40, 600)
    alone = audit(probs[few], y[few], inputs=x[few], replicates=50).numbers.comparison
    both = audit(
        probs[few], y[few], inputs=x[few], gold_inputs=x[rest], gold_y=y[rest], replicates=50
    ).numbers.comparison
    assert (alone.learned_from, both.learned_from) == (40, 600)
    assert alone.rows == both.rows == 40
    assert both.gold_only.value > alone.gold_only.value


def test_students_read_texts_and_images():
    rng = np.random.default_rng(0)
    _, y, probs = teachers.with_inputs(n=300)
    words = np.array([["dull", "flat", "film"], ["bright", "funny", "film"]])
    texts = [" ".join(rng.choice(words[label], 6)) for label in y]
    found = audit(probs, y, inputs=texts, replicates=50).numbers.comparison
    assert found.gold_only.value > 0.95
    assert found.kind == "text"
    images = rng.integers(0, 200, (300, 40, 65, 3), dtype=np.uint8)
    images[:, :20] += (50 * y).astype(np.uint8)[:, None, None, None]
    found = audit(probs, y, inputs=images, replicates=50).numbers.comparison
    assert found.gold_only.value > 0.95
    assert found.kind == "image"


def test_a_nearly_perfect_teacher():
    result = look(teachers.calibrated(scale=60.0))
    assert "nearly_perfect" in codes(result)
    assert result.recommendation.method == Vanilla()
    assert "SLaM is unlikely to help here" in advice(result)


def test_a_val_that_is_too_small():
    result = look(teachers.calibrated(n=40))
    assert "small_val" in codes(result)
    assert not result.recommendation.slam_helps
    assert "there are too few gold rows" in advice(result)
    assert result.recommendation.val_rows >= 160
    told = next(f.text for f in result.findings if f.code == "small_val")
    half = result.numbers.curve.band_width / 2
    assert half > 0.25
    assert f"known only to within ±{half:.2f}" in told


def test_a_teacher_that_only_guesses():
    planted = teachers.calibrated()
    y = np.random.default_rng(1).integers(0, 5, len(planted.y))
    result = look(planted._replace(y=y))
    assert "nothing_trusted" in codes(result)
    assert result.recommendation.method == Calibrated()


def test_two_classes_in_the_wrong_order():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    right = rng.beta(4, 2, 400)  # the chance it gives to the true class
    probs = np.where(y[:, None] == np.arange(2), right[:, None], 1 - right[:, None])
    assert "swapped" not in codes(audit(probs, y, replicates=200))
    turned = audit(probs[:, ::-1], y, replicates=200)
    assert any("look swapped" in warning for warning in turned.warnings)


def test_a_teacher_that_never_doubts():
    planted = teachers.calibrated(0)
    sure = np.eye(planted.val.shape[1])[planted.val.argmax(1)]
    result = audit(sure, planted.y, replicates=200)
    assert "hard_labels" in codes(result)
    assert "all its labels deserve the same trust" in advice(result)
    assert "margins show where" not in advice(result)
    assert "blind_margins" not in codes(result)


def test_margins_that_show_which_labels_are_wrong():
    for seed in range(10):
        result = look(teachers.calibrated(seed, n=300))
        assert "and its margins show where" in advice(result)
        assert "blind_margins" not in codes(result)


def test_margins_that_do_not_show_which_labels_are_wrong():
    found = [look(teachers.flat(seed)) for seed in range(20)]
    blind = [result for result in found if "blind_margins" in codes(result)]
    assert len(blind) >= 17
    assert sum("margins show where" in advice(result) for result in found) <= 2
    for result in blind:
        assert "The teacher's margins do not show which of its labels are wrong" in " ".join(
            result.warnings
        )
        assert result.recommendation.method == TaylorCE(2)
        assert not result.recommendation.slam_helps
        assert "the teacher's margins do not show which of its labels are wrong" in advice(result)
        assert "Use SLaM" not in advice(result)


def test_too_few_gold_rows_to_tell_whether_margins_show_which_labels_are_wrong():
    found = [look(teachers.flat(seed, n=120, right=0.93)) for seed in range(10)]
    unknown = [result for result in found if "blind_margins" not in codes(result)]
    assert len(unknown) >= 7
    for result in unknown:
        assert "too few to tell whether its margins show where" in advice(result)
        assert result.recommendation.method == Consistency(SLaM())


def test_classes_show_which_labels_are_wrong_where_margins_do_not():
    result = look(teachers.flat(n=1_000, right=(0.5, 0.9, 0.9, 0.9)))
    assert {"classes_differ", "blind_margins"} <= codes(result)
    assert "and the class that it names shows where" in advice(result)
    assert result.recommendation.method == Consistency(SLaM(hard=True, per_class=True))


def test_the_advice_is_for_what_the_student_reads():
    planted = teachers.calibrated(0)
    assert look(planted, kind="image").recommendation.method == Consistency(SLaM())
    tables = look(planted, kind="table").recommendation
    assert tables.method == tables.without_views == SLaM()
    with pytest.raises(InputError, match="not 'sound'"):
        look(planted, kind="sound")


def test_a_large_pool_makes_no_difference_out_of_a_tiny_one():
    planted = teachers.calibrated(n=3_000)
    pool = np.concatenate([teachers.chances(np.random.default_rng(9), 200_000, 2.06)[1]])
    assert codes(look(planted._replace(pool=pool))) == {"calibrated"}


def test_shared_ids_are_named():
    planted = teachers.calibrated()
    val = TeacherLabels.from_probs(np.arange(1_000), planted.val)
    pool = TeacherLabels.from_probs(np.arange(990, 4_990), planted.pool)
    result = audit(val, planted.y, pool=pool, gold_ids=[3, 4, 4_989, 8_000], replicates=50)
    leakage = result.numbers.leakage
    assert leakage.val_in_gold == ["3", "4"]
    assert leakage.val_in_pool == [str(i) for i in range(990, 1_000)]
    assert leakage.gold_in_pool == ["4989"]
    assert {"val_in_gold", "val_in_pool", "gold_in_pool"} <= codes(result)
    assert result.numbers.pool_rows == 4_000 - 11


def test_the_rest_of_the_store_is_the_pool():
    planted = teachers.calibrated()
    both = TeacherLabels.from_probs(np.arange(5_000), np.concatenate([planted.val, planted.pool]))
    apart = look(planted).to_dict()
    joined = audit(both, planted.y, np.arange(1_000), replicates=200).to_dict()
    assert joined == apart
    shuffled = np.random.default_rng(0).permutation(1_000)
    again = audit(both, planted.y[shuffled], shuffled, gold_ids=[4_000], replicates=50)
    assert again.numbers.pool_rows == 3_999
    assert again.numbers.quality.accuracy.value == pytest.approx(
        apart["numbers"]["quality"]["accuracy"]["value"]
    )


def test_without_a_pool_v_stands_in():
    planted = teachers.calibrated()
    result = audit(planted.val, planted.y, replicates=50)
    assert codes(result) == {"no_pool", "calibrated"}
    assert result.numbers.drift is None
    assert result.numbers.trust.rows == 1_000


@pytest.mark.parametrize(
    "planted",
    [teachers.calibrated(), teachers.flat(), teachers.flat(right=0.3), teachers.broken_class()],
)
def test_without_a_pool_nothing_else_is_said_about_one(planted):
    result = audit(planted.val, planted.y, replicates=50)
    told = [finding.text for finding in result.findings if finding.code != "no_pool"]
    assert not [text for text in [*told, advice(result)] if "pool" in text.lower()]
    lines = result.summary().split("Findings")[0].replace("no pool", "")
    assert "pool" not in lines
    assert "pool" in look(planted).summary().split("Findings")[0]


def test_a_single_class_with_few_gold_rows():
    planted = teachers.flat(n=400)
    few = np.flatnonzero((planted.y != 0) | (np.cumsum(planted.y == 0) <= 5))
    told = " ".join(f.text for f in audit(planted.val[few], planted.y[few]).findings)
    assert "1 of 4 classes has fewer than 10 gold rows" in told


def test_students_do_not_learn_from_pool_rows_that_are_gold_rows():
    x, y, probs = teachers.with_inputs(n=700, teacher_right=0.8)
    gold, pool, both = slice(0, 100), slice(100, 700), np.r_[100:700, 0:40]

    def compare(rows):
        return audit(
            probs[gold], y[gold], pool=probs[rows], inputs=x[gold], pool_inputs=x[rows]
        ).numbers.comparison

    with pytest.warns(NoisyTeacherWarning, match="the gold rows have the same inputs: 40 examples"):
        found = compare(both)
    assert found == compare(pool)


def test_top_classes_only_ask_for_more_when_the_shortlist_is_longer():
    rng = np.random.default_rng(0)
    _, chance, y = teachers.chances(rng, 3_000, 1.0, 50)
    labels = TeacherLabels.from_probs(np.arange(3_000), chance, k=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = audit(labels, y[:1_000], np.arange(1_000), lower_bound=0.2, replicates=50)
    assert "unreachable_k" in codes(result)
    assert result.recommendation.k == "level"


@pytest.mark.parametrize(
    "planted",
    [
        teachers.calibrated(classes=2),
        teachers.broken_class(),
        teachers.leaked_val(),
        teachers.calibrated(n=40),
        teachers.calibrated(scale=60.0),
    ],
)
@pytest.mark.parametrize("lower_bound", [0.5, 0.7])
def test_recommended_methods_can_be_parsed(planted, lower_bound):
    advised = look(planted, lower_bound=lower_bound).recommendation
    for method in (advised.method, advised.without_views, *advised.rivals):
        assert isinstance(method, Method)
        assert parse(repr(method)) == method


def test_reasons_name_no_file_that_an_installed_package_lacks():
    said = advice(look(teachers.calibrated(0)))
    assert "inside Consistency" in said
    assert "results/" not in said


def test_the_same_seed_gives_the_same_audit():
    planted = teachers.calibrated()
    one, two, other = (look(planted, seed=seed) for seed in (1, 1, 2))
    assert one == two
    assert one.numbers.quality.before.log_loss != other.numbers.quality.before.log_loss


def test_it_is_json_and_text():
    names = ["<script>", "b", "c", "d", "e" * 80]
    planted = teachers.broken_class()
    labels = TeacherLabels.from_probs(np.arange(1_000), planted.val, names, teacher="big one")
    result = audit(labels, [names[label] for label in planted.y], replicates=50)
    plain = result.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    text = result.summary()
    assert str(result) == text
    for part in ("big one", "<script>", "Findings", repr(result.recommendation.method), "accuracy"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 110


def test_a_row_of_alpha_is_shown_once():
    y = np.arange(1_000) % 3
    said = np.where(np.arange(1_000) % 5 == 0, (y + 1) % 3, y)
    labels = TeacherLabels.from_probs(np.arange(1_000), np.eye(3)[said], ["a", "b\n(c)", "d"])
    lines = audit(labels, y, replicates=50).summary().splitlines()
    assert len([line for line in lines if line.startswith("  1.000")]) == 1
    assert any(line.startswith("b (c) ") for line in lines)


def test_its_repr_is_one_line():
    planted = teachers.calibrated()
    labels = TeacherLabels.from_probs(np.arange(1_000), planted.val, teacher="big one")
    accuracy = (labels.hard == planted.y).mean()
    assert repr(audit(labels, planted.y, replicates=50)) == (
        f"Audit(teacher='big one', val_rows=1000, pool_rows=0, accuracy={accuracy:.3f}, "
        "warnings=0, recommended=Consistency(inner=SLaM()))"
    )
