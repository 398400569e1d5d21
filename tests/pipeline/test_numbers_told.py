"""What a distillation prints and stores, computed a second time in plain code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest

from noisyteacher.choose.decision import Interval
from noisyteacher.choose.evidence import DecisionRows
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import GoldOnly, SLaM, Vanilla
from noisyteacher.pipeline import Distilled, DistillSettings, gather, linear_run, run_distill
from noisyteacher.runs import read_rows
from user_files import noisy_probs

CLASSES = ("zebra", "ape", "lion")
GOLD, POOL, TEST = slice(0, 40), slice(40, 180), slice(180, 280)
METHODS = (SLaM(), Vanilla(hard=True))
UNLABELED = 4  # the first gold rows


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, classes, and what a teacher that is often wrong says."""
    rng = np.random.default_rng(3)
    y = rng.choice(3, TEST.stop, p=[0.5, 0.3, 0.2])
    x = rng.normal(size=(len(y), 6)).astype(np.float32)
    x[np.arange(len(y)), y] += 1.7
    return x, y, noisy_probs(y, 3, 0.7)


def made(out: Path | None = None, methods: Any = METHODS, **more: Any) -> Distilled:
    x, y, probs = table()
    ids, names = np.array([f"r{i}" for i in range(len(y))]), np.array(CLASSES)[y]
    known = slice(UNLABELED, POOL.stop)
    task = gather(
        gold=(ids[GOLD], x[GOLD], names[GOLD]),
        pool=(ids[POOL], x[POOL]),
        test=(ids[TEST], x[TEST], names[TEST]),
        labels=TeacherLabels.from_probs(ids[known], probs[known], CLASSES),
    )
    settings = DistillSettings("linear", methods, **more)
    done = run_distill(task, settings, out, device="cpu", quiet=True)
    assert isinstance(done, Distilled)
    return done


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Distilled, Path]:
    out = tmp_path_factory.mktemp("told") / "run"
    with pytest.warns(UserWarning, match="have no teacher label"):
        return made(out), out


def out_of_fold_probs(done: Distilled) -> np.ndarray:
    """(3, 40, 3): fewer than 50 gold rows are cross-validated three times."""
    logits = np.asarray(done.choice.out_of_fold, np.float64)
    assert logits.shape == (120, 3)
    raised = np.exp(logits - logits.max(1, keepdims=True))
    probs = raised / raised.sum(1, keepdims=True)
    return np.stack([probs[0:40], probs[40:80], probs[80:120]])


def test_abstention_is_counted_over_all_repeats(run: tuple[Distilled, Path]) -> None:
    done, _ = run
    _, y, _ = table()
    probs = out_of_fold_probs(done)
    told = done.abstention()
    assert told
    for line in told:
        left_out, right, kept = 0, 0, 0
        for repeat in probs:
            for row, truth in zip(repeat, y[GOLD], strict=True):
                if row.max() < line["below"]:
                    left_out += 1
                else:
                    kept += 1
                    right += row.argmax() == truth
        assert line["left_out"] == round(100 * left_out / 120, 1)
        assert line["accuracy"] == round(100 * right / kept, 1)


def test_the_stored_predictions_are_means_over_the_repeats(run: tuple[Distilled, Path]) -> None:
    done, out = run
    _, y, _ = table()
    probs = out_of_fold_probs(done).mean(0)
    stored = pq.read_table(out / "out_of_fold.parquet").to_pydict()
    assert stored["id"] == [f"r{i}" for i in range(40)]
    assert stored["label"] == [CLASSES[c] for c in y[GOLD]]
    assert stored["predicted"] == [CLASSES[c] for c in probs.argmax(1)]
    np.testing.assert_allclose(stored["probability"], probs.max(1), atol=1e-5)


def percent(found: Interval) -> list[float]:
    return [round(100 * found.value, 4), round(100 * found.low, 4), round(100 * found.high, 4)]


def test_the_config_has_every_number_at_its_place(run: tuple[Distilled, Path]) -> None:
    done, out = run
    about = orjson.loads((out / "student" / "config.json").read_bytes())["about"]
    choice = done.choice
    assert choice.teacher is not None
    assert about["figures"] == {
        "teacher": percent(choice.teacher),
        "gold_only": percent(choice.gold_only),
        "student": percent(choice.score),
        "gain": percent(choice.gain),
    }
    *candidates, returned = about["candidates"]
    for line, told in zip(choice.lines, candidates, strict=True):
        assert told["candidate"] == line.name
        assert told["uses_teacher"] == (line.name != "GoldOnly()")
        assert [told["accuracy"], *told["interval"]] == percent(line.score)
        assert told["weight"] == round(line.weight, 4)
        assert told["accuracy_on_test"] == done.tested[line.name]
    assert [returned["accuracy"], *returned["interval"]] == percent(choice.score)
    assert (returned["weight"], returned["uses_teacher"]) == (None, True)
    assert returned["accuracy_on_test"] == done.tested[""]
    assert len({percent(line.score)[0] for line in choice.lines}) > 1
    assert len(set(done.tested.values())) > 1
    for line, row in zip(choice.lines, read_rows(out / "results.jsonl"), strict=True):
        assert row.method == line.name
        assert row.accuracy["out_of_fold"] == round(100 * line.score.value, 3)
        assert row.accuracy["last"] == done.tested[line.name]
        assert row.labeled == 40


def test_the_teacher_is_measured_on_the_gold_rows_that_it_labeled(
    run: tuple[Distilled, Path],
) -> None:
    done, out = run
    _, y, probs = table()
    rows = range(UNLABELED, 40)
    right = sum(probs[i].argmax() == y[i] for i in rows) / len(rows)
    assert 0.4 < right < 0.95
    assert done.task.teacher_accuracy == pytest.approx(100 * right)
    assert done.choice.teacher is not None
    assert done.choice.teacher.value == pytest.approx(right)
    audit = orjson.loads((out / "audit.json").read_bytes())["numbers"]
    assert audit["val_rows"] == len(rows)
    assert audit["pool_rows"] == 140
    assert audit["quality"]["accuracy"]["value"] == pytest.approx(right)


def test_the_noise_model_of_the_card_is_that_of_the_measured_rows(
    run: tuple[Distilled, Path],
) -> None:
    done, _ = run
    _, y, _ = table()
    rows = np.arange(UNLABELED, 40)
    labels = done.task.labels.take(np.array([f"r{i}" for i in rows]))
    expected = SLaM().noise().fit(labels, y[rows]).alpha_curve_
    assert done.noise is not None
    np.testing.assert_array_equal(done.noise.alpha_curve_.knots_, expected.knots_)
    np.testing.assert_array_equal(done.noise.alpha_curve_.values_, expected.values_)
    assert len(set(expected.values_.tolist())) > 1


def test_confusions_count_truth_before_prediction(run: tuple[Distilled, Path]) -> None:
    done, _ = run
    _, y, probs = table()
    by_student = out_of_fold_probs(done)[0].argmax(1)
    expected = [
        (y[UNLABELED:40], probs[UNLABELED:40].argmax(1)),  # the teacher
        (y[GOLD], by_student),
    ]
    # Of the rounds of cross-validation the first is told.
    logits = np.concatenate([done.choice.out_of_fold[:40], -done.choice.out_of_fold[40:]])
    done = replace(done, choice=replace(done.choice, out_of_fold=logits))
    for found, (truth, said) in zip(done.comparison().confusions, expected, strict=True):
        counts: dict[tuple[int, int], int] = {}
        for pair in zip(truth.tolist(), said.tolist(), strict=True):
            counts[pair] = counts.get(pair, 0) + 1
        assert {(t, s): n for t, s, n in found.counts} == counts
        assert any(counts.get((s, t), 0) != n for (t, s), n in counts.items())


def test_a_methods_test_accuracy_is_that_of_distilling_with_it_alone(
    run: tuple[Distilled, Path],
) -> None:
    """Up to the students whose weight is too small for the returned blend."""
    done, _ = run
    with pytest.warns(UserWarning, match="have no teacher label"):
        alone = made(methods=(GoldOnly(),))
    assert done.tested["GoldOnly()"] == alone.tested["GoldOnly()"]
    assert alone.tested[""] == pytest.approx(alone.tested["GoldOnly()"], abs=1.01)
    assert len(set(done.tested.values())) == 4


def test_what_is_kept_is_what_has_the_weight(run: tuple[Distilled, Path]) -> None:
    done, _ = run
    lines = [replace(line, weight=float(line.name == "GoldOnly()")) for line in done.choice.lines]
    lines[-1] = replace(lines[-1], score=Interval(1.0, 1.0, 1.0))
    found = replace(done, blend=False, choice=replace(done.choice, lines=tuple(lines)))
    assert found.kept == "GoldOnly()"
    assert found.lines()[-1]["uses_teacher"] is False
    kept = [row[3] for row in found.table()["rows"]]
    assert kept == ["", *("yes" if line.weight else "" for line in lines), ""]


def test_shares_of_classes_are_those_of_the_pool(run: tuple[Distilled, Path]) -> None:
    """A pool of other classes than gold is pointed out, with the student's own predictions."""
    done, _ = run
    x, _, _ = table()
    said = done.student.logits(x[POOL]).argmax(1)
    few = done.task.split.pool[said == 1]
    task = replace(done.task, split=replace(done.task.split, pool=few))
    assert "predicts 'ape' for 100.0% of the pool" in replace(done, task=task).verdict()


def test_the_settings_reach_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    class Enough(Exception):
        pass

    def spy(rows: DecisionRows, candidates: Any, **more: Any) -> None:
        assert rows.judges.sum() == 40
        told.append({name: more[name] for name in ("seed", "folds", "metric")})
        raise Enough

    told: list[dict[str, Any]] = []
    monkeypatch.setattr(linear_run, "choose_linear", spy)
    with pytest.warns(UserWarning, match="have no teacher label"), pytest.raises(Enough):
        made(seed=7, folds=4, metric="macro_f1")
    assert told == [{"seed": 7, "folds": 4, "metric": "macro_f1"}]


def test_intervals_are_wilsons_at_the_number_of_gold_rows(run: tuple[Distilled, Path]) -> None:
    """Three rounds of cross-validation are no more rows; the teacher has those it labeled."""
    choice = run[0].choice
    assert choice.teacher is not None
    shares = [(found, 40) for found in (choice.score, choice.gold_only)]
    shares += [(line.score, 40) for line in choice.lines]
    for found, rows in [*shares, (choice.teacher, 40 - UNLABELED)]:
        assert found.low < found.value < found.high
        for end in (found.low, found.high):
            assert (found.value - end) ** 2 == pytest.approx(1.96**2 * end * (1 - end) / rows, 1e-3)
