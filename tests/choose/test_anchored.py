"""The choice between networks: an anchor that only a clearly better candidate replaces."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from noisyteacher.choose.anchored import AnchoredEvidence, choose_network
from noisyteacher.choose.choice import Choice, compare_candidates
from noisyteacher.choose.decision import macro_f1
from noisyteacher.choose.evidence import LinearCandidate
from noisyteacher.choose.folds import hold_out
from noisyteacher.choose.verdict import verdict
from noisyteacher.methods import GoldOnly, SLaM, Vanilla

CLASSES = 3


def logits_of(said: np.ndarray, sure: float = 2.0) -> np.ndarray:
    return np.asarray(sure * np.eye(CLASSES)[said], np.float32)


def wrong_on(y: np.ndarray, rows: slice | list[int]) -> np.ndarray:
    """Predictions that are right everywhere but there."""
    said = y.copy()
    said[rows] = (said[rows] + 1) % CLASSES
    return said


Y = np.random.default_rng(0).integers(0, CLASSES, 100)


def chosen(logits: list[np.ndarray], anchor: int | None, metric: str = "accuracy") -> int:
    names = [f"c{i}" for i in range(len(logits))]
    (part,) = AnchoredEvidence(Y, logits, names, anchor, metric=metric).blend()
    assert (part.weight, part.temperature) == (1, 1)
    return part.candidate


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_the_anchor_stays_unless_another_is_one_standard_error_better(metric: str) -> None:
    """Better on b rows and worse on w: the gap b - w against √(b + w - (b - w)²/n)."""
    anchor = logits_of(wrong_on(Y, slice(0, 20)))
    # Two more right, six rows differ: 2 < √5.96.
    close = logits_of(wrong_on(Y, [*range(4, 20), 30, 31]))
    # Four more right, six rows differ: 4 > √5.84.
    clear = logits_of(wrong_on(Y, [*range(5, 20), 30]))
    assert chosen([anchor, close], 0, metric) == 0
    assert chosen([anchor, clear], 0, metric) == 1
    assert chosen([anchor, close], None, metric) == 1
    assert chosen([close, anchor], 1, metric) == 1


def test_ties_depend_on_log_loss_and_not_on_the_order() -> None:
    surer = logits_of(wrong_on(Y, slice(0, 10)), 3.0)
    vague = logits_of(wrong_on(Y, slice(5, 15)), 3.0)
    vague[40:] /= 6  # as often right, and less sure where it is right
    worse = logits_of(wrong_on(Y, slice(0, 40)))
    named = {"surer": surer, "vague": vague, "worse": worse}
    for order in permutations(named):
        evidence = AnchoredEvidence(Y, [named[n] for n in order], order, order.index("worse"))
        assert order[evidence.blend()[0].candidate] == "surer"
    for order in permutations(["a", "b"]):  # twins in everything but the name
        evidence = AnchoredEvidence(Y, [surer, surer], order, None)
        assert order[evidence.blend()[0].candidate] == "a"


def test_the_influence_of_a_row_on_macro_f1_is_its_derivative() -> None:
    rng = np.random.default_rng(1)
    said = np.where(rng.random(100) < 0.6, Y, rng.integers(0, CLASSES, 100))
    evidence = AnchoredEvidence(Y, [logits_of(said)], ["one"], None, metric="macro_f1")
    score, influence = evidence._score(0, np.ones((1, 100)))
    assert score[0] == pytest.approx(macro_f1(Y, said))
    step = 1e-5
    for row in (0, 7, 50):
        counts = np.ones((1, 100))
        counts[0, row] += step
        more = evidence._score(0, counts)[0][0]
        assert influence[0, row] == pytest.approx(100 * (more - score[0]) / step, rel=1e-3)


def test_the_stated_accuracy_is_corrected_for_the_choice() -> None:
    """Ten candidates that guess: the best of them looks better than guessing, and is not."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, CLASSES, 60)
    logits = [logits_of(rng.integers(0, CLASSES, 60)) for _ in range(10)]
    candidates = [LinearCandidate(GoldOnly(), ()), *[LinearCandidate(SLaM(), ())] * 9]
    evidence = AnchoredEvidence(y, logits, [f"c{i}" for i in range(10)], None)
    parts = evidence.blend()
    naive = float(np.mean(logits[parts[0].candidate].argmax(1) == y))
    choice = compare_candidates(candidates, evidence, parts)
    assert naive > 0.4
    assert choice.score.value < naive - 0.03
    assert choice.lines[parts[0].candidate].weight == 1


def test_gold_labels_alone_are_judged_by_the_best_of_them() -> None:
    """The anchor uses the teacher, so students of gold labels have none among themselves."""
    bad, good = logits_of(wrong_on(Y, slice(0, 50))), logits_of(wrong_on(Y, slice(0, 10)))
    candidates = [LinearCandidate(m, ()) for m in (Vanilla(), GoldOnly(), GoldOnly())]
    evidence = AnchoredEvidence(Y, [good, bad, good], ["v", "g", "h"], 0)
    choice = compare_candidates(candidates, evidence, evidence.blend())
    assert choice.gold_only.value == pytest.approx(0.9, abs=0.01)
    assert choice.gain.value == pytest.approx(0, abs=1e-9)


def choice_between(better: int, worse: int, rows: int = 300) -> Choice:
    """Of an anchor and gold only, which is right on ``better`` rows more and ``worse`` fewer."""
    y = np.random.default_rng(0).integers(0, CLASSES, rows)
    anchor = wrong_on(y, slice(0, 20))
    gold = wrong_on(y, [*range(better, 20), *range(20, 20 + worse)])
    candidates = [LinearCandidate(method, ()) for method in (Vanilla(), GoldOnly())]
    evidence = AnchoredEvidence(y, [logits_of(anchor), logits_of(gold)], ["v", "g"], 0)
    assert evidence.blend()[0].candidate == int(better - worse > np.sqrt(better + worse))
    return choose_network(candidates, evidence)


def test_gold_only_is_returned_where_the_teacher_was_not_worth_it() -> None:
    """7 rows better and 4 worse of 300 is within one standard error, and surely no large gain."""
    choice = choice_between(7, 4)
    assert [line.weight for line in choice.lines] == [0, 1]
    assert choice.score == choice.gold_only
    assert choice.gain.value == pytest.approx(-3 / 300, abs=0.003)
    assert choice.gain.low < 0 < choice.gain.high
    told = verdict(choice, np.empty(0, np.int64), ["a", "b", "c"], blended=False)
    assert told.startswith(
        "The best student was trained without the teacher's labels: its accuracy on held-out gold "
        "rows is "
    )
    assert "The teacher's labels were not worth it: -1." in told


def test_clearly_better_gold_only_is_returned_with_what_the_teacher_would_have_cost() -> None:
    choice = choice_between(15, 0)
    assert choice.gold_weight == 1
    assert choice.gain.value == pytest.approx(-15 / 300, abs=0.005)
    assert choice.gain.high < 0
    told = verdict(choice, np.empty(0, np.int64), ["a", "b", "c"], blended=False)
    assert "The teacher's labels did not help: -5." in told


@pytest.mark.parametrize(
    ("better", "worse", "rows"),
    [(4, 7, 300), (5, 6, 300), (3, 2, 40)],  # worse, a little worse, not known from 40 rows
)
def test_otherwise_the_anchor_stays(better: int, worse: int, rows: int) -> None:
    choice = choice_between(better, worse, rows)
    assert choice.gold_weight == 0
    told = verdict(choice, np.empty(0, np.int64), ["a", "b", "c"], blended=False)
    assert told.startswith("The student's accuracy on held-out gold rows is ")


def test_a_fifth_of_the_rows_is_held_out_with_the_classes_in_their_shares() -> None:
    y = np.repeat([0, 1, 2], [50, 30, 20])
    held = hold_out(y, seed=1)
    assert np.bincount(y[held == 0]).tolist() == [10, 6, 4]
    assert set(held) == {0, -1}
    groups = np.arange(100) // 2
    held = hold_out(y, groups=groups, seed=1)
    assert (held[::2] == held[1::2]).all()
