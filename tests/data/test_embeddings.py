"""Embeddings of a frozen encoder: pooled as it says, cached, resumable, and free of its code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.data.embeddings import Embeddings
from tiny_encoder import save_classifier

TEXTS = ["a good film", "a bad film", "good", "a good film", "the plot was bad and slow"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classifier(tmp_path_factory.mktemp("encoder"), {0: "bad", 1: "good"})


def pooled(folder: Path, kind: str) -> Path:
    names = ("cls_token", "mean_tokens", "max_tokens")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    saved = {f"pooling_mode_{name}": name.startswith(kind) for name in names}
    (folder / "1_Pooling" / "config.json").write_bytes(orjson.dumps(saved))
    return folder


@pytest.mark.parametrize("kind", ["mean", "cls", "max"])
def test_vectors_are_pooled_as_the_encoder_says(folder: Path, kind: str) -> None:
    """One text at a time, by hand, equals batches with padding."""
    transformers = pytest.importorskip("transformers")
    made = Embeddings(pooled(folder, kind)).transform(TEXTS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    for text, vector in zip(TEXTS, made, strict=True):
        with torch.no_grad():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        wanted = {"mean": hidden.mean(0), "cls": hidden[0], "max": hidden.amax(0)}[kind]
        torch.testing.assert_close(vector, wanted / wanted.norm(), atol=1e-3, rtol=1e-2)


def test_a_second_run_reads_the_cache_and_is_identical(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Embeddings(folder, cache=tmp_path).transform(TEXTS)
    monkeypatch.setattr(Embeddings, "_embedded", lambda self, texts: pytest.fail(str(texts)))
    again = Embeddings(folder, cache=tmp_path).transform(TEXTS[::-1])
    assert torch.equal(again, first.flip(0))


def test_only_new_texts_are_embedded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Embeddings(folder, cache=tmp_path).transform(TEXTS[:2])
    asked: list[str] = []
    usual = Embeddings._embedded

    def listen(self: Embeddings, texts: list[str]) -> object:
        asked.extend(texts)
        return usual(self, texts)

    monkeypatch.setattr(Embeddings, "_embedded", listen)
    Embeddings(folder, cache=tmp_path).transform(TEXTS)
    assert sorted(asked) == sorted({*TEXTS} - {*TEXTS[:2]})


def test_a_damaged_part_of_the_cache_is_computed_anew(folder: Path, tmp_path: Path) -> None:
    first = Embeddings(folder, cache=tmp_path).transform(TEXTS)
    (part,) = tmp_path.rglob("*.safetensors")
    content = bytearray(part.read_bytes())
    content[-3] ^= 1
    part.write_bytes(content)
    assert torch.equal(Embeddings(folder, cache=tmp_path).transform(TEXTS), first)


def test_another_pooling_or_length_has_a_cache_of_its_own(folder: Path) -> None:
    mean = Embeddings(pooled(folder, "mean")).digest
    assert Embeddings(pooled(folder, "cls")).digest != mean
    assert Embeddings(folder, 7).digest != Embeddings(folder, 8).digest


def test_vectors_have_unit_length_and_the_saved_encoder_gives_the_same(
    folder: Path, tmp_path: Path
) -> None:
    made = Embeddings(pooled(folder, "mean"))
    vectors = made.transform(TEXTS)
    np.testing.assert_allclose(vectors.norm(dim=1), 1, atol=1e-3)
    made.save_encoder(tmp_path / "copy")
    again = Embeddings(tmp_path / "copy", made.max_length)
    assert torch.equal(again.transform(TEXTS), vectors)
    assert made.transform([]).shape == (0, 16)


def test_a_saved_encoder_is_the_same_whether_it_was_used_or_not(
    folder: Path, tmp_path: Path
) -> None:
    """A run that was killed reads its vectors from the cache, and saves the same student."""
    used = Embeddings(folder)
    used.transform(TEXTS)
    for name, encoder in {"used": used, "new": Embeddings(folder)}.items():
        encoder.save_encoder(tmp_path / name)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "used" / name).read_bytes()


def test_a_folder_in_the_users_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in --encoder=~/bert, of which many shells leave the tilde as it is."""
    from noisyteacher.data import Tokens
    from noisyteacher.models import TextEncoder

    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("USERPROFILE", str(folder.parent))
    here, plain = f"~/{folder.name}", Embeddings(folder)
    made = Embeddings(here)
    assert (made.digest, made.to_json()) == (plain.digest, plain.to_json())
    assert torch.equal(made.transform(TEXTS), plain.transform(TEXTS))
    assert Tokens(here).to_json()["tokenizer"] == str(folder)
    assert TextEncoder(here, classes=2).build().classes == 2
    assert Embeddings("./bert", max_length=8).encoder == "./bert"


def test_an_unknown_encoder_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No encoder could be loaded from"):
        Embeddings(tmp_path)


def test_code_of_the_encoders_folder_never_runs(folder: Path, tmp_path: Path) -> None:
    made = Embeddings(folder)
    made.save_encoder(tmp_path / "bad")
    config = orjson.loads((tmp_path / "bad" / "config.json").read_bytes())
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    config["model_type"] = "evil"
    (tmp_path / "bad" / "config.json").write_bytes(orjson.dumps(config))
    (tmp_path / "bad" / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(InputError, match="No encoder could be loaded"):
        Embeddings(tmp_path / "bad").transform(TEXTS)
    assert not (tmp_path / "ran").exists()
