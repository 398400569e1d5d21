"""A method of the user's own: registered, parsed, wrapped, trained, resumed and reported."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
import typer
from method_problems import DONE, tiny, whole_batch
from torch import Tensor, nn
from typer.testing import CliRunner

import noisyteacher as nt
from noisyteacher import losses
from noisyteacher.bench import run_recipe
from noisyteacher.bench.method_sets import parse_methods
from noisyteacher.bench.recipe import smoke
from noisyteacher.bench.recipes.digits import digits
from noisyteacher.cli.bench import bench
from noisyteacher.cli.distill import distill
from noisyteacher.core.errors import InputError
from noisyteacher.methods import (
    ALL_METHODS,
    Batch,
    Calibrated,
    Consistency,
    Fidelity,
    Method,
    Output,
    PlainMethod,
    SLaM,
    TargetMethod,
    Temperature,
    Vanilla,
    Wrapper,
    fit_and_prepare,
    import_method,
    parse,
)
from noisyteacher.report import write_run_page
from noisyteacher.runs import append_row, named_method, read_rows
from noisyteacher.train import Adam, Job, TrainConfig
from user_files import MOODS, noisy_probs, reviews, write_reviews


@dataclass(frozen=True)
class MyLoss(Method):
    beta: float = 1.0

    def loss(self, output, batch, modules, progress):
        log_f = output.logits.float().log_softmax(1)
        unsure = (1 - log_f.exp()) ** self.beta
        return (-(batch.values["target"] * unsure * log_f).sum(1) * batch.weight).mean()


@dataclass(frozen=True)
class MyOptions(MyLoss):
    """Fields of other kinds; annotations of this module are strings, as those of scripts may be."""

    name: str = "a"
    steps: int = 1
    on: bool = False
    shares: tuple[float, ...] = (0.5, 0.5)
    nested: tuple[object, ...] = field(default=())


@dataclass(frozen=True, repr=False)
class MyBase(losses.BaseLoss):
    power: float = 2.0

    def log_cost(self, log_probs: Tensor) -> Tensor:
        return (-torch.expm1(log_probs)) ** self.power


@dataclass(frozen=True)
class MyPlain(PlainMethod):
    power: float = 2.0
    hard: bool = False

    def base_loss(self) -> losses.BaseLoss:
        return MyBase(self.power)


@dataclass(frozen=True)
class MyWrapper(Wrapper):
    inner: Method = Vanilla()  # noqa: RUF009  frozen
    factor: float = 2.0

    needs: ClassVar[frozenset[str]] = frozenset()

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        return self.factor * super().loss(output, batch, modules, progress)


class Opaque:
    """Prints as nothing that ``parse`` could read."""

    def __repr__(self) -> str:
        return "<opaque>"


OPAQUE = Opaque()


@dataclass(frozen=True)
class MyOpaque(MyLoss):
    part: object = None


MINE: list[tuple[Method, str]] = [
    (MyLoss(), "MyLoss()"),
    (MyLoss(2), "MyLoss(beta=2)"),
    (MyLoss(np.float32(0.5)), "MyLoss(beta=0.5)"),  # type: ignore[arg-type]
    (MyOptions(), "MyOptions()"),
    (MyOptions(name="b", steps=-3, on=True), "MyOptions(name='b', steps=-3, on=True)"),
    (MyOptions(shares=(0.25, -1.0)), "MyOptions(shares=(0.25, -1.0))"),
    (MyOptions(shares=()), "MyOptions(shares=())"),
    (MyOptions(nested=(1, "x", (None, SLaM()))), "MyOptions(nested=(1, 'x', (None, SLaM())))"),
    (MyPlain(3.0), "MyPlain(power=3.0)"),
    (SLaM(base=MyPlain(3.0)), "SLaM(base=MyBase(3.0))"),
    (MyWrapper(), "MyWrapper(inner=Vanilla())"),
    (MyWrapper(MyLoss(2), 0.5), "MyWrapper(inner=MyLoss(beta=2), factor=0.5)"),
    (Consistency(inner=MyLoss(beta=2)), "Consistency(inner=MyLoss(beta=2))"),
    (
        Consistency(Calibrated(Fidelity(1.0, inner=MyWrapper(MyLoss())))),
        "Consistency(inner=Calibrated(inner=Fidelity(beta=1.0, "
        "inner=MyWrapper(inner=MyLoss()))))",
    ),
    (
        Temperature(1.0, 2.0, inner=MyLoss(0.5)),
        "Temperature(t_a=1.0, t_b=2.0, inner=MyLoss(beta=0.5))",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("method", "text"), MINE, ids=[text for _, text in MINE])
def test_it_prints_and_parses_as_ours_do(method: Method, text: str) -> None:
    assert repr(method) == text
    again = parse(text)
    assert again == method
    assert hash(again) == hash(method)
    assert repr(again) == text
    assert named_method(text) == method


@pytest.mark.parametrize(
    "method", [m for m, _ in MINE if not isinstance(m, MyOptions)], ids=[
        text for m, text in MINE if not isinstance(m, MyOptions)
    ]
)  # fmt: skip
@pytest.mark.parametrize("stored", [None, 3])
def test_it_has_a_finite_loss_alone_and_wrapped(method: Method, stored: int | None) -> None:
    problem = tiny(classes=6, stored=stored)
    if isinstance(method, SLaM):
        method = replace(method, k=2)
    columns = fit_and_prepare(method, problem.rows, problem.labels).columns
    logits = torch.randn(len(columns), 6, requires_grad=True)
    loss = method.loss(Output(logits, strong=logits), whole_batch(columns), None, DONE)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()
    assert logits.grad.abs().sum() > 0


def test_by_default_every_row_has_a_dense_soft_target() -> None:
    problem = tiny(classes=6, stored=3)
    columns = fit_and_prepare(MyLoss(), problem.rows, problem.labels).columns
    assert len(columns) == len(problem.rows)
    assert (columns.weight == 1).all()
    assert columns.rows_per_epoch == 0
    gold = problem.rows.gold
    expected = np.where(gold[:, None], np.eye(6)[problem.truth], problem.labels.probs)
    np.testing.assert_array_equal(columns.values["target"], expected.astype(np.float32))
    assert MyLoss().needs == {"soft labels"}
    assert MyLoss().views == ("weak",)
    assert MyLoss().noise() is None
    with pytest.raises(InputError, match=r"MyLoss\(\) needs teacher labels"):
        fit_and_prepare(MyLoss(), problem.rows, None)


def test_at_power_zero_the_example_is_vanilla() -> None:
    problem = tiny()
    logits = torch.randn(120, 4)
    found = []
    for method in (MyLoss(beta=0.0), Vanilla()):
        columns = fit_and_prepare(method, problem.rows, problem.labels).columns
        found.append(method.loss(Output(logits), whole_batch(columns), None, DONE))
    torch.testing.assert_close(*found)


def test_a_method_without_teacher_needs_no_labels() -> None:
    @dataclass(frozen=True)
    class NoTeacher(Method):
        needs: ClassVar[frozenset[str]] = frozenset()

        def loss(self, output, batch, modules, progress):
            return output.logits.sum()

    columns = fit_and_prepare(NoTeacher(), tiny().rows, None).columns
    assert columns.values == {}
    assert MyWrapper(NoTeacher()).needs == frozenset()
    assert Consistency(NoTeacher()).needs == frozenset()
    assert Consistency(MyLoss()).needs == {"soft labels"}


def test_a_wrapper_adds_needs_and_views_of_its_inner_method() -> None:
    assert MyWrapper(nt.methods.VID()).needs == {"soft labels", "embeddings"}
    assert MyWrapper(nt.methods.FixMatch()).views == ("weak", "strong")
    assert MyWrapper.needs == frozenset()
    assert MyWrapper.views == ("weak",)


def test_simple_fields_are_held_to_their_annotations_written_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain_annotations.py").write_text(
        "from dataclasses import dataclass\n"
        "from noisyteacher.methods import Method\n"
        "@dataclass(frozen=True)\n"
        "class PlainAnnotations(Method):\n"  # without the future import: types, not strings
        "    beta: float = 1.0\n"
        "    steps: int = 2\n"
        "    on: bool = True\n"
        "    name: str = 'a'\n"
        "    either: float | None = None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module("plain_annotations").PlainAnnotations
    assert repr(kind(beta=2, either=0.5)) == "PlainAnnotations(beta=2, either=0.5)"
    for wrong in ({"beta": "2"}, {"steps": 2.5}, {"on": 1}, {"name": 3}, {"beta": float("nan")}):
        (name,) = wrong
        for refuses in (kind, MyOptions):
            with pytest.raises(InputError, match=f"{refuses.__name__}: {name} must be "):
                refuses(**wrong)


# -- registration ---------------------------------------------------------------------------------


def test_two_classes_of_one_name_are_refused() -> None:
    with pytest.raises(InputError) as caught:

        @dataclass(frozen=True)
        class SLaM(Method):
            pass

    assert str(caught.value) == (
        "There is already a method SLaM, noisyteacher.methods.slam.SLaM; give "
        "test_user_methods.test_two_classes_of_one_name_are_refused.<locals>.SLaM another name."
    )
    assert type(parse("SLaM()")) is nt.methods.SLaM
    with pytest.raises(InputError, match="There is already a method MyLoss"):
        type("MyLoss", (Vanilla,), {"__module__": "losses_of_another"})


def test_a_cell_that_runs_again_replaces_its_class() -> None:
    def cell(default: float) -> type[Method]:
        @dataclass(frozen=True)
        class InACell(Method):
            gamma: float = default

            def loss(self, output, batch, modules, progress):
                return output.logits.sum()

        return InACell

    first = cell(1.0)
    assert named_method("InACell(gamma=3)") == first(gamma=3)
    second = cell(2.0)
    assert type(parse("InACell()")) is second
    assert named_method("InACell(gamma=3)") == second(gamma=3)
    assert parse("InACell()").gamma == 2.0


def test_a_row_read_before_its_class_is_defined_is_text_until_then() -> None:
    assert named_method("DefinedLater(gamma=2)") == "DefinedLater(gamma=2)"

    @dataclass(frozen=True)
    class DefinedLater(Method):
        gamma: float = 1.0

    assert named_method("DefinedLater(gamma=2)") == DefinedLater(gamma=2)


def test_a_reloaded_module_replaces_its_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(tmp_path / "reloaded_losses.py", "Reloaded")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reloaded_losses")
    before = module.Reloaded
    importlib.reload(module)
    assert module.Reloaded is not before
    assert type(parse("Reloaded(beta=2)")) is module.Reloaded


def test_settings_without_the_decorator_are_refused() -> None:
    class Forgotten(Method):
        beta: float = 1.0

    for make in (Forgotten, lambda: Forgotten(beta=2.0)):  # type: ignore[call-arg]
        with pytest.raises(InputError) as caught:
            make()
        assert str(caught.value) == (
            "Forgotten has the setting beta but is not a dataclass: write @dataclass(frozen=True) "
            "above the class."
        )

    class NothingOfItsOwn(MyLoss):
        formula: ClassVar[str] = "f"

    assert repr(NothingOfItsOwn(2.0)) == "NothingOfItsOwn(beta=2.0)"
    assert parse("NothingOfItsOwn(2.0)") == NothingOfItsOwn(2.0)


def test_a_repr_of_ones_own_stays() -> None:
    @dataclass(frozen=True)
    class OwnRepr(MyLoss):
        def __repr__(self) -> str:
            return f"OwnRepr({self.beta})"

    @dataclass(frozen=True)
    class InheritsRepr(OwnRepr):
        other: int = 1

    assert repr(OwnRepr(3.0)) == repr(InheritsRepr(3.0)) == "OwnRepr(3.0)"


def test_classes_to_build_on_are_no_methods() -> None:
    for base in (Method, TargetMethod, PlainMethod, Wrapper):
        with pytest.raises(InputError, match=f"There is no method '{base.__name__}'"):
            parse(f"{base.__name__}()")
        assert base not in ALL_METHODS


def test_ours_are_listed_by_family_and_exported() -> None:
    names = [kind.__name__ for kind in ALL_METHODS]
    assert names[:3] == ["GoldOnly", "Vanilla", "TaylorCE"]
    assert not any(issubclass(kind, MyLoss) for kind in ALL_METHODS)
    assert set(names) <= set(nt.methods.__all__)
    assert len(set(nt.methods.__all__)) == len(nt.methods.__all__)
    for name in nt.methods.__all__:
        assert getattr(nt.methods, name) is not None
    for kind in ALL_METHODS:
        assert kind.__module__.startswith("noisyteacher.methods.")
        assert kind.formula
        assert kind.reference


# -- from the command line ------------------------------------------------------------------------


def write_module(path: Path, name: str) -> None:
    path.write_text(
        "from dataclasses import dataclass\n"
        "from noisyteacher.methods import Method\n\n\n"
        "@dataclass(frozen=True)\n"
        f"class {name}(Method):\n"
        "    beta: float = 1.0\n\n"
        "    def loss(self, output, batch, modules, progress):\n"
        "        log_f = output.logits.float().log_softmax(1)\n"
        "        return -(batch.values['target'] * log_f).sum(1).mean() * self.beta\n"
    )


def test_text_of_the_command_line_imports_the_module_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "some_losses").mkdir()
    write_module(tmp_path / "losses_of_mine.py", "Imported")
    write_module(tmp_path / "some_losses" / "more.py", "Deeper")
    assert repr(import_method("losses_of_mine:Imported(beta=2)")) == "Imported(beta=2)"
    assert repr(import_method(" some_losses.more : Deeper ")) == "Deeper()"
    wrapped = import_method("losses_of_mine:Consistency(inner=Imported(beta=3))")
    assert repr(wrapped) == "Consistency(inner=Imported(beta=3))"
    assert import_method("SLaM(hard=True)") == SLaM(hard=True)
    several = parse_methods("Vanilla(); losses_of_mine:Imported(); Imported(beta=1.0)")
    assert [repr(method) for method in several] == ["Vanilla()", "Imported()"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no_such_losses:MyLoss()", "The module no_such_losses cannot be imported: No module"),
        ("math:MyLos()", "did you mean MyLoss"),
        ("math:", "is not a method"),
        ("SLaM(base='a:b')", "base must be one of"),
        ("os.system('true'):SLaM()", "is not a method"),
        (":SLaM()", "is not a method"),
        ("math:__import__('os').system('true')", "neither a method nor a plain value"),
    ],
)
def test_bad_text_of_the_command_line_gets_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        import_method(text)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_both_verbs_train_a_method_that_they_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    write_module(tmp_path / "losses_of_the_shell.py", "Typed")
    app = typer.Typer()
    app.command()(bench)
    app.command()(distill)

    def run(*arguments: object) -> None:
        done = CliRunner().invoke(app, [*map(str, arguments), "--device", "cpu", "--json"])
        assert done.exit_code == 0, (done.output, done.exception)

    typed = "losses_of_the_shell:Typed(beta=2)"
    for _ in range(2):
        run("bench", "digits", "--quick", "--method", typed, "--out", tmp_path / "bench")
        names = [row.method for row in read_rows(tmp_path / "bench" / "results.jsonl")]
        assert names.count("Typed(beta=2)") == 1
    files = write_reviews(tmp_path / "files")
    data = ["--gold", files / "gold.csv", "--pool", files / "pool.csv"]
    data += ["--labels", files / "labels", "--out", tmp_path / "distill"]
    run("distill", *data, "--method", typed, "--epochs", 1)
    rows = read_rows(tmp_path / "distill" / "results.jsonl")
    assert "Typed(beta=2)" in {row.method for row in rows}


def test_stored_text_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write_module(tmp_path / "never_imported.py", "NeverImported")
    for text in ("never_imported:NeverImported()", "never_imported.NeverImported()"):
        assert named_method(text) == text
        with pytest.raises(InputError):
            parse(text)
    assert "never_imported" not in sys.modules


# -- through the pipeline -------------------------------------------------------------------------

TEXTS = ["MyLoss(beta=2)", "Consistency(inner=MyLoss())"]


def test_a_recipe_that_runs_again_adds_no_row(tmp_path: Path) -> None:
    methods = (*map(parse, TEXTS), MyOpaque(part=OPAQUE), MyLoss(0.5))
    recipe = replace(smoke(digits()), methods=methods)
    rows = run_recipe(recipe, tmp_path, device="cpu", quiet=True)
    names = [*TEXTS, "MyOpaque(part=<opaque>)", "MyLoss(beta=0.5)"]
    assert sorted(row.method for row in rows if row.epochs) == sorted(names)
    assert {row.distillation for row in rows if row.method in names} == {"soft"}
    before = (tmp_path / "results.jsonl").read_bytes()
    again = run_recipe(recipe, tmp_path, device="cpu", quiet=True)
    assert (tmp_path / "results.jsonl").read_bytes() == before
    assert again == rows


def test_other_settings_are_another_checkpoint() -> None:
    problem = tiny()

    def fingerprint(method: Method) -> str:
        prepared = fit_and_prepare(method, problem.rows, problem.labels)
        positions = np.arange(len(problem.rows))
        job = Job("s", object(), method, prepared, positions, positions[8:108])  # type: ignore[arg-type]
        return job.fingerprint("settings")

    methods = [
        MyLoss(),
        MyLoss(2.0),
        MyOptions(),
        MyOptions(name="b"),
        MyOptions(steps=2),
        MyOptions(on=True),
        MyOptions(shares=(1.0,)),
        MyOptions(nested=(MyLoss(3.0),)),
        MyOptions(nested=(MyLoss(4.0),)),
        MyWrapper(MyLoss()),
        MyWrapper(MyLoss(2.0)),
        MyWrapper(MyLoss(), 3.0),
    ]
    assert len({fingerprint(method) for method in methods}) == len(methods)
    assert fingerprint(MyLoss(2.0)) == fingerprint(MyLoss(beta=2.0))


def test_distill_takes_it_and_its_run_goes_on(tmp_path: Path) -> None:
    texts, y = reviews(260)
    ids = np.array([f"r{i}" for i in range(260)])
    names = np.array(MOODS)[y]
    probs = noisy_probs(y, 2, 0.8)
    given = {
        "gold": (ids[:40], texts[:40], names[:40]),
        "val": (ids[40:80], texts[40:80], names[40:80]),
        "selection": (ids[80:120], texts[80:120], names[80:120]),
        "pool": (ids[120:], texts[120:]),
        "labels": nt.TeacherLabels.from_probs(ids, probs, MOODS),
        "training": TrainConfig(2, 64, Adam(0.02), gold_repeat=5, steps_per_epoch=10),
        "device": "cpu",
        "out": tmp_path,
    }
    student = nt.distill("linear", method=[MyLoss(), "MyLoss(beta=2)"], **given)
    assert set(student.predict(texts[:5])) <= set(MOODS)
    rows = read_rows(tmp_path / "results.jsonl")
    assert {"MyLoss()", "MyLoss(beta=2)", "GoldOnly()"} <= {row.method for row in rows}
    before = (tmp_path / "results.jsonl").read_bytes()
    nt.distill("linear", method=[MyLoss(), MyLoss(beta=2)], **given)
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_a_report_shows_an_unknown_method_as_text(tmp_path: Path) -> None:
    recipe = replace(smoke(digits()), methods=(MyLoss(beta=2), Vanilla()))
    rows = run_recipe(recipe, tmp_path, device="cpu", quiet=True)
    stranger = next(row for row in rows if row.method == "MyLoss(beta=2)")
    append_row(
        tmp_path / "results.jsonl",
        replace(stranger, method="Elsewhere(gamma=<3>)", accuracy=dict(stranger.accuracy)),
    )
    # In a process that knows neither: both are text.
    code = (
        "import sys; from noisyteacher.report import write_run_page; "
        "write_run_page(sys.argv[1]); print('test_user_methods' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
    there = (tmp_path / "report.html").read_text()
    here = write_run_page(tmp_path).read_text()
    for page in (there, here):
        assert "MyLoss(beta=2)" in page
        assert "Elsewhere(gamma=&lt;3&gt;)" in page or "Elsewhere(gamma=\\u003c3\\u003e)" in page
        assert "Elsewhere(gamma=<3>)" not in page
