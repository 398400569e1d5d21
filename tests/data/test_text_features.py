"""Texts as tensors, featurizers on disk, and datasets as tensors."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.data import (
    BagViews,
    Dataset,
    HashedNgrams,
    ImageViews,
    TableViews,
    Tfidf,
    Tokens,
    load_dataset,
    load_featurizer,
    save_featurizer,
    to_tensors,
)
from noisyteacher.data.text import Featurizer, padded_bags

TEXTS = ["good good film", "bad film", "good plot bad end", "a b c"]


def dense(bag: tuple[torch.Tensor, torch.Tensor], features: int) -> np.ndarray:
    rows = torch.zeros(len(bag[0]), features)
    return np.asarray(rows.scatter_add_(1, *bag))


def test_tfidf_by_hand() -> None:
    featurizer = Tfidf(ngrams=(1, 1)).fit(TEXTS)
    shown = dense(featurizer.transform(["good good film"]), featurizer.features)[0]
    # 4 texts; "good" and "film" are in 2 of them: smoothed idf = log(5 / 3) + 1 for both.
    word = featurizer.vectorizer_.vocabulary_
    good, film = 1 + math.log(2), 1.0
    length = math.hypot(good, film)
    assert shown[word["good"]] == pytest.approx(good / length)
    assert shown[word["film"]] == pytest.approx(film / length)
    assert shown.sum() == pytest.approx((good + film) / length)


@pytest.mark.filterwarnings("ignore:Some texts have more than")
def test_tfidf_options() -> None:
    assert Tfidf(max_features=2).fit(TEXTS).features == 2
    assert "good film" in Tfidf(min_texts=1).fit(TEXTS).vectorizer_.vocabulary_
    indices, values = Tfidf(max_entries=2).fit_transform(TEXTS)
    assert indices.shape == values.shape == (4, 2)
    wide = Tfidf(ngrams=(1, 1), min_texts=1).fit(TEXTS)
    assert wide.transform(["bad"])[0].shape == (1, 4)  # as wide as the longest training text
    assert wide.transform(["good bad film plot end"])[0].shape == (1, 4)
    assert (values[3] == 0).all()  # single letters are no words
    assert (indices.dtype, values.dtype) == (torch.int64, torch.float32)


def test_words_of_a_single_text_are_left_out_unless_no_others_are_there() -> None:
    assert sorted(Tfidf().fit(TEXTS).vectorizer_.vocabulary_) == ["bad", "film", "good"]
    assert Tfidf(min_texts=3).fit([*TEXTS, "film"]).features == 1
    for texts in (["one text"], ["these words", "differ everywhere"]):
        assert Tfidf().fit(texts).features == Tfidf(min_texts=1).fit(texts).features


def test_one_pass_gives_the_same_as_two() -> None:
    one, two = Tfidf(), Tfidf()
    assert not one.fitted
    first = one.fit_transform(TEXTS)
    second = two.fit(TEXTS).transform(TEXTS)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@settings(max_examples=40, deadline=None)
@given(
    matrix=st.lists(
        st.lists(st.sampled_from([0.0, 0.0, 1.0, -2.0, 0.5, 3.0]), min_size=6, max_size=6),
        min_size=1,
        max_size=5,
    ),
    limit=st.integers(1, 7),
)
def test_padded_bags_keep_the_largest_entries(matrix: list[list[float]], limit: int) -> None:
    rows = np.array(matrix)
    indices, values = padded_bags(csr_matrix(rows), limit)
    assert indices.shape == values.shape == (len(rows), limit)
    for row, index, value in zip(rows, indices.numpy(), values.numpy(), strict=True):
        expected = sorted(np.abs(row[row != 0]), reverse=True)[:limit]
        found = value[value != 0]
        assert np.abs(found).tolist() == expected
        np.testing.assert_array_equal(row[index[value != 0]], found)
        assert len(set(index[value != 0])) == len(found)


@pytest.mark.filterwarnings("ignore:Some texts have more than")
@pytest.mark.parametrize(
    "featurizer", [Tfidf(ngrams=(1, 2), max_entries=3), HashedNgrams(buckets=64, max_entries=9)]
)
def test_featurizers_survive_saving(tmp_path: Path, featurizer: Featurizer) -> None:
    expected = featurizer.fit_transform(TEXTS)
    save_featurizer(featurizer, tmp_path / "text.json")
    loaded = load_featurizer(tmp_path / "text.json")
    assert loaded.fitted
    assert loaded.features == featurizer.features
    new = ["good unknown plot", "bad"]
    for texts, wanted in ((TEXTS, expected), (new, featurizer.transform(new))):
        found = loaded.transform(texts)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert loaded.to_json() == {**featurizer.to_json()}
    assert isinstance(loaded.views(), BagViews)


def test_hashed_rows_have_unit_length() -> None:
    indices, values = HashedNgrams(buckets=128).transform(TEXTS[:3])
    assert indices.max() < 128
    torch.testing.assert_close(values.square().sum(1), torch.ones(3))


def test_bad_featurizers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not fitted"):
        Tfidf().transform(TEXTS)
    with pytest.raises(InputError, match="no words in 2 texts"):
        Tfidf().fit(["", "!"])
    (tmp_path / "other.json").write_text('{"kind": "magic"}')
    for file in ("other.json", "missing.json"):
        with pytest.raises(InputError, match=f"{file} is not a saved featurizer"):
            load_featurizer(tmp_path / file)


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]
    model = tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>")
    raw = tokenizers.Tokenizer(model)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)
    return folder


def test_tokens(tokenizer_folder: Path, tmp_path: Path) -> None:
    featurizer = Tokens(tokenizer_folder, max_length=6)
    ids, attention = featurizer.fit_transform(["good film", "bad bad bad bad bad bad bad"])
    assert ids.tolist() == [[2, 5, 7, 3, 0, 0], [2, 6, 6, 6, 6, 3]]
    assert attention.tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]
    views = featurizer.views()
    assert views.mask_id == 4
    assert set(views.keep_ids) >= {0, 2, 3}
    save_featurizer(featurizer, tmp_path / "tokens.json")
    again = load_featurizer(tmp_path / "tokens.json")
    assert torch.equal(again.transform(["good film"])[0][0], ids[0])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="No tokenizer could be loaded"):
        Tokens(tmp_path / "empty")


# -- datasets as tensors -------------------------------------------------------------------------


def test_image_tensors_share_memory_with_the_cache() -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)
    y = np.zeros(6, np.int64)
    ids, none = np.arange(6), np.empty(0, np.int64)
    data = Dataset(
        "tiny", "image", ids, images, y, none, images[:0], none, ("a",), (0.5,) * 3, (0.2,) * 3
    )
    made = to_tensors(data, dtype=torch.bfloat16)
    assert isinstance(made.inputs, torch.Tensor)
    assert made.inputs.shape == (6, 3, 4, 5)
    assert made.inputs.is_contiguous(memory_format=torch.channels_last)
    assert made.inputs.data_ptr() == images.ctypes.data
    assert made.inputs[2, 1, 3, 4] == images[2, 3, 4, 1]
    assert isinstance(made.views, ImageViews)
    assert made.views.dtype == torch.bfloat16
    assert len(made.test_inputs) == 0


def test_table_tensors() -> None:
    data = load_dataset("digits")
    made = to_tensors(data)
    assert isinstance(made.inputs, torch.Tensor)
    assert isinstance(made.views, TableViews)
    np.testing.assert_array_equal(made.inputs, data.inputs)
    shown = made.views.plain(made.inputs)
    assert shown.mean(0).abs().max() < 1e-5
    deviation = shown.std(0, correction=0)
    assert ((deviation - 1).abs().lt(1e-4) | (deviation == 0)).all()


def text_dataset(test: list[str]) -> Dataset:
    return Dataset(
        name="reviews",
        kind="text",
        ids=np.arange(4),
        inputs=TEXTS,
        y=np.array([1, 0, -1, -1]),
        test_ids=np.arange(len(test)),
        test_inputs=test,
        test_y=np.zeros(len(test), np.int64),
        classes=("neg", "pos"),
    )


def test_text_tensors() -> None:
    made = to_tensors(text_dataset(["good end"]))
    assert isinstance(made.featurizer, Tfidf)
    assert made.featurizer.fitted
    expected = made.featurizer.transform(TEXTS)
    assert all(torch.equal(a, b) for a, b in zip(made.inputs, expected, strict=True))
    assert len(made.test_inputs[0]) == 1
    empty = to_tensors(text_dataset([]), featurizer=HashedNgrams(32))
    assert len(empty.test_inputs[0]) == len(empty.test_inputs[1]) == 0


def test_a_fitted_featurizer_is_not_fitted_again() -> None:
    fitted = Tfidf().fit(["only these words"])
    made = to_tensors(text_dataset([]), featurizer=fitted)
    assert made.featurizer is fitted
    assert fitted.features == 5  # three words, two pairs


def test_bad_datasets() -> None:
    one, none = np.zeros(1, np.int64), np.empty(0, np.int64)
    good = {
        "name": "x",
        "kind": "text",
        "ids": one,
        "inputs": ["a"],
        "y": one,
        "test_ids": none,
        "test_inputs": [],
        "test_y": none,
        "classes": ("a",),
    }
    Dataset(**good)  # type: ignore[arg-type]
    for change, message in (
        ({"kind": "sound"}, "not 'sound'"),
        ({"inputs": ["a", "b"]}, "1 ids, 2 inputs and 1 labels"),
        ({"y": np.array([1])}, "training part must lie in"),
        ({"test_ids": one, "test_inputs": ["a"], "test_y": np.array([-2])}, "not -2"),
    ):
        with pytest.raises(InputError, match=message):
            Dataset(**{**good, **change})  # type: ignore[arg-type]


def test_a_text_that_loses_words_is_told() -> None:
    told = "more than 4 different words"
    fitted = Tfidf(ngrams=(1, 1), min_texts=1).fit(TEXTS)
    with pytest.warns(NoisyTeacherWarning, match=told):
        assert fitted.transform(["good bad film plot end"])[0].shape == (1, 4)
    with pytest.warns(NoisyTeacherWarning, match=told):
        Tfidf(max_entries=4, min_texts=1).fit(TEXTS)
    with pytest.warns(NoisyTeacherWarning, match=told):
        HashedNgrams(max_entries=4).transform(TEXTS)


@pytest.mark.filterwarnings("error")
def test_texts_that_fit_are_read_without_a_word() -> None:
    Tfidf().fit(TEXTS).transform(["good plot bad end"])
    HashedNgrams().transform(TEXTS)
