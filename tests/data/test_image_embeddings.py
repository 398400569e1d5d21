"""Images by a frozen encoder: pooled as it can be, cached by content, resumable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
from PIL import Image

from noisyteacher.core.errors import InputError
from noisyteacher.data import frozen_encoder
from noisyteacher.data.embeddings import ImageEmbeddings
from tiny_encoder import save_classifier, save_image_encoder


def images(count: int, size: tuple[int, int] = (16, 16), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *size, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_image_encoder(tmp_path_factory.mktemp("vit"))


def by_hand(folder: Path, image: np.ndarray, pooling: str) -> torch.Tensor:
    """One image at a time, with Pillow and the processor's numbers."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    sized = Image.fromarray(image).resize((16, 16), Image.Resampling.BILINEAR)
    pixels = (torch.from_numpy(np.array(sized)).permute(2, 0, 1) / 255 - 0.5) / 0.25
    with torch.no_grad():
        output = model(pixels[None])
    hidden = output.last_hidden_state[0]
    found = {"pooler": output.pooler_output[0], "cls": hidden[0], "mean": hidden.mean(0)}[pooling]
    return torch.as_tensor(found / found.norm())


@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
@pytest.mark.parametrize("size", [(16, 16), (24, 20)])
def test_vectors_equal_those_made_by_hand(
    folder: Path, pooling: str, size: tuple[int, int]
) -> None:
    given = images(3, size)
    made = ImageEmbeddings(folder, pooling).transform(given)
    assert made.dtype == torch.float32
    for image, vector in zip(given, made, strict=True):
        torch.testing.assert_close(vector, by_hand(folder, image, pooling), atol=1e-3, rtol=1e-2)


def test_a_pooler_without_weights_is_not_used(folder: Path, tmp_path: Path) -> None:
    """It would be random, and another one in every process."""
    assert ImageEmbeddings(folder).pooling == "pooler"
    bare = ImageEmbeddings(save_image_encoder(tmp_path / "bare", pooler=False))
    assert bare.pooling == "cls"
    # The copy has a random pooler among its weights; what was decided stays.
    bare.save_encoder(tmp_path / "copy")
    again = ImageEmbeddings(tmp_path / "copy", bare.to_json()["pooling"])
    given = images(2)
    assert torch.equal(again.transform(given), bare.transform(given))
    with pytest.raises(InputError, match="pooling must be one of"):
        ImageEmbeddings(folder, "max")


def test_clip_gives_its_image_features(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    small |= {"intermediate_size": 8}
    config = transformers.CLIPConfig(
        text_config=small | {"vocab_size": 9},
        vision_config=small | {"image_size": 16, "patch_size": 8},
        projection_dim=6,
    )
    model = transformers.CLIPModel(config).eval()
    model.save_pretrained(tmp_path)
    processor = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16}}
    processor["crop_size"] = {"height": 16, "width": 16}
    (tmp_path / "preprocessor_config.json").write_bytes(orjson.dumps(processor))
    made = ImageEmbeddings(tmp_path)
    given = images(2)
    assert made.pooling == "features"
    assert made.features == 6
    with torch.no_grad():
        vision = model.vision_model(**made.encoder_inputs(given)).pooler_output
        wanted = model.visual_projection(vision)
    wanted = wanted / wanted.norm(dim=1, keepdim=True)
    torch.testing.assert_close(made.transform(given), wanted, atol=1e-3, rtol=1e-2)


def test_only_new_images_are_embedded_also_after_a_kill(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = images(9)
    wanted = ImageEmbeddings(folder).transform(given)
    monkeypatch.setattr(ImageEmbeddings, "part", 4)
    usual, asked = ImageEmbeddings._embedded, []

    def killed(self: ImageEmbeddings, some: list[np.ndarray]) -> object:
        if asked:
            raise KeyboardInterrupt
        asked.extend(some)
        return usual(self, some)

    monkeypatch.setattr(ImageEmbeddings, "_embedded", killed)
    with pytest.raises(KeyboardInterrupt):
        ImageEmbeddings(folder, cache=tmp_path).transform(given)
    assert len(asked) == 4

    def listen(self: ImageEmbeddings, some: list[np.ndarray]) -> object:
        asked.extend(some)
        return usual(self, some)

    monkeypatch.setattr(ImageEmbeddings, "_embedded", listen)
    found = ImageEmbeddings(folder, cache=tmp_path).transform(given)
    assert len(asked) == 9
    assert torch.equal(found, wanted)


def test_images_of_other_shapes_have_other_keys() -> None:
    wide, tall = np.zeros((2, 8, 3), np.uint8), np.zeros((8, 2, 3), np.uint8)
    assert frozen_encoder._key(wide) != frozen_encoder._key(tall)
    assert frozen_encoder._key(wide) == frozen_encoder._key(wide[::-1].copy())


def test_folders_that_are_no_image_encoders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No encoder could be loaded from"):
        ImageEmbeddings(save_classifier(tmp_path / "texts", {0: "bad", 1: "good"}))
    folder = save_image_encoder(tmp_path / "images")
    config = orjson.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes(orjson.dumps(config | {"num_hidden_layers": 2}))
    with pytest.raises(InputError, match="has no weights for"):
        ImageEmbeddings(folder).transform(images(1))
    (folder / "config.json").write_text("[]")
    with pytest.raises(InputError, match="No encoder could be loaded from"):
        ImageEmbeddings(folder).transform(images(1))


@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json"])
def test_code_of_the_folder_never_runs(tmp_path: Path, file: str) -> None:
    folder = save_image_encoder(tmp_path / "bad")
    saved = orjson.loads((folder / file).read_bytes())
    saved |= {"model_type": "evil", "image_processor_type": "Evil"}
    saved["auto_map"] = {
        "AutoConfig": "evil.Config",
        "AutoModel": "evil.Model",
        "AutoImageProcessor": "evil.Processor",
    }
    (folder / file).write_bytes(orjson.dumps(saved))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(InputError, match="No encoder could be loaded"):
        ImageEmbeddings(folder).transform(images(1))
    assert not (tmp_path / "ran").exists()
