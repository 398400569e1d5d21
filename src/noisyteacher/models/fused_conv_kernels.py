"""The Triton kernels behind ``fused_conv``; importing this file needs Triton.

A channels_last map is (images, H, W, C) in memory, so neighbouring pixels of a row lie side by
side. Two neighbouring output pixels, a *pair*, see four neighbouring input pixels in each of three
rows: a *window* of 4·C numbers in a line. With one row of the kernel spread out as a banded matrix
(4·C, 2·C), windows times band is that row's share of all pairs: matrix products in sizes that
tensor cores like, and every number is fetched twice, not nine times. A tile is ``BLOCK`` pairs at
the same height, of one image or several.
"""

# triton.jit has no types, and the kernels' parameters are Triton's values, not Python's.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _pixels(
    tile,
    row,
    images,
    FIRST: tl.constexpr,
    PIXELS: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Where the pixels around each pair of a tile are, and which exist, (BLOCK, PIXELS * C) each.

    ``PIXELS`` pixels of one row, of which the first is ``FIRST`` to the right of the pair's first.
    """
    pair = tile * BLOCK + tl.arange(0, BLOCK)
    image = pair // (W // 2)
    first = pair % (W // 2) * 2 + FIRST
    value = tl.arange(0, PIXELS * C)
    column = first[:, None] + (value // C)[None, :]
    exist = (image < images)[:, None] & (column >= 0) & (column < W) & (row >= 0) & (row < H)
    offsets = (((image * H + row) * W + first) * C)[:, None] + value[None, :]
    return offsets, exist


@triton.jit
def _load_windows(
    x_ptr, tile, row, images, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr
):
    """What the pairs of a tile see of one row, zero outside the map, (BLOCK, 4 * C)."""
    offsets, exist = _pixels(tile, row, images, -1, 4, H, W, C, BLOCK)
    return tl.load(x_ptr + offsets, mask=exist, other=0.0)


@triton.jit
def _load_pairs(
    y_ptr, tile, row, images, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr
):
    """The pairs of a tile themselves, zero outside the map, (BLOCK, 2 * C)."""
    offsets, exist = _pixels(tile, row, images, 0, 2, H, W, C, BLOCK)
    return tl.load(y_ptr + offsets, mask=exist, other=0.0)


@triton.jit
def _weight_offsets(out, into, row, column, C: tl.constexpr, CHANNELS_LAST: tl.constexpr):
    """Where weight[out, into, row, column] is."""
    into_stride: tl.constexpr = 1 if CHANNELS_LAST else 9
    tap_stride: tl.constexpr = C if CHANNELS_LAST else 1
    return out * (9 * C) + into * into_stride + (row * 3 + column) * tap_stride


@triton.jit
def _band(
    weight_ptr,
    ROW: tl.constexpr,
    C: tl.constexpr,
    CHANNELS_LAST: tl.constexpr,
    TRANSPOSED: tl.constexpr,
):
    """One row of the kernel as a banded matrix from windows to pairs, float32 (4 * C, 2 * C)."""
    window = tl.arange(0, 4 * C)[:, None]
    pair = tl.arange(0, 2 * C)[None, :]
    column = window // C - pair // C
    if TRANSPOSED:
        offsets = _weight_offsets(window % C, pair % C, 2 - ROW, 2 - column, C, CHANNELS_LAST)
    else:
        offsets = _weight_offsets(pair % C, window % C, ROW, column, C, CHANNELS_LAST)
    in_band = (column >= 0) & (column < 3)
    return tl.load(weight_ptr + offsets, mask=in_band, other=0.0)


@triton.jit(do_not_specialize=["images", "rows"])
def convolve(
    x_ptr,
    weight_ptr,
    y_ptr,
    images,
    rows,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    CHANNELS_LAST: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """y = x convolved with the weight, or, ``TRANSPOSED``, the gradient of x where x_ptr holds y's.

    A program walks down ``rows`` rows of a tile. It reads each row of x once, adds its share to
    the three rows of y that see it, and writes the one that is then complete.
    """
    tile = tl.program_id(0)
    start = tl.program_id(1) * rows
    end = start + rows
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    top = _band(weight_ptr, 0, C, CHANNELS_LAST, TRANSPOSED).to(dtype)
    middle = _band(weight_ptr, 1, C, CHANNELS_LAST, TRANSPOSED).to(dtype)
    bottom = _band(weight_ptr, 2, C, CHANNELS_LAST, TRANSPOSED).to(dtype)
    above = tl.zeros((BLOCK, 2 * C), tl.float32)
    here = tl.zeros((BLOCK, 2 * C), tl.float32)
    for row in tl.range(start - 1, end + 1, num_stages=STAGES):
        x = _load_windows(x_ptr, tile, row, images, H, W, C, BLOCK)
        complete = tl.dot(x, bottom, above)
        # The values of rows that are not ours do not matter. The selects are here because they need
        # finished products: unfinished ones, carried over as they are, would change registers while
        # tensor cores work on them, to which the assembler's answer is to run all one by one.
        above = tl.where(row >= start, tl.dot(x, middle, here), 0.0)
        here = tl.where(row < end, tl.dot(x, top), 0.0)
        offsets, exist = _pixels(tile, row - 1, images, 0, 2, H, W, C, BLOCK)
        tl.store(y_ptr + offsets, complete.to(dtype), mask=exist & (row > start))


@triton.jit
def _store_part(partial_ptr, value, ROW: tl.constexpr, C: tl.constexpr):
    """Write the band of one kernel row's gradient to this program's (3, 4 * C, 2 * C) scratch."""
    window = tl.arange(0, 4 * C)[:, None]
    pair = tl.arange(0, 2 * C)[None, :]
    column = window // C - pair // C
    start = (tl.program_id(0) * 3 + ROW) * (8 * C * C)
    in_band = (column >= 0) & (column < 3)
    tl.store(partial_ptr + start + window * (2 * C) + pair, value, mask=in_band)


@triton.jit(do_not_specialize=["images", "steps"])
def weight_parts(
    x_ptr,
    grad_ptr,
    partial_ptr,
    images,
    steps,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Each program's share of the weight's gradient, as bands, (PARTS, 3, 4 * C, 2 * C).

    A step is one row of x in one tile, with the three rows of the gradient that saw it; a program
    takes ``steps`` of them in a line.
    """
    first = tl.program_id(0) * steps
    top = tl.zeros((4 * C, 2 * C), tl.float32)
    middle = tl.zeros((4 * C, 2 * C), tl.float32)
    bottom = tl.zeros((4 * C, 2 * C), tl.float32)
    for step in tl.range(first, first + steps, num_stages=STAGES):
        tile = step // H
        row = step % H
        x = tl.trans(_load_windows(x_ptr, tile, row, images, H, W, C, BLOCK))
        below = _load_pairs(grad_ptr, tile, row + 1, images, H, W, C, BLOCK)
        here = _load_pairs(grad_ptr, tile, row, images, H, W, C, BLOCK)
        above = _load_pairs(grad_ptr, tile, row - 1, images, H, W, C, BLOCK)
        top = tl.dot(x, below, top)
        middle = tl.dot(x, here, middle)
        bottom = tl.dot(x, above, bottom)
    _store_part(partial_ptr, top, 0, C)
    _store_part(partial_ptr, middle, 1, C)
    _store_part(partial_ptr, bottom, 2, C)


@triton.jit
def join_parts(
    partial_ptr,
    dweight_ptr,
    C: tl.constexpr,
    CHANNELS_LAST: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The weight's gradient: the parts added up, and the two pixels of a pair with them."""
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = entry % C
    into = entry // C % C
    column = entry // (C * C) % 3
    row = entry // (3 * C * C)
    left = (row * (4 * C) + column * C + into) * (2 * C) + out
    right = left + 2 * C * C + C
    part = tl.arange(0, PARTS)[:, None] * (24 * C * C)
    both = tl.load(partial_ptr + part + left[None, :]) + tl.load(
        partial_ptr + part + right[None, :]
    )
    offsets = _weight_offsets(out, into, row, column, C, CHANNELS_LAST)
    tl.store(dweight_ptr + offsets, tl.sum(both, axis=0))
