"""Every recipe, shrunk, on data made on the spot; and the paper's constants."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from made_data import write_encoder
from torch import Tensor, nn

from noisyteacher.bench import run_recipe
from noisyteacher.bench.bench_run import _read_alike
from noisyteacher.bench.method_sets import FIDELITY, TEMPERATURE, parse_methods
from noisyteacher.bench.paper_tables import detail_table
from noisyteacher.bench.plan import planned_students
from noisyteacher.bench.recipe import smoke
from noisyteacher.bench.recipes import RECIPES, find_recipe, parse_model
from noisyteacher.bench.result_lines import lines
from noisyteacher.core.errors import InputError
from noisyteacher.methods import SLaM, Vanilla
from noisyteacher.models import BagLinear, MobileNet, ResNetCifar, TextEncoder

FIELDS = [
    *("recipe", "dataset", "distillation", "labeled", "method", "gold_repeat", "generation"),
    *("trial", "epochs", "accuracy", "macro_f1", "teacher_accuracy", "curve", "seconds"),
    *("images_per_second", "seeds", "hardware", "versions", "commit", "finished_at"),
]

# The dearer ones with two methods of theirs only.
SMOKED = {
    "cifar10": None,
    "cifar100": None,
    "cifar100-fidelity": "Fidelity(1.0);Fidelity(1.0, inner=SLaM())",
    "cifar100-temperature": "Temperature(2.0, 0.5)",
    "cifar100-losses": "SLaM(base=TaylorCE(2));SLaM(base=PolyLoss())",
    "cifar100-outside": None,
    "ablations": None,
    "celeba": "SLaM(k=2)",
    "imagenet": "SLaM(lower_bound=0.6, k=5)",
    "imdb-words": None,
}


@pytest.mark.filterwarnings("ignore:UPS.. selects no row")
@pytest.mark.parametrize("name", SMOKED)
def test_smoke(name: str, data: Path, cache: Path, tmp_path: Path) -> None:
    recipe = smoke(find_recipe(name))
    if SMOKED[name]:
        recipe = replace(recipe, methods=parse_methods(SMOKED[name]))
    rows = run_recipe(recipe, tmp_path, data=data, cache=cache, device="cpu", quiet=True)
    students = list(planned_students(recipe))
    floor = [row for row in rows if row.method == "LogisticRegression()"]
    assert len(floor) == recipe.logistic
    assert [row.key for row in rows[len(floor) :]] == sorted(
        (s.key for s in students), key=lambda key: len(key[4].views)
    )
    for line in (tmp_path / "results.jsonl").read_bytes().splitlines():
        stored = orjson.loads(line)
        assert list(stored) == [*FIELDS, "sha256"]
        assert all(0 <= value <= 100 for value in stored["accuracy"].values())
        assert [point["epoch"] for point in stored["curve"]][:2] == [1, 2]


def test_models_of_words_share_their_inputs_where_they_know_as_many_words() -> None:
    recipe = find_recipe("imdb-words")
    for words, alike in ((100, True), (50, False)):
        models = replace(recipe, teacher=BagLinear(100, 2), student=BagLinear(words, 2))
        assert _read_alike(models) is alike


def test_smoke_with_encoders_of_a_local_folder(data: Path, cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    write_encoder(tmp_path / "encoder")
    encoder = parse_model(str(tmp_path / "encoder"))
    recipe = smoke(find_recipe("imdb", encoder, encoder))
    recipe = replace(recipe, methods=parse_methods("Vanilla();VID();Weighted(every=1)"))
    out = tmp_path / "run"
    rows = run_recipe(recipe, out, data=data, cache=cache, device="cpu", quiet=True)
    assert [row.method for row in rows] == ["Vanilla()", "VID()", "Weighted(every=1)"]
    assert (out / "checkpoints" / "24_pretrained.safetensors").exists()


def test_a_logistic_regression_is_the_floor(data: Path, cache: Path, tmp_path: Path) -> None:
    recipe = replace(smoke(find_recipe("imdb-words")), methods=(Vanilla(),), trials=2)
    first = run_recipe(recipe, tmp_path, data=data, cache=cache, device="cpu", quiet=True)
    floor = [row for row in first if row.method == "LogisticRegression()"]
    assert [row.trial for row in floor] == [0, 1]
    # Each review has one telling word, and 64 labels are enough to find both.
    assert all(row.accuracy["selected"] > 85 for row in floor)
    again = run_recipe(recipe, tmp_path, data=data, cache=cache, device="cpu", quiet=True)
    assert again == first
    table = detail_table("imdb", lines([*floor, *(r for r in first if r not in floor)]))
    shown = {line[0]: line for line in table.rows}
    assert "†" in shown["Vanilla(), gold ×5"][5]


def test_an_encoder_may_teach_a_bag_of_words(data: Path, cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    write_encoder(tmp_path / "encoder")
    recipe = smoke(
        find_recipe("imdb", TextEncoder(str(tmp_path / "encoder"), 2), BagLinear(100, 2))
    )
    recipe = replace(recipe, methods=(SLaM(k=2),))
    out = tmp_path / "run"
    (row,) = run_recipe(recipe, out, data=data, cache=cache, device="cpu", quiet=True)
    assert row.method == "SLaM(k=2)"


def test_every_recipe_says_how_to_run_it() -> None:
    for name, function in RECIPES.items():
        text = inspect.getdoc(function) or ""
        assert f"noisyteacher bench {name}" in text or "noisyteacher demo" in text, name
        assert "H200" in text or "cores" in text, name


def test_a_documented_command_names_sizes_that_its_recipe_has() -> None:
    named = {}
    for name, function in RECIPES.items():
        found = re.findall(r"--labeled\s+([\d,]+)", inspect.getdoc(function) or "")
        named[name] = {int(size) for sizes in found for size in sizes.split(",")}
        assert named[name] <= {*find_recipe(name).labeled}, name
    # One of the recipes documents all of its sizes.
    assert named["cifar100-outside"] == {*find_recipe("cifar100-outside").labeled}


def test_epochs_and_settings_are_chosen_on_as_many_rows_as_fit_the_noise_model() -> None:
    with_val = [recipe for recipe in map(find_recipe, RECIPES) if recipe.val]
    assert [(r.name, r.selection) for r in with_val] == [(r.name, r.val) for r in with_val]


def test_the_papers_constants() -> None:
    cifar, celeba, imagenet, imdb = map(find_recipe, ("cifar100", "celeba", "imagenet", "imdb"))
    assert cifar.labeled == (5000, 7500, 10000, 12500, 15000, 17500)
    assert (cifar.val, cifar.trials, cifar.student_training.epochs) == (500, 3, 200)
    assert (cifar.teacher, cifar.student) == (ResNetCifar(110, 100), ResNetCifar(56, 100))
    assert find_recipe("cifar10").teacher == MobileNet(depth_multiplier=2)
    assert celeba.labeled == (3256, 4883, 6510, 8138, 9766, 11394)
    assert celeba.student == ResNetCifar(11, 2, version=2)
    assert (imagenet.val, imagenet.trials, imagenet.student_training.epochs) == (10_000, 4, 100)
    assert imdb.labeled == (500, 1000, 2000, 10000)
    assert (imdb.teacher_training.epochs, imdb.student_training.epochs) == (20, 40)
    rates = find_recipe("imdb-paper-rates")
    assert rates.teacher_training.optimizer.lr == 1e-6
    assert rates.student_training.optimizer.lr == 1e-7


def test_the_grids_are_whole() -> None:
    assert len(FIDELITY) == 1 + 2 * 8
    assert len(set(TEMPERATURE)) == 2 * 9 * 9


def test_methods_and_sets_from_text() -> None:
    found = parse_methods("floor; SLaM(); Vanilla(hard=True); SLaM();")
    assert [repr(m) for m in found][2:] == ["SLaM()", "Vanilla(hard=True)"]
    with pytest.raises(InputError, match="no method 'SLiM'"):
        parse_methods("SLiM()")
    with pytest.raises(InputError, match="or the names of sets: floor, paper-soft, "):
        parse_methods(" ; ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Nothing(3)", "no model 'Nothing'"),
        ("ResNetCifar(depth=__import__('os'))", "not a plain value"),
        ("ResNetCifar(depth=21)", "6n.2"),
        ("ResNetCifar(deep=20)", "deep"),
        ("ResNetCifar(20, depth=20)", "twice"),
        ("a(b)(c)", "not a model"),
        ("BagLinear(", "not a model"),
    ],
)
def test_models_from_bad_text(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_model(text)


def test_models_from_text() -> None:
    assert parse_model("ResNetCifar(depth=20)") == ResNetCifar(20, 2)
    assert parse_model("some/folder") == TextEncoder("some/folder", 2)


@pytest.mark.parametrize("missing", ["labeled", "methods"])
def test_a_recipe_without_sizes_or_without_methods_is_refused(missing: str) -> None:
    with pytest.raises(InputError, match="'digits' has no labeled size or no method"):
        replace(find_recipe("digits"), **{missing: ()})


def test_a_method_without_its_pretraining_is_refused() -> None:
    with pytest.raises(InputError, match="pre-trained on A"):
        replace(find_recipe("digits"), pretraining=None, methods=parse_methods("Weighted()"))


class Narrow(nn.Module):
    """A network of the user's own for rows of 32 numbers; digits have 64."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


@pytest.mark.parametrize("role", ["teacher", "student"])
def test_a_network_that_cannot_read_the_data_is_refused_before_anything_is_trained(
    tmp_path: Path, role: str
) -> None:
    recipe = replace(smoke(find_recipe("digits")), **{role: Narrow})
    with pytest.raises(InputError, match="Narrow"):
        run_recipe(recipe, tmp_path, device="cpu", quiet=True)
    assert not [*tmp_path.rglob("*.safetensors")]


def test_what_a_name_tells() -> None:
    recipe = find_recipe("cifar100")
    assert recipe.with_student(epochs=60, gold_repeat=2).name == "cifar100"
    wider = recipe.with_batch(512)
    assert wider.name == "cifar100 batch=512"
    assert wider.student_training.optimizer.lr == pytest.approx(1.41e-3 * 2**0.5, rel=1e-3)
    assert wider.lasting() != recipe.lasting()
    other = replace(recipe, methods=(Vanilla(),), trials=1).with_student(epochs=60)
    assert other.lasting() == recipe.lasting()
