"""``noisyteacher audit`` on small stores."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from noisyteacher.cli.audit import EPILOG, audit
from noisyteacher.core.errors import InputError, MissingIdsError
from noisyteacher.labels import TeacherLabels

NAMES = ("neg", "pos")
FAST = ("--replicates", "50")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store of V, A and pool with embeddings, and tables of gold labels and inputs."""
    place = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    n = 900
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 3)) + 2.0 * y[:, None]
    said = np.where(rng.random(n) < 0.65, y, 1 - y)
    sure = rng.uniform(0.55, 0.95, n)
    probs = np.where(np.arange(2) == said[:, None], sure[:, None], 1 - sure[:, None])
    ids = [f"r{i}" for i in range(n)]
    labels = TeacherLabels.from_probs(ids, probs, NAMES, extras={"embedding": x}, teacher="big")
    labels.save(place / "labels")
    labels.take(ids[:300]).save(place / "val")
    labels.take(ids[250:]).save(place / "pool")
    words = (("dull", "flat", "film"), ("bright", "funny", "film"))
    texts = [" ".join(rng.choice(words[label], 5)) for label in y]
    write(place / "gold.csv", "id,label", [f"{ids[i]},{NAMES[y[i]]}" for i in range(300)])
    write(place / "a.csv", "id,label", [f"{ids[i]},{NAMES[y[i]]}" for i in range(300, 340)])
    write(place / "texts.csv", "id,text", [f"{ids[i]},{texts[i]}" for i in range(340)])
    numbers = [f"{ids[i]},{y[i]},{x[i, 0]},{x[i, 1]}" for i in range(300)]
    write(place / "numbers.csv", "id,label,a,b", numbers)
    return place


def write(path, header, lines):
    path.write_text("\n".join([header, *lines]) + "\n")


def run(*arguments):
    app = typer.Typer()
    app.command(epilog=EPILOG)(audit)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def run_json(*arguments):
    result = run(*arguments, *FAST, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_summary_for_people(folder):
    result = run(folder / "labels", "--gold", folder / "gold.csv", *FAST)
    assert result.exit_code == 0
    for part in ("teacher big", "300 gold rows, 600 pool rows", "Recommendation: "):
        assert part in result.stdout


def test_json_with_a_comparison_of_texts(folder):
    found = run_json(
        folder / "labels",
        *("--gold", folder / "gold.csv", "--trained-on", folder / "a.csv"),
        *("--inputs", folder / "texts.csv"),
    )
    assert found["numbers"]["pool_rows"] == 560
    compared = found["numbers"]["comparison"]
    assert (compared["rows"], compared["learned_from"], compared["kind"]) == (300, 340, "text")
    assert compared["student"] is None
    assert found["recommendation"]["distill"]
    told = [finding["text"] for finding in found["findings"] if finding["code"] == "compared"]
    assert told == [compared["verdict"]]


def test_pool_texts_that_are_gold_texts_are_left_out_of_the_comparison(folder, tmp_path):
    header, *lines = (folder / "texts.csv").read_text().splitlines()
    texts = [line.split(",")[1] for line in lines[:300]]
    others = [f"r{i},{text} and more" for i, text in enumerate(texts, 400)]
    copies = [f"r{i},{text}" for i, text in enumerate(texts[:50], 700)]
    compared = []
    for name, pool in (("apart.csv", others), ("copied.csv", others + copies)):
        write(tmp_path / name, header, lines[:300] + pool)
        arguments = ("--gold", folder / "gold.csv", "--inputs", tmp_path / name)
        result = run(folder / "labels", *arguments, *FAST, "--json")
        compared.append(json.loads(result.stdout)["numbers"]["comparison"])
    assert "the gold rows have the same inputs: 50 examples" in result.stderr
    assert compared[0] == compared[1]
    assert compared[0]["student"] is not None


def test_a_label_column_among_the_inputs_is_no_feature(folder):
    arguments = (folder / "val", "--gold", folder / "gold.csv")
    numbers = run_json(*arguments, "--inputs", folder / "numbers.csv")["numbers"]
    assert numbers["pool_rows"] == 0
    assert numbers["comparison"]["kind"] == "table"
    assert numbers["comparison"]["gold_only"]["value"] < 1


def test_embeddings_of_the_store(folder):
    found = run_json(folder / "labels", "--gold", folder / "gold.csv", "--embeddings")
    compared = found["numbers"]["comparison"]
    assert compared["gold_only"]["value"] > 0.9
    assert compared["student"]["value"] > 0.9


def test_a_pool_apart(folder):
    found = run_json(
        folder / "val", "--gold", folder / "gold.csv", "--pool", folder / "pool", "--seed", 3
    )
    assert found["numbers"]["pool_rows"] == 600
    assert found["numbers"]["seed"] == 3
    assert len(found["numbers"]["leakage"]["val_in_pool"]) == 50


def as_jsonl(csv, path):
    header, *lines = [line.split(",") for line in csv.read_text().splitlines()]
    rows = (json.dumps(dict(zip(header, line, strict=True))) for line in lines)
    path.write_text("\n".join(rows))


def test_tables_of_every_kind_say_the_same(folder, tmp_path):
    def audited(place, kind):
        gold, texts, a = (place / f"{name}.{kind}" for name in ("gold", "texts", "a"))
        return run_json(folder / "labels", "--gold", gold, "--inputs", texts, "--trained-on", a)

    for name in ("gold", "texts", "a"):
        csv = folder / f"{name}.csv"
        (tmp_path / f"{name}.tsv").write_text(csv.read_text().replace(",", "\t"))
        as_jsonl(csv, tmp_path / f"{name}.jsonl")
        pq.write_table(pa_csv.read_csv(csv), tmp_path / f"{name}.parquet")
    expected = audited(folder, "csv")
    for kind in ("tsv", "jsonl", "parquet"):
        assert audited(tmp_path, kind) == expected


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_ids_with_zeros_in_front_are_found_among_the_inputs(tmp_path, kind):
    ids = [f"{i:03}" for i in range(200)]
    probs = np.tile([[0.7, 0.3], [0.2, 0.8], [0.4, 0.6], [0.6, 0.4]], (50, 1))
    TeacherLabels.from_probs(ids, probs, NAMES).save(tmp_path / "labels")
    lines = [f"{key},{NAMES[i % 2]},word{i % 2} film number{i}" for i, key in enumerate(ids)]
    write(tmp_path / "gold.csv", "id,label,text", lines)
    as_jsonl(tmp_path / "gold.csv", tmp_path / "gold.jsonl")
    gold = tmp_path / f"gold.{kind}"
    found = run_json(tmp_path / "labels", "--gold", gold, "--inputs", gold)["numbers"]
    assert found["comparison"]["gold_only"]["value"] == 1.0


def test_other_columns_and_rows_without_ids(folder, tmp_path):
    gold, store = tmp_path / "gold.csv", tmp_path / "labels"
    _, *rows = (folder / "gold.csv").read_text().splitlines()
    _, *texts = (folder / "texts.csv").read_text().splitlines()
    write(tmp_path / "texts.csv", "id,text", texts[: len(rows)])
    usual = (folder / "labels", "--gold", folder / "gold.csv", "--inputs", tmp_path / "texts.csv")
    expected = run_json(*usual)
    lines = [f"{row},{text.split(',')[1]}" for row, text in zip(rows, texts, strict=False)]
    write(gold, "key,mood,review", lines)
    columns = ("--id-column", "key", "--label-column", "mood", "--text-column", "review")
    assert run_json(folder / "labels", "--gold", gold, "--inputs", gold, *columns) == expected
    labels = TeacherLabels.open(folder / "labels")
    replace(labels, ids=np.array([f"gold/{i}" for i in range(len(labels))])).save(store)
    write(gold, "label,text", [line.partition(",")[2] for line in lines])
    assert run_json(store, "--gold", gold, "--inputs", gold) == expected


@pytest.mark.parametrize("names", [("-1", "1"), ("2", "1")])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_classes_that_are_called_by_numbers(folder, tmp_path, names, kind):
    labels = TeacherLabels.open(folder / "labels")
    replace(labels, classes=names).save(tmp_path / "labels")
    expected = run_json(folder / "labels", "--gold", folder / "gold.csv")["numbers"]
    keys, said = np.loadtxt(folder / "gold.csv", str, delimiter=",", skiprows=1, unpack=True)
    numbers = [int(names[NAMES.index(name)]) for name in said]
    path = tmp_path / f"gold.{kind}"
    pairs = list(zip(keys.tolist(), numbers, strict=True))
    if kind == "csv":
        write(path, "id,label", [f"{key},{number}" for key, number in pairs])
    elif kind == "jsonl":
        path.write_text("\n".join(json.dumps({"id": k, "label": n}) for k, n in pairs))
    else:
        pq.write_table(pa.table({"id": keys.tolist(), "label": numbers}), path)
    found = run_json(tmp_path / "labels", "--gold", path, "--trained-on", path)["numbers"]
    assert found["val_rows"] == 300
    assert found["quality"]["accuracy"] == expected["quality"]["accuracy"]


def test_rows_without_labels_are_named(folder, tmp_path):
    gold = tmp_path / "gold.csv"
    gold.write_text((folder / "gold.csv").read_text() + "r300,\nr301,-1\n")
    result = run(folder / "labels", "--gold", gold, *FAST)
    assert "300 gold rows" in result.stdout
    assert "have no label and are left out: 'r300', 'r301'" in result.stderr


@pytest.mark.parametrize("more", [(), ("--embeddings",), ("--inputs", "texts.csv")])
def test_gold_rows_without_a_teacher_label_are_left_out(folder, tmp_path, more):
    more = [folder / part if part.endswith(".csv") else part for part in more]
    expected = run_json(folder / "labels", "--gold", folder / "gold.csv", *more)
    gold = tmp_path / "gold.csv"
    gold.write_text((folder / "gold.csv").read_text() + "r990,pos\nr991,neg\n")
    result = run(folder / "labels", "--gold", gold, *more, *FAST, "--json")
    assert (
        "2 of 302 gold ids have no teacher label and are not used to measure the teacher: 'r990'"
        in result.stderr
    )
    assert json.loads(result.stdout) == expected


def test_bad_input(folder, tmp_path):
    store, gold = folder / "labels", folder / "gold.csv"
    both = run(store, "--gold", gold, "--embeddings", "--inputs", folder / "texts.csv")
    assert isinstance(both.exception, InputError)
    write(tmp_path / "unknown.csv", "id,label", ["yyy,neg", "zzz,pos"])
    unknown = run(store, "--gold", tmp_path / "unknown.csv")
    assert isinstance(unknown.exception, MissingIdsError)
    assert "'zzz'" in str(unknown.exception)
    write(tmp_path / "few.csv", "id,text", ["r0,a", "r1,b"])
    few = run(store, "--gold", gold, "--inputs", tmp_path / "few.csv")
    assert "298 ids are not in the inputs few" in str(few.exception)
    no_embedding = run(folder / "pool", "--gold", tmp_path / "absent.csv")
    assert no_embedding.exit_code == 2


def test_help_shows_an_example():
    assert "noisyteacher audit labels --gold gold.csv" in run("--help").stdout
