"""Power laws recovered, studies resumed, and the verb from end to end."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
import typer
from typer.testing import CliRunner

from noisyteacher.cli.halfspace import EPILOG, halfspace
from noisyteacher.core.errors import InputError
from noisyteacher.halfspace.simulation import Reached, fit_exponent, steps_to_error
from noisyteacher.halfspace.study import Cell, load_rows, run_study, smoke_study
from noisyteacher.halfspace.study_report import exponent_text, exponents
from noisyteacher.runs import RunFolder

TINY = replace(
    smoke_study(), margins=(0.5, 0.4), epsilons=(0.1,), noises=(0.1,), runs=4, max_steps=40,
    guarantee_runs=4,
)  # fmt: skip


def test_steps_to_error_is_the_median_run():
    steps = np.array([1, 2, 4, 8])
    errors = np.array([[0.9, 0.9, 0.9], [0.1, 0.9, 0.9], [0.9, 0.1, 0.1], [0.9, 0.1, 0.9]])
    last = steps_to_error(steps, errors, 0.1)
    assert last.steps == 4
    assert last.share == pytest.approx(1 / 3)
    best = steps_to_error(steps, np.minimum.accumulate(errors, 0), 0.1)
    assert (best.steps, best.share) == (4, 1.0)
    assert best.low == 2  # a resample may hold the quick run twice
    never = steps_to_error(steps, errors, 0.01)
    assert (never.steps, never.low, never.high, never.share) == (None, None, None, 0.0)


def planted(variable, power, spread=0.0):
    rng = np.random.default_rng(0)
    return [
        Reached(round(50 * v**-power * np.exp(spread * rng.normal())), None, None, 1.0)
        for v in variable
    ]


def test_fit_exponent_recovers_a_planted_power():
    variable = np.array([0.4, 0.2, 0.1, 0.05])
    exact = fit_exponent(variable, planted(variable, 2.0))
    assert exact is not None
    assert exact.slope == pytest.approx(2.0, abs=0.01)
    assert exact.constant == pytest.approx(50, rel=0.02)
    assert exact.high - exact.low < 0.1
    noisy = fit_exponent(variable, planted(variable, 2.0, spread=0.3))
    assert noisy is not None
    assert noisy.low < 2.0 < noisy.high


def test_fit_exponent_widens_with_the_bootstrap_interval():
    variable = [0.4, 0.2, 0.1]
    wide = [replace(r, low=r.steps // 3, high=r.steps * 3) for r in planted(variable, 2.0)]
    narrow = fit_exponent(variable, planted(variable, 2.0))
    fitted = fit_exponent(variable, wide)
    assert fitted.high - fitted.low > 10 * (narrow.high - narrow.low)


def test_fit_exponent_leaves_out_what_was_not_reached():
    variable = [0.4, 0.2, 0.1, 0.05]
    cut = [*planted(variable[:3], 2.0), Reached(None, None, None, 0.2)]
    assert fit_exponent(variable, cut).points == 3
    assert fit_exponent(variable[2:], cut[2:]) is None
    assert exponent_text(None) == "–"
    with pytest.raises(InputError, match="do not match"):
        fit_exponent([0.1], cut)


def test_hard_cells_follow_margin_and_epsilon():
    shape = Cell("near-margin", margin=0.1, epsilon=0.05, noise=0.2).data().shape
    assert shape.dim == 101
    assert shape.rare == pytest.approx(0.2)
    assert Cell("ball", 0.1, 0.05, 0.2).steps(0.25) == 27778


def test_study_goes_on_where_it_was(tmp_path):
    def rows_without_times(folder):
        dropped = {"seconds", "finished_at"}
        return [{k: v for k, v in row.items() if k not in dropped} for row in load_rows(folder)]

    whole = list(run_study(TINY, tmp_path / "whole"))
    assert [done for done, _, _ in whole] == [1, 2, 3]
    steps = run_study(TINY, tmp_path / "parts")
    next(steps)
    steps.close()
    path = tmp_path / "parts" / "results.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "sam')  # killed while writing
    assert len(list(run_study(TINY, tmp_path / "parts"))) == 2
    assert rows_without_times(tmp_path / "parts") == rows_without_times(tmp_path / "whole")
    assert list(run_study(TINY, tmp_path / "parts")) == []


def test_a_folder_of_the_first_version_is_finished(tmp_path):
    """Written at commit 980e486."""
    old = Path(__file__).parents[1] / "runs" / "old_folders" / "halfspace"
    shutil.copytree(old, tmp_path / "run")
    assert list(run_study(TINY, tmp_path / "run")) == []
    assert len(load_rows(tmp_path / "run")) == 13


def test_study_stops_in_time_and_refuses_another_ones_folder(tmp_path):
    assert list(run_study(TINY, tmp_path, until=0.0)) == []
    with pytest.raises(
        InputError, match=r"holds a run with another seed; choose another folder .*--out"
    ):
        next(run_study(replace(TINY, seed=1), tmp_path))


def test_study_refuses_a_folder_in_which_another_process_is_at_work(tmp_path):
    in_use = pytest.raises(InputError, match="is in use by another process")
    with RunFolder(tmp_path).lock(), in_use:
        next(run_study(TINY, tmp_path))
    assert not (tmp_path / "recipe.json").exists()


def test_a_broken_row_in_the_middle_is_an_error(tmp_path):
    (tmp_path / "results.jsonl").write_text('{"kind": \n{"kind": "samples"}\n')
    with pytest.raises(InputError, match="line 1, is not a results row"):
        load_rows(tmp_path)


@pytest.fixture
def run():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command(epilog=EPILOG)(halfspace)
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


def test_smoke_of_the_verb(run, tmp_path):
    result = run("--quick", "--out", tmp_path, "--runs", 10, "--max-steps", 200)
    assert result.exit_code == 0, result.output
    for words in ("Exponents", "Perspectron", "chosen", "0.356675", "no contradiction"):
        assert words in " ".join(result.output.split())
    assert "[1/8] samples: near-margin" in result.output
    for name in ("landscape", "errors", "claims", "samples-near-margin"):
        for ending in ("svg", "png"):
            content = (tmp_path / "figures" / f"{name}.{ending}").read_bytes()
            assert 2_000 < len(content) < 200_000
    rows = load_rows(tmp_path)
    assert {row["kind"] for row in rows} == {"samples", "guarantee"}
    assert {"hardware", "versions", "commit", "finished_at", "seed"} <= set(rows[0])
    study = replace(smoke_study(), runs=10, guarantee_runs=10, max_steps=200)
    assert len(exponents(study, rows)) == 18


def test_the_verb_stops_in_time_and_says_so(run, tmp_path, monkeypatch):
    monkeypatch.setattr("noisyteacher.halfspace.study.smoke_study", lambda: TINY)
    monkeypatch.setattr("noisyteacher.halfspace.study_report.draw_all", lambda *_: [])
    result = run("--quick", "--minutes", 0, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "3 cells are left. Run the same command" in result.output


def test_json_of_the_verb_is_rows_only(run, tmp_path, monkeypatch):
    monkeypatch.setattr("noisyteacher.halfspace.study.smoke_study", lambda: TINY)
    monkeypatch.setattr("noisyteacher.halfspace.study_report.draw_all", lambda *_: [])
    result = run("--quick", "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    kinds = [orjson.loads(line)["kind"] for line in result.output.splitlines()]
    assert set(kinds) == {"samples", "guarantee", "exponent", "consistency"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--margin", 1.5), "margin must lie"),
        (("--noise", 0.5), "opposite halfspace"),
        (("--epsilon", 0), "epsilon"),
        (("--shape", "cube"), "no shape 'cube'"),
        (("--runs", 0), "runs must be at least 1"),
        (("--device", "abacus"), "abacus"),
    ],
)
def test_bad_input_of_the_verb(run, tmp_path, arguments, message):
    result = run("--quick", "--out", tmp_path / "run", *arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_a_negative_seed_is_refused_by_the_command_line(run, tmp_path):
    result = run("--quick", "--out", tmp_path / "run", "--seed", -1)
    assert result.exit_code == 2
    assert "--seed" in result.output
    assert not (tmp_path / "run").exists()


def test_the_example_in_the_help_is_this_verb(run):
    assert "noisyteacher halfspace --quick" in EPILOG
    assert run("--help").exit_code == 0
