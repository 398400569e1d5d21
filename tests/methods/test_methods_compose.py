"""Every method alone, and every method in every wrapper and pair of wrappers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from method_lists import COMPOSED, PLAIN, WRAPPERS
from method_problems import DONE, LinearStudent, make_rows, tiny, whole_batch
from torch.nn import functional as F

from noisyteacher.core.errors import InputError, MissingIdsError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import Poly1
from noisyteacher.methods import (
    ALL_METHODS,
    DKD,
    GCE,
    PRETRAINED,
    UPS,
    VID,
    Calibrated,
    ConfidenceFilter,
    Consistency,
    Fidelity,
    FixMatch,
    ForwardCorrection,
    GoldOnly,
    Method,
    Output,
    PolyLoss,
    Rows,
    SelfTraining,
    SLaM,
    SymmetricCE,
    TaylorCE,
    Temperature,
    TruncatedGCE,
    Vanilla,
    Weighted,
    Wrapper,
    fit_and_prepare,
)

PROBLEM = tiny()


def step(method: Method, problem=PROBLEM) -> tuple[torch.Tensor, LinearStudent]:
    """Prepare, refresh where wanted, and take the loss and its gradient on all rows."""
    columns = fit_and_prepare(method, problem.rows, problem.labels).columns
    x = problem.features(columns)
    torch.manual_seed(0)
    student = LinearStudent(x.shape[1], problem.rows.classes)
    torch.nn.init.normal_(student.last.weight)
    modules = method.modules(student, columns)
    if method.refresh_every():
        val = problem.x[torch.from_numpy(problem.rows.val_ids)]
        probs, val_probs = student(x).logits.softmax(1), student(val).logits.softmax(1)
        method.refresh(probs.detach(), val_probs.detach(), columns)
    output = student(x, x + 0.1 if "strong" in method.views else None)
    loss = method.loss(output, whole_batch(columns), modules, torch.tensor(0.3))
    loss.backward()
    return loss, student


@pytest.mark.parametrize("method", COMPOSED, ids=repr)
def test_every_composition_gives_a_finite_loss_and_gradient(method: Method) -> None:
    loss, student = step(method)
    assert loss.shape == ()
    assert torch.isfinite(loss)
    gradient = student.last.weight.grad
    assert gradient is not None
    assert torch.isfinite(gradient).all()
    assert gradient.abs().sum() > 0


def test_the_list_above_has_every_method() -> None:
    seen = {type(m) for m in COMPOSED} | {SelfTraining}  # which no step can train
    assert seen == set(ALL_METHODS)
    assert {kind for kind in ALL_METHODS if issubclass(kind, Wrapper)} == {
        Fidelity, Temperature, Calibrated, Consistency
    }  # fmt: skip


@pytest.mark.parametrize(
    "method", [m for m in PLAIN if not isinstance(m, VID | GoldOnly)], ids=repr
)
def test_gold_rows_need_no_teacher_label(method: Method) -> None:
    with_gold, _ = step(method, tiny(gold_in_store=True))
    without, _ = step(method, tiny(gold_in_store=False))
    torch.testing.assert_close(with_gold, without)


@pytest.mark.parametrize(
    "method",
    [m for m in PLAIN
     if not isinstance(m, PolyLoss | TaylorCE | GCE | TruncatedGCE | SymmetricCE | VID)
     and not (isinstance(m, SLaM) and m.base != "ce")],
    ids=repr,
)  # fmt: skip
def test_gold_rows_have_weight_one_and_plain_cross_entropy(method: Method) -> None:
    columns = fit_and_prepare(method, PROBLEM.rows, PROBLEM.labels).columns
    gold = columns.y >= 0
    assert (columns.weight[gold] == 1).all()
    only = replace(
        columns,
        y=columns.y[gold],
        weight=columns.weight[gold],
        values={name: value[gold] for name, value in columns.values.items()},
    )
    logits = torch.randn(int(gold.sum()), 4, generator=torch.Generator().manual_seed(1))
    loss = method.loss(Output(logits, strong=-logits), whole_batch(only), None, DONE)
    torch.testing.assert_close(loss, F.cross_entropy(logits, only.y))


@pytest.mark.parametrize("method", PLAIN, ids=repr)
def test_labels_and_columns_carry_no_gradient(method: Method) -> None:
    columns = fit_and_prepare(method, PROBLEM.rows, PROBLEM.labels).columns
    tensors = [columns.weight, *columns.values.values(), *columns.constants.values()]
    assert not any(t.requires_grad for t in tensors)
    assert all(len(value) == len(columns) for value in columns.values.values())


@pytest.mark.parametrize(
    "method", [Vanilla(), Vanilla(hard=True), SLaM(k=2), SLaM(k=2, hard=True), TaylorCE(2), GCE(),
               SLaM(base=Poly1(2.0), k=4), Weighted(), Weighted(hard=True), VID(),
               ConfidenceFilter(),
               Temperature(t_a=1, t_b=3), Temperature(t_a=2, t_b=0.5, inner=SLaM(k=2)),
               Temperature(t_a=2, t_b=0.5, a_target="teacher"),
               Temperature(t_a=2, t_b=0.5, a_target="teacher", inner=SLaM(k=2, hard=True)),
               Calibrated(inner=SLaM(k=2)), SymmetricCE(), DKD()],
    ids=repr,
)  # fmt: skip
def test_a_top_k_store_gives_what_its_dense_probabilities_give(method: Method) -> None:
    sparse = tiny(classes=9, stored=4)
    dense = replace(
        sparse,
        labels=TeacherLabels.from_probs(
            sparse.labels.ids, sparse.labels.probs, extras=sparse.labels.extras
        ),
    )
    columns = fit_and_prepare(method, sparse.rows, sparse.labels).columns
    if not isinstance(method, SymmetricCE | DKD):
        assert "target" not in columns.values
        assert "mask" not in columns.values
    a, one = step(method, sparse)
    b, other = step(method, dense)
    # Dense labels are rounded to float16 once more.
    torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(one.last.weight.grad, other.last.weight.grad, rtol=0.02, atol=2e-3)


def test_gold_only_takes_as_many_steps_as_vanilla() -> None:
    columns = fit_and_prepare(GoldOnly(), PROBLEM.rows, None).columns
    assert columns.index.tolist() == list(range(108))
    assert columns.rows_per_epoch == len(PROBLEM.rows) == 120
    without_val = fit_and_prepare(GoldOnly(use_val=False), PROBLEM.rows, None).columns
    assert without_val.index.tolist() == list(range(8))
    assert without_val.rows_per_epoch == 120


def test_a_wrapper_needs_what_its_inner_method_needs() -> None:
    method = Consistency(inner=Fidelity(beta=1.0, inner=VID()))
    assert method.needs == {"soft labels", "embeddings", "view statistics"}
    assert method.views == ("weak", "strong")
    assert Consistency(inner=None).needs == frozenset()
    assert Fidelity(beta=1.0, inner=FixMatch()).views == ("weak", "strong")
    assert PRETRAINED in Temperature(t_a=1, t_b=1, inner=Weighted()).needs


def test_what_is_missing_is_named_with_the_command_that_makes_it() -> None:
    bare = replace(PROBLEM.labels, extras={})
    with pytest.raises(InputError, match=r"VID\(\) needs .* `noisyteacher label --embeddings`"):
        fit_and_prepare(VID(), PROBLEM.rows, bare)
    for method in (UPS(), Consistency(inner=Fidelity(beta=1.0))):
        with pytest.raises(InputError, match="`noisyteacher label --view-passes 10`"):
            fit_and_prepare(method, PROBLEM.rows, bare)
    with pytest.raises(InputError, match=r"SLaM\(\) needs teacher labels.*`noisyteacher label`"):
        fit_and_prepare(SLaM(), PROBLEM.rows, None)
    few = PROBLEM.labels.take(np.arange(8, 100))
    with pytest.raises(MissingIdsError, match="ids 108, 109"):
        fit_and_prepare(Vanilla(), PROBLEM.rows, few)


def test_gold_rows_of_the_teacher_are_asked_for_by_name() -> None:
    problem = tiny(gold_in_store=False)
    with pytest.raises(MissingIdsError, match=r'ids 0, 1.*on="pool"'):
        fit_and_prepare(VID(), problem.rows, problem.labels)
    with pytest.raises(MissingIdsError, match=r'ids 0, 1.*a_target="true"'):
        fit_and_prepare(Temperature(t_a=1, t_b=2, a_target="teacher"), problem.rows, problem.labels)
    fit_and_prepare(VID(on="pool"), problem.rows, problem.labels)


def test_labels_of_other_classes_are_refused() -> None:
    rows = make_rows(PROBLEM.truth, 8, 100, 7)
    with pytest.raises(InputError, match="labels have 4 classes, the data has 7"):
        fit_and_prepare(Vanilla(), rows, PROBLEM.labels)


@pytest.mark.parametrize("outer", WRAPPERS)
def test_consistency_is_outermost(outer: str) -> None:
    with pytest.raises(InputError, match="Consistency must be the outermost method"):
        WRAPPERS[outer](Consistency())
    with pytest.raises(InputError, match="outermost"):
        Consistency(inner=Consistency())


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_does_not_go_around_itself(name: str) -> None:
    wrap = WRAPPERS[name]
    with pytest.raises(InputError, match="cannot contain itself"):
        wrap(wrap(Vanilla()))
    other = WRAPPERS["Calibrated" if name != "Calibrated" else "Fidelity"]
    with pytest.raises(InputError, match="cannot contain itself"):
        wrap(other(wrap(Vanilla())))


def test_an_inner_method_must_be_a_method() -> None:
    with pytest.raises(InputError, match="inner must be a method such as SLaM"):
        Fidelity(beta=1.0, inner="SLaM()")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Vanilla(hard=1),
        lambda: TaylorCE(0),
        lambda: TaylorCE(2.0),
        lambda: PolyLoss(-1.5),
        lambda: PolyLoss(float("nan")),
        lambda: GCE(0),
        lambda: SLaM(normalize="mean"),
        lambda: SLaM(lower_bound=2),
        lambda: SLaM(lower_bound=float("nan")),
        lambda: SLaM(lower_bound=True),
        lambda: SLaM(normalize="k-1", lower_bound="1/L"),
        lambda: SLaM(lower_bound="1/k"),
        lambda: SLaM(normalize="none", lower_bound="1/k"),
        lambda: SLaM(threshold=-0.1),
        lambda: SLaM(level=3.0),
        lambda: SLaM(metric="distance"),
        lambda: SLaM(k=1),
        lambda: SLaM(k=3.0),
        lambda: SLaM(k="all"),
        lambda: SLaM(base="hinge"),
        lambda: SLaM(base=TaylorCE(2, hard=True)),
        lambda: SLaM(base=lambda target, probs: probs.sum(1)),
        lambda: VID(layers=2),
        lambda: VID(on="gold"),
        lambda: VID(weight=-1),
        lambda: Weighted(every=-1),
        lambda: Weighted(max_weight=0),
        lambda: UPS(positive_threshold=1.5),
        lambda: UPS(negative_std=0),
        lambda: Fidelity(beta=-1.0),
        lambda: Fidelity(beta=1.0, normalizer="median"),
        lambda: Fidelity(beta=1.0, normalizer=["mean"]),
        lambda: Temperature(t_a=0, t_b=1),
        lambda: Temperature(t_a=1, t_b=-1),
        lambda: Temperature(t_a=1, t_b=1, a_target="both"),
        lambda: Temperature(t_a=1, t_b=1, a_target="teacher", inner=GoldOnly()),
        lambda: Consistency(threshold=1.1),
        lambda: Consistency(weight=-0.1),
        lambda: ConfidenceFilter(threshold="high"),
        lambda: ConfidenceFilter(threshold=True),
        lambda: ConfidenceFilter(precision=0),
        lambda: ConfidenceFilter(score="entropy"),
        lambda: FixMatch(threshold=2.0),
        lambda: DKD(temperature=0),
        lambda: DKD(warmup=2.0),
        lambda: SymmetricCE(alpha=-1.0),
        lambda: ForwardCorrection(smoothing=-1.0),
    ],
)
def test_settings_out_of_range_are_refused_in_one_sentence(make) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_become_plain_ones() -> None:
    assert repr(Fidelity(beta=np.float64(0.5))) == "Fidelity(beta=0.5, inner=Vanilla())"
    assert repr(SLaM(k=np.int64(3))) == "SLaM(k=3)"


def test_a_method_with_a_strong_view_says_when_it_got_none() -> None:
    for method in (Consistency(inner=None), FixMatch()):
        columns = fit_and_prepare(method, PROBLEM.rows, PROBLEM.labels).columns
        with pytest.raises(InputError, match="needs a strong view"):
            method.loss(Output(torch.zeros(120, 4)), whole_batch(columns), None, DONE)


def test_an_empty_selection_warns() -> None:
    for method in (UPS(positive_std=1e-9, negative_std=1e-9), ConfidenceFilter(threshold=1.0)):
        with pytest.warns(NoisyTeacherWarning, match="only gold rows are left"):
            columns = fit_and_prepare(method, PROBLEM.rows, PROBLEM.labels).columns
        assert len(columns) == 108


def test_rows_without_a_pool_are_prepared() -> None:
    rows = PROBLEM.rows
    gold = Rows(rows.ids[:108], rows.y[:108], rows.val_ids, rows.val_y, rows.classes)
    for method in (Vanilla(), SLaM(), Fidelity(beta=1.0), UPS(), ConfidenceFilter(), Weighted()):
        assert len(fit_and_prepare(method, gold, PROBLEM.labels).columns) == 108
