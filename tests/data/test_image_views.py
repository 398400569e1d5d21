"""Views of images against plain reference code, and their ranges."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.data import ImageViews, ResizedCropViews, StrongImage, crop_resize_view

MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.1)
STILL = StrongImage(
    rotation=0,
    scale=(1, 1),
    shear=0,
    shift=0,
    saturation=(1, 1),
    contrast=(1, 1),
    brightness=0,
    square=0,
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(count: int = 6, height: int = 10, width: int = 10, seed: int = 0) -> Tensor:
    shape = (count, 3, height, width)
    return torch.randint(0, 256, shape, generator=seeded(seed), dtype=torch.uint8)


def shifted(image: np.ndarray, down: int, right: int, flip: bool) -> np.ndarray:
    """Reference: look up each pixel, repeating the border; mirror first."""
    _, height, width = image.shape
    out = np.empty_like(image)
    for i in range(height):
        for j in range(width):
            column = min(max(j + right, 0), width - 1)
            column = width - 1 - column if flip else column
            out[:, i, j] = image[:, min(max(i + down, 0), height - 1), column]
    return out


def test_plain_normalizes() -> None:
    x = batch()
    expected = (x.double() / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[
        :, None, None
    ]
    shown = ImageViews(MEAN, STD).plain(x)
    torch.testing.assert_close(shown.double(), expected, rtol=1e-5, atol=1e-5)
    assert shown.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "views", [ImageViews(MEAN, STD), ResizedCropViews(MEAN, STD, size=8)], ids=["shift", "crop"]
)
def test_every_view_has_the_models_format(
    views: ImageViews | ResizedCropViews, dtype: torch.dtype, layout: torch.memory_format
) -> None:
    x = batch(4).contiguous(memory_format=layout)
    views = replace(views, dtype=dtype)
    shown = (views.plain(x), *(v(x, seeded()) for v in (views.weak, views.strong, views.crop)))
    side = 8 if isinstance(views, ResizedCropViews) else 10
    for view in shown:
        assert view.shape == (4, 3, side, side)
        assert view.dtype == dtype
        assert view.is_contiguous(memory_format=torch.channels_last)
        assert torch.isfinite(view).all()


@settings(max_examples=15, deadline=None)
@given(
    height=st.integers(4, 12),
    width=st.integers(4, 12),
    shift=st.sampled_from([0.0, 0.1, 0.3]),
    flip=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_each_weak_image_is_one_of_the_allowed_shifts(
    height: int, width: int, shift: float, flip: bool, seed: int
) -> None:
    x = batch(5, height, width, seed)
    views = ImageViews(MEAN, STD, flip=flip, shift=shift)
    shown = views.weak(x, seeded(seed))
    down, right = round(shift * height), round(shift * width)
    for image, view in zip(x, shown, strict=True):
        allowed = [
            shifted(image.numpy(), dy, dx, mirrored)
            for dy in range(-down, down + 1)
            for dx in range(-right, right + 1)
            for mirrored in ((False, True) if flip else (False,))
        ]
        options = views.plain(torch.from_numpy(np.stack(allowed)))
        assert (options == view).flatten(1).all(1).any()


def test_weak_without_changes_is_plain_and_draws_nothing() -> None:
    views, generator = ImageViews(MEAN, STD, flip=False, shift=0), seeded()
    assert torch.equal(views.weak(batch(), generator), views.plain(batch()))
    assert torch.equal(generator.get_state(), seeded().get_state())


def test_shifts_and_flips_are_drawn_evenly_and_independently() -> None:
    # Each pixel carries its own place, so that the shift can be read off the middle pixel.
    count, side = 8000, 10
    place = torch.arange(side * side, dtype=torch.uint8).view(1, 1, side, side)
    x = place.expand(count, 3, side, side)
    views = ImageViews((0, 0, 0), (1 / 255,) * 3, shift=0.2)
    shown = views.weak(x, seeded(1))[:, 0].round().long()
    middle, beside = shown[:, 5, 5], shown[:, 5, 6]
    mirrored = beside < middle
    dy = middle // side - 5
    dx = torch.where(mirrored, side - 1 - middle % side, middle % side) - 5
    table = torch.zeros(2, 5, 5)
    table.index_put_((mirrored.long(), dy + 2, dx + 2), torch.ones(count), accumulate=True)
    expected = count / 50
    assert (table - expected).abs().max() < 5 * math.sqrt(expected)


def test_views_follow_their_generator() -> None:
    x = batch(32)
    for views in (ImageViews(MEAN, STD), ResizedCropViews(MEAN, STD, size=8)):
        for view in (views.weak, views.strong, views.crop):
            torch.manual_seed(0)
            first = view(x, seeded(7))
            torch.manual_seed(1)  # the default generator must not matter
            assert torch.equal(first, view(x, seeded(7)))
            assert not torch.equal(first, view(x, seeded(8)))
            generator = seeded(7)
            assert not torch.equal(view(x, generator), view(x, generator))


def test_strong_starts_from_its_own_weak_view() -> None:
    x = batch()
    views = ImageViews(MEAN, STD, strong_view=STILL)
    assert views.has_strong
    torch.testing.assert_close(views.strong(x, seeded(3)), views.weak(x, seeded(3)))
    none = ImageViews(MEAN, STD, strong_view=None)
    assert not none.has_strong
    with pytest.raises(InputError, match="no strong view"):
        none.strong(x, seeded())


def test_the_square_is_whole_and_anywhere() -> None:
    x = torch.ones(4000, 3, 32, 32)
    shown = replace(STILL, square=0.5)(x, seeded())
    blank = (shown == 0).all(1)
    assert (blank.sum((1, 2)) == 256).all()
    rows, columns = blank.any(2), blank.any(1)
    assert (rows.sum(1) == 16).all()
    assert (columns.sum(1) == 16).all()
    starts = torch.stack([rows.int().argmax(1), columns.int().argmax(1)])
    counts = torch.stack([torch.bincount(s, minlength=17) for s in starts])
    assert counts.shape == (2, 17)
    assert (counts - 4000 / 17).abs().max() < 5 * math.sqrt(4000 / 17)
    assert abs(np.corrcoef(starts.numpy())[0, 1]) < 0.1


def test_the_square_scales_with_the_width_and_stays_inside() -> None:
    shown = replace(STILL, square=0.5)(torch.ones(3, 3, 6, 20), seeded())
    blank = (shown == 0).all(1)
    assert (blank.sum((1, 2)) == 36).all()


def recoloured(x: Tensor, **ranges: object) -> Tensor:
    return replace(STILL, **ranges)(x, seeded())  # type: ignore[arg-type]


def test_colours_change_within_their_ranges() -> None:
    x = torch.randn(1, 3, 6, 6, generator=seeded(5)).expand(3000, 3, 6, 6)
    added = recoloured(x, brightness=0.6) - x
    assert (added.flatten(1).std(1) < 1e-5).all()
    check_even(added[:, 0, 0, 0], -0.6, 0.6)

    mean = x.mean((1, 2, 3), keepdim=True)
    factor = (recoloured(x, contrast=(0.5, 1.6)) - mean) / (x - mean)
    assert (factor.flatten(1).std(1) < 1e-3).all()
    check_even(factor[:, 0, 0, 0], 0.5, 1.6)

    grey = x.mean(1, keepdim=True)
    saturated = recoloured(x, saturation=(0.3, 1.7))
    torch.testing.assert_close(saturated.mean(1, keepdim=True), grey, atol=1e-5, rtol=1e-5)
    factor = (saturated - grey) / (x - grey)
    check_even(factor.flatten(1).median(1).values, 0.3, 1.7)


def check_even(values: Tensor, low: float, high: float) -> None:
    share = (values - low) / (high - low)
    assert share.min() > -1e-3
    assert share.max() < 1 + 1e-3
    assert share.min() < 0.01
    assert share.max() > 0.99
    assert abs(share.mean() - 0.5) < 0.03
    assert abs(share.var() - 1 / 12) < 0.01


def coordinates(height: int, width: int, count: int) -> Tensor:
    """(count, 3, H, W): a picture of its own pixel positions around the middle, and 1."""
    rows = torch.arange(height) - (height - 1) / 2
    columns = torch.arange(width) - (width - 1) / 2
    down, right = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack([right, down, torch.ones_like(down)]).expand(count, 3, height, width)


def local_matrix(shown: Tensor) -> Tensor:
    """(b, 2, 2): how the shown position changes per pixel, at the middle."""
    height, width = shown.shape[2:]
    i, j = height // 2, width // 2
    across = shown[:, :2, i, j + 1] - shown[:, :2, i, j]
    down = shown[:, :2, i + 1, j] - shown[:, :2, i, j]
    return torch.stack([across, down], dim=-1)


@pytest.mark.parametrize(("height", "width"), [(33, 33), (21, 45)])
def test_rotation_keeps_angles_and_lengths(height: int, width: int) -> None:
    x = coordinates(height, width, 500)
    matrix = local_matrix(replace(STILL, rotation=0.5)(x, seeded()))
    torch.testing.assert_close(
        matrix @ matrix.mT, torch.eye(2).expand(500, 2, 2), atol=1e-3, rtol=0
    )
    check_even(torch.atan2(matrix[:, 1, 0], matrix[:, 0, 0]), -0.5, 0.5)


def test_scale_shear_and_shift_ranges() -> None:
    x = coordinates(33, 33, 500)
    matrix = local_matrix(replace(STILL, scale=(0.8, 1.2))(x, seeded()))
    check_even(matrix[:, 0, 0], 0.8, 1.2)
    torch.testing.assert_close(matrix[:, 0, 0], matrix[:, 1, 1], atol=1e-3, rtol=0)
    matrix = local_matrix(replace(STILL, shear=0.3)(x, seeded()))
    check_even(matrix[:, 0, 1], -0.3, 0.3)
    torch.testing.assert_close(matrix[:, 0, 0], torch.ones(500), atol=1e-3, rtol=0)
    moved = replace(STILL, shift=0.25)(x, seeded())[:, :2, 16, 16] / (33 / 2)
    check_even(moved[:, 0], -0.25, 0.25)
    check_even(moved[:, 1], -0.25, 0.25)


def test_borders_are_reflected() -> None:
    x = coordinates(8, 8, 200)
    shown = replace(STILL, shift=0.9)(x, seeded())
    assert (shown[:, 2] > 0.999).all()  # nothing from outside the image, where there would be 0
    right_edge = shown[:, 0, 4, -3:]
    turned = (right_edge[:, 1] > right_edge[:, 0]) & (right_edge[:, 2] < right_edge[:, 1])
    assert turned.any()


def test_the_default_strong_view_is_the_measured_one() -> None:
    assert StrongImage() == StrongImage(
        rotation=0.5,
        scale=(0.8, 1.2),
        shear=0.3,
        shift=0.25,
        saturation=(0.3, 1.7),
        contrast=(0.5, 1.6),
        brightness=0.6,
        square=0.5,
    )


# -- crops ---------------------------------------------------------------------------------------


def cropped_box(shown: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Width, height and middle of each crop, in pixels, read off a picture of coordinates."""
    size = shown.shape[-1]
    i = size // 2
    across = (shown[:, 0, i, i + 1] - shown[:, 0, i, i]) * size
    down = (shown[:, 1, i + 1, i] - shown[:, 1, i, i]) * size
    return across, down, shown[:, 0, i, i], shown[:, 1, i, i]


def test_crops_have_the_area_and_shape_asked_for() -> None:
    x = coordinates(65, 65, 2000)
    shown = crop_resize_view(x, seeded(), area=(0.3, 0.5), ratio=(0.8, 1.25))
    assert shown.shape == x.shape
    across, down, right, below = cropped_box(shown)
    check_even(across * down / 65**2, 0.3, 0.5)
    check_even((across / down).log(), math.log(0.8), math.log(1.25))
    assert (right.abs() + across / 2 <= 34).all()
    assert (below.abs() + down / 2 <= 34).all()
    assert right.std() > 3
    assert abs(np.corrcoef(right, below)[0, 1]) < 0.1


def test_a_crop_of_everything_is_the_image() -> None:
    x = batch(3, 9, 7)
    whole = crop_resize_view(x, seeded(), area=(1, 1), ratio=(1, 1))
    # A square as large as a tall image would stand out on the sides: it is cut to the image.
    assert whole.shape == x.shape
    square = batch(3, 9, 9)
    torch.testing.assert_close(
        crop_resize_view(square, seeded(), area=(1, 1), ratio=(1, 1)),
        square.float(),
        atol=1e-2,
        rtol=1e-5,
    )


def test_resized_crops_are_mirrored_half_of_the_time() -> None:
    x = coordinates(20, 20, 2000).add(100).to(torch.uint8)
    views = ResizedCropViews((0, 0, 0), (1 / 255,) * 3, size=16)
    shown = views.weak(x, seeded())
    mirrored = (shown[:, 0, 8, 10] < shown[:, 0, 8, 6]).float().mean()
    assert abs(mirrored - 0.5) < 0.05
    assert (shown[:, 1, 10, 8] >= shown[:, 1, 6, 8]).all()
    never = replace(views, flip=False).weak(x, seeded())
    assert (never[:, 0, 8, 10] >= never[:, 0, 8, 6]).all()


def test_plain_takes_the_middle_or_enlarges() -> None:
    x = batch(2, 12, 14)
    views = ResizedCropViews(MEAN, STD, size=8)
    expected = ImageViews(MEAN, STD).plain(x[:, :, 2:10, 3:11])
    assert torch.equal(views.plain(x), expected)
    assert ResizedCropViews(MEAN, STD, size=20).plain(x).shape == (2, 3, 20, 20)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ImageViews((0.5,), (0.2,)), "three means"),
        (lambda: ImageViews(MEAN, (0.2, 0, 0.2)), "above 0"),
        (lambda: ImageViews(MEAN, STD, shift=1.5), "shift must be"),
        (lambda: ResizedCropViews(MEAN, STD, size=0), "size must be"),
        (lambda: ResizedCropViews(MEAN, STD, area=(0, 1)), "area"),
        (lambda: crop_resize_view(batch(), seeded(), ratio=(2, 1)), "ratio"),
        (lambda: StrongImage(rotation=-1), "rotation must be"),
        (lambda: StrongImage(scale=(1.2, 0.8)), "scale must be"),
        (lambda: StrongImage(square=1.5), "square must be"),
    ],
)
def test_bad_settings(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_views_can_be_captured() -> None:
    device = torch.device("cuda")
    x = batch(16, 32, 32).to(device)
    generator = torch.Generator(device).manual_seed(0)
    for views in (ImageViews(MEAN, STD), ResizedCropViews(MEAN, STD, size=24)):
        for view in (views.weak, views.strong, views.crop):
            view(x, generator)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.register_generator_state(generator)
            with torch.cuda.graph(graph):
                shown = view(x, generator)
            generator.manual_seed(5)
            graph.replay()
            first = shown.clone()
            graph.replay()
            assert not torch.equal(first, shown)
            generator.manual_seed(5)
            assert torch.equal(first, view(x, generator))
