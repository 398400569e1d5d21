"""Image files as viewers show them: upright, on white, in all their brightness, of one size."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sample_images import encoded

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.data import load_dataset
from noisyteacher.data.input_format import fit_format
from noisyteacher.io.images import decode_image
from noisyteacher.models import ResNetCifar
from noisyteacher.pipeline.defaults import student_for


def saved(image: Image.Image, form: str, **more: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, form, **more)
    return buffer.getvalue()


def turned(picture: np.ndarray, orientation: int, form: str = "PNG") -> bytes:
    """A file with these stored rows, and a note of how the camera was held."""
    notes = Image.Exif()
    notes[0x0112] = orientation
    return saved(Image.fromarray(picture), form, exif=notes)


# -- orientation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_stand_upright(pictures: np.ndarray, orientation: int, form: str) -> None:
    stored = pictures[0, :6]
    # EXIF's table: where the stored row 0 and column 0 belong in the picture.
    upright = {
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.swapaxes(0, 1),
        6: np.rot90(stored, -1),
        7: np.rot90(stored, 2).swapaxes(0, 1),
        8: np.rot90(stored),
    }[orientation]
    shown = decode_image("x", turned(stored, orientation, form), *upright.shape[:2])
    np.testing.assert_array_equal(shown, upright)


@pytest.mark.usefixtures("cache")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_the_common_size_is_that_of_upright_pictures(
    tmp_path: Path, pictures: np.ndarray, form: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / f"0.{form.lower()}").write_bytes(turned(pictures[0, :6], 6, form))
    (tmp_path / "a" / "1.png").write_bytes(encoded(pictures[0, :, :6]))
    assert load_dataset(tmp_path).inputs.shape == (2, 8, 6, 3)


def test_large_jpegs_that_lie_are_read_in_full_detail() -> None:
    ramp = np.linspace(0, 255, 640).astype(np.uint8)
    stored = np.broadcast_to(ramp[None, :, None], (160, 640, 3))
    shown = decode_image("x", turned(stored, 6, "JPEG"), 64, 16)
    expected = np.linspace(0, 255, 640).reshape(64, 10).mean(1)
    assert np.abs(shown[..., 0].astype(float) - expected[:, None]).max() < 5


def test_damaged_notes_of_a_camera_do_not_hide_its_picture(pictures: np.ndarray) -> None:
    data = saved(Image.fromarray(pictures[0]), "PNG", exif=b"Exif\x00\x00no TIFF at all")
    np.testing.assert_array_equal(decode_image("x", data, 8, 8), pictures[0])


# -- depth and transparency ----------------------------------------------------------------------


def test_floats_from_0_to_1_are_shares_of_white() -> None:
    ramp = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    expected = np.arange(256).reshape(16, 16)
    for greys in (ramp, ramp * 255):
        shown = decode_image("x", saved(Image.fromarray(greys), "TIFF"), 16, 16)
        np.testing.assert_array_equal(shown, np.repeat(expected[..., None], 3, 2))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB"])
def test_transparent_pixels_are_white(mode: str) -> None:
    red, black = (255, 0, 0), (0, 0, 0)
    image = Image.new("RGB", (2, 1), red)
    image.putpixel((0, 0), black)  # the colour that is hidden
    more = {}
    if mode in ("RGBA", "LA"):
        image = image.convert(mode)
        image.putalpha(Image.fromarray(np.array([[0, 255]], np.uint8)))
    elif mode == "P":
        image = image.quantize(2)
        more["transparency"] = image.getpixel((0, 0))
    else:
        more["transparency"] = black
    shown = decode_image("x", saved(image, "PNG", **more), 1, 2)
    seen = (76, 76, 76) if mode == "LA" else red  # as grey
    assert shown.tolist() == [[[255, 255, 255], list(seen)]]


def test_half_transparent_pixels_are_half_white() -> None:
    shown = decode_image("x", saved(Image.new("RGBA", (1, 1), (0, 0, 200, 51)), "PNG"), 1, 1)
    assert shown.tolist() == [[[204, 204, 244]]]


# -- sizes and names -----------------------------------------------------------------------------


def write_sizes(folder: Path, *sizes: tuple[int, int]) -> None:
    (folder / "a").mkdir(parents=True)
    for i, (height, width) in enumerate(sizes):
        Image.new("RGB", (width, height)).save(folder / "a" / f"{i}.png")


@pytest.mark.usefixtures("cache")
def test_small_images_of_several_sizes_stay_small_with_a_word(tmp_path: Path) -> None:
    write_sizes(tmp_path, (28, 26), (24, 24), (26, 26))
    said = r"first 3 are 24×24 to 28×26 .* resized to 32×32; .* image_size= \(--image-size\)"
    with pytest.warns(NoisyTeacherWarning, match=said):
        data = load_dataset(tmp_path)
    assert data.inputs.shape == (3, 32, 32, 3)
    inputs, _ = fit_format("image", data.inputs)
    assert student_for("auto", inputs, 2) == ResNetCifar(20, 2)


@pytest.mark.usefixtures("cache")
def test_photographs_of_several_sizes_are_brought_to_one_with_a_word(tmp_path: Path) -> None:
    write_sizes(tmp_path, (300, 200), (24, 24), (64, 40))
    with pytest.warns(NoisyTeacherWarning, match="24×24 to 300×200 .* resized to 256×256"):
        assert load_dataset(tmp_path).inputs.shape == (3, 256, 256, 3)


@pytest.mark.usefixtures("cache")
@pytest.mark.filterwarnings("error")
def test_a_size_that_was_asked_for_needs_no_word(tmp_path: Path) -> None:
    write_sizes(tmp_path, (28, 26), (24, 24))
    assert load_dataset(tmp_path, image_size=24).inputs.shape == (2, 24, 24, 3)


@pytest.mark.usefixtures("cache")
def test_jfif_files_are_jpegs(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("0.jfif", "1.JFIF", "2.jpg"):
        Image.new("RGB", (8, 8), (90, 90, 90)).save(tmp_path / "a" / name, "JPEG")
    data = load_dataset(tmp_path)
    assert data.ids.tolist() == ["a/0.jfif", "a/1.JFIF", "a/2.jpg"]
    assert (np.asarray(data.inputs) == 90).all()


def test_a_cut_off_image_is_still_refused(pictures: np.ndarray) -> None:
    data = encoded(np.tile(pictures[0], (8, 8, 1)), "JPEG")
    with pytest.raises(InputError, match="Image x cannot be decoded"):
        decode_image("x", data[: len(data) // 2], 8, 8)
