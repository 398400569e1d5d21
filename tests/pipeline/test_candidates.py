"""What is trained, how long, and which settings are refused."""

from __future__ import annotations

from typing import Any

import pytest

from noisyteacher.choose.choice import FLOOR, Candidate
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import slug
from noisyteacher.methods import Consistency, GoldOnly, SLaM, Vanilla, Weighted
from noisyteacher.models import MLP, BagLinear, ModelSpec, ResNetCifar, TextEncoder
from noisyteacher.pipeline import DistillSettings
from noisyteacher.pipeline.candidates import choose_candidates
from noisyteacher.pipeline.defaults import training_for


def test_candidates_by_kind_and_wish() -> None:
    def named(*arguments: Any, **more: Any) -> list[str]:
        return [candidate.name for candidate in choose_candidates(*arguments, **more)[0]]

    consistency = "Consistency(inner=SLaM(hard=True, per_class=True))"
    calibrated = "Consistency(inner=Calibrated(inner=Vanilla()))"
    assert named("text", 3, SLaM()) == [FLOOR, "GoldOnly()", "SLaM()", consistency]
    tables = [FLOOR, "GoldOnly()", "SLaM()", "Calibrated(inner=Vanilla())", consistency]
    assert named("table", 3, SLaM()) == tables
    images = ["GoldOnly()", "SLaM()", calibrated, "Consistency(inner=SLaM())"]
    assert named("image", 3, SLaM()) == images
    assert sorted(named("image", 3, Consistency(SLaM()))) == sorted({*images} - {"SLaM()"})
    assert named("text", 3, SLaM(), quick=True) == [FLOOR, "GoldOnly()", "SLaM()"]
    assert named("text", 3, GoldOnly(), quick=True) == [FLOOR, "GoldOnly()"]
    assert named("image", 3, SLaM(), methods=[Vanilla()]) == ["GoldOnly()", "Vanilla()"]
    # A few hundred gold rows fill a table of 10 by 10, but not of 100 by 100.
    corrected = "Consistency(inner=ForwardCorrection())"
    assert corrected in named("text", 10, SLaM(), compare=True)
    assert corrected not in named("text", 100, SLaM(), compare=True)
    taylor = "Consistency(inner=Calibrated(inner=TaylorCE(2)))"
    assert taylor in named("table", 100, SLaM(), compare=True)
    assert taylor not in named("image", 100, SLaM(), compare=True)
    assert "Consistency(inner=None)" in named("image", 100, SLaM(), compare=True)
    assert "Consistency(inner=None)" not in named("table", 100, SLaM(), compare=True)
    with pytest.raises(InputError, match="pre-trained"):
        choose_candidates("text", 3, SLaM(), methods=[Weighted()])


def test_the_anchor_is_among_the_candidates_and_depends_on_no_order() -> None:
    def anchor(*arguments: Any, **more: Any) -> str | None:
        candidates, found = choose_candidates(*arguments, **more)
        assert found is None or found in candidates
        return found and found.name

    calibrated = "Consistency(inner=Calibrated(inner=Vanilla()))"
    assert anchor("image", 3, SLaM()) == anchor("image", 3, SLaM(), compare=True) == calibrated
    assert anchor("table", 3, SLaM()) == "Calibrated(inner=Vanilla())"
    assert anchor("text", 2, SLaM()) == "Consistency(inner=SLaM(hard=True, k=2, per_class=True))"
    assert anchor("image", 3, SLaM(), quick=True) == "SLaM()"
    assert anchor("image", 3, GoldOnly(), quick=True) is None
    assert anchor("image", 3, SLaM(), methods=[Vanilla()]) == "Vanilla()"
    for methods in ([Vanilla(), SLaM()], [SLaM(), Vanilla()]):
        assert anchor("image", 3, SLaM(), methods=methods) is None


def test_every_candidate_has_a_checkpoint_of_its_own() -> None:
    alike = [Consistency(SLaM(threshold=0.95)), Consistency(SLaM(), threshold=0.95)]
    candidates = [*map(Candidate, alike), Candidate(alike[0], generation=2)]
    assert len({slug(candidate.name) for candidate in candidates}) == 3


@pytest.mark.parametrize(
    ("kind", "spec", "rows", "epochs"),
    [
        ("text", BagLinear(9, 2), 5_000, 12),
        ("text", BagLinear(9, 2), 1_000_000, 2),
        ("table", MLP(4, 2), 300_000, 8),
        ("text", TextEncoder("name", 2), 200_000, 2),
        ("image", ResNetCifar(20, 2), 50_000, 50),
        ("image", ResNetCifar(20, 2), 1_280_000, 20),
    ],
)
def test_epochs_suit_the_size_of_the_pool(
    kind: Any, spec: ModelSpec, rows: int, epochs: int
) -> None:
    assert training_for(kind, spec, rows).epochs == epochs


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"generations": 0}, "generations must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"folds": 0}, "folds must be at least 1, not 0"),
        ({"metric": "f1"}, "metric must be one of"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DistillSettings(**settings)
