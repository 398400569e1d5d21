import json

import numpy as np
import planted_teachers as planted
import pytest

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.core.integrity import sealed_json
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise


@pytest.fixture
def data():
    val, y, _ = planted.with_shortlists(2_000, seed=0)
    return val, y


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"per_class": True, "metric": "entropy"},
        {"k": 3, "per_class": True, "lower_bound": 0.0},
        {"k": "level", "level": 0.7},
        {"lower_bound": 0, "threshold": 1},
        {"lower_bound": "1/k"},
    ],
)
def test_what_is_loaded_predicts_the_same(tmp_path, data, settings):
    noise = TeacherNoise(**settings).fit(*data)
    noise.save(tmp_path / "noise.json")
    again = TeacherNoise.load(tmp_path / "noise.json")
    assert again.get_params() == noise.get_params()
    assert (again.k_, again.n_val_, again.num_classes_) == (noise.k_, 2_000, 8)
    np.testing.assert_array_equal(again.alpha_curve_.values_, noise.alpha_curve_.values_)
    assert again.by_class_.keys() == noise.by_class_.keys()
    before, after = noise.predict(data[0]), again.predict(data[0])
    np.testing.assert_array_equal(before.alpha, after.alpha)
    np.testing.assert_array_equal(before.k, after.k)


def test_the_file_says_what_was_learned(tmp_path, data):
    noise = TeacherNoise(per_class=True).fit(*data)
    noise.save(tmp_path / "noise.json")
    saved = json.loads((tmp_path / "noise.json").read_text())
    assert saved["settings"] == noise.get_params()
    assert saved["pooled"]["n"] == 2_000
    assert saved["pooled"]["knots"] == noise.alpha_curve_.knots_.tolist()
    assert saved["pooled"]["values"] == noise.alpha_curve_.values_.tolist()
    assert saved["pooled"]["cuts"][-1] == "always"
    assert saved["pooled"]["cuts"][:-1] == noise.cuts_[:-1].tolist()
    assert set(saved["per_class"]) == {str(label) for label in noise.by_class_}
    assert saved["per_class"]["3"]["values"] == noise.by_class_[3].alpha_curve.values_.tolist()


def test_a_cut_that_is_never_passed(tmp_path, data):
    val, _ = data
    worst = val.argmin(axis=1)
    labels = TeacherLabels.from_probs(range(len(val)), val, k=3)
    noise = TeacherNoise().fit(labels, worst)
    noise.save(tmp_path / "noise.json")
    saved = json.loads((tmp_path / "noise.json").read_text())
    assert saved["pooled"]["cuts"] == ["never", "never"]
    assert TeacherNoise.load(tmp_path / "noise.json").cuts_.tolist() == [np.inf, np.inf]


def test_a_fixed_k_stays_pooled(tmp_path, data):
    TeacherNoise(k=3, per_class=True).fit(*data).save(tmp_path / "noise.json")
    saved = json.loads((tmp_path / "noise.json").read_text())
    assert saved["k"] == 3
    assert saved["pooled"]["cuts"] is None
    assert all(curves["cuts"] is None for curves in saved["per_class"].values())


def _set(*path_and_value):
    *path, last, value = path_and_value

    def edit(saved):
        for step in path:
            saved = saved[step]
        saved[last] = value

    return edit


EDITS = [
    (_set("format", "something"), "format"),
    (_set("version", 99), "version 99"),
    (_set("settings", None), "settings"),
    (_set("settings", "surprise", 1), "surprise"),
    (_set("settings", "metric", "variance"), "variance"),
    (_set("settings", "lower_bound", 0.99), "not below"),
    (_set("settings", "lower_bound", 0.7), r"values of pooled are not in \[0\.7, 1\]"),
    (_set("settings", "k", 3), "k is None"),
    (_set("num_classes", 1), "num_classes is 1"),
    (_set("num_classes", "8"), "num_classes is '8'"),
    (_set("num_classes", 2), "per_class has a class '2'"),
    (_set("classes", ["a", "b"]), "classes do not fit"),
    (_set("classes", ["a"] * 8), "classes do not fit"),
    (_set("classes", list(range(8))), "classes do not fit"),
    (_set("k", 3), "k is 3"),
    (_set("pooled", None), "pooled curves are missing"),
    (_set("pooled", "n", 0), "n of pooled is 0"),
    (_set("pooled", "knots", 3), "knots of pooled are missing"),
    (_set("pooled", "knots", 0, "x"), "knots of pooled are not all numbers"),
    (_set("pooled", "knots", 0, 5.0), "knots of pooled do not increase"),
    (_set("pooled", "values", 0, 1.0), "values of pooled decrease"),
    (_set("pooled", "values", -1, 1.5), "values of pooled are not in"),
    (_set("pooled", "values", [0.5]), "do not match"),
    (_set("pooled", "cuts", None), "cuts of pooled are missing"),
    (_set("pooled", "cuts", []), "pooled has 0 cuts"),
    (_set("pooled", "cuts", 0, "always"), "always"),
    (_set("pooled", "cuts", 0, "sometimes"), "cuts of pooled are not all numbers"),
    (_set("pooled", "cuts", 0, True), "cuts of pooled are not all numbers"),
    (_set("pooled", "cuts", [0.5] * 8), "pooled has 8 cuts"),
    (_set("per_class", []), "per_class is missing"),
    (_set("per_class", "9", {}), "class '9'"),
    (_set("per_class", "3", "values", [0.5]), "class 3 do not match"),
]


@pytest.mark.parametrize(("edit", "match"), EDITS)
def test_an_edited_file_is_refused(tmp_path, data, edit, match):
    path = tmp_path / "noise.json"
    TeacherNoise(per_class=True).fit(*data).save(path)
    saved = json.loads(path.read_text())
    edit(saved)
    del saved["sha256"]
    path.write_bytes(sealed_json(saved))
    with pytest.raises(InputError, match=match) as caught:
        TeacherNoise.load(path)
    assert str(path) in str(caught.value)


def test_a_changed_value_is_noticed_by_the_checksum(tmp_path, data):
    path = tmp_path / "noise.json"
    TeacherNoise().fit(*data).save(path)
    saved = json.loads(path.read_text())
    saved["pooled"]["knots"][-1] += 1e-9
    path.write_text(json.dumps(saved))
    with pytest.raises(
        InputError, match=r"noise\.json is damaged: .* fit and save the noise model"
    ):
        TeacherNoise.load(path)


def test_a_file_of_an_earlier_version_opens_with_a_note(tmp_path, data):
    path = tmp_path / "noise.json"
    noise = TeacherNoise().fit(*data)
    noise.save(path)
    saved = json.loads(path.read_text())
    del saved["sha256"]
    path.write_text(json.dumps(saved))
    with pytest.warns(NoisyTeacherWarning, match="without a checksum"):
        again = TeacherNoise.load(path)
    assert again.cuts_.tolist() == noise.cuts_.tolist()


def test_files_that_are_not_there_or_not_json(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json cannot be read"):
        TeacherNoise.load(tmp_path / "nowhere.json")
    (tmp_path / "half.json").write_text('{"format": ')
    with pytest.raises(InputError, match=r"half\.json is not JSON"):
        TeacherNoise.load(tmp_path / "half.json")
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(InputError, match=r"list\.json does not hold a JSON object"):
        TeacherNoise.load(tmp_path / "list.json")


def test_nothing_is_saved_before_fit(tmp_path):
    with pytest.raises(InputError, match="not fitted"):
        TeacherNoise().save(tmp_path / "noise.json")
    assert list(tmp_path.iterdir()) == []


def test_saving_again_replaces_the_file(tmp_path, data):
    path = tmp_path / "noise.json"
    TeacherNoise(k=2).fit(*data).save(path)
    TeacherNoise(k=5).fit(*data).save(path)
    assert TeacherNoise.load(path).k_ == 5
    assert list(tmp_path.iterdir()) == [path]
