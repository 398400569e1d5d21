"""The Triton kernels behind ``fused_conv``; importing this file needs Triton.

A channels_last map is (images, H, W, C) in memory, so neighbouring pixels of a row lie side by
side. Two neighbouring output pixels, a *pair*, see four neighbouring input pixels of three rows: a
*window* of 4·C numbers in a row. With the weights of one kernel row spread out as a banded matrix
(4·C, 2·C), a matrix product of windows with it gives that row's share of all pairs, in sizes that
tensor cores like. A tile is ``BLOCK`` pairs at the same height, of one or several images.
"""

# triton.jit has no types, and the kernels' parameters are Triton's values, not Python's.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _pixels(tile, shift, row, images, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
            BLOCK: tl.constexpr, PIXELS: tl.constexpr):
    """Where a row's pixels are and which of them exist, (BLOCK, PIXELS * C) both.

    Per pair of the tile, ``PIXELS`` pixels, of which the first lies ``shift`` from the pair's.
    """
    pair = tile * BLOCK + tl.arange(0, BLOCK)
    image = pair // (W // 2)
    first = pair % (W // 2) * 2 + shift
    value = tl.arange(0, PIXELS * C)
    column = first[:, None] + (value // C)[None, :]
    exists = (image < images)[:, None] & (column >= 0) & (column < W) & (row >= 0) & (row < H)
    return (((image * H + row) * W + first) * C)[:, None] + value[None, :], exists


@triton.jit
def _load(map_ptr, tile, shift, row, images, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
            BLOCK: tl.constexpr, PIXELS: tl.constexpr):
    """Pixels as ``_pixels`` says, zero where there are none, (BLOCK, PIXELS * C)."""
    offsets, exists = _pixels(tile, shift, row, images, H, W, C, BLOCK, PIXELS)
    return tl.load(map_ptr + offsets, mask=exists, other=0.0)


@triton.jit
def _band(weight_ptr, kernel_row, C: tl.constexpr, S_OUT: tl.constexpr, S_IN: tl.constexpr,
          S_ROW: tl.constexpr, S_COLUMN: tl.constexpr, ROTATED: tl.constexpr):
    window = tl.arange(0, 4 * C)[:, None]
    pair = tl.arange(0, 2 * C)[None, :]
    column = window // C - pair // C
    inside = (column >= 0) & (column < 3)
    if ROTATED:
        offsets = (window % C) * S_OUT + (pair % C) * S_IN
        offsets += (2 - kernel_row) * S_ROW + (2 - column) * S_COLUMN
    else:
        offsets = (pair % C) * S_OUT + (window % C) * S_IN
        offsets += kernel_row * S_ROW + column * S_COLUMN
    return tl.load(weight_ptr + offsets, mask=inside, other=0.0).to(tl.bfloat16)


@triton.jit
def convolve(x_ptr, weight_ptr, y_ptr, images, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
             S_OUT: tl.constexpr, S_IN: tl.constexpr, S_ROW: tl.constexpr, S_COLUMN: tl.constexpr,
             ROTATED: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr):
    tile = tl.program_id(0)
    start = tl.program_id(1) * ROWS
    top = _band(weight_ptr, 0, C, S_OUT, S_IN, S_ROW, S_COLUMN, ROTATED)
    middle = _band(weight_ptr, 1, C, S_OUT, S_IN, S_ROW, S_COLUMN, ROTATED)
    bottom = _band(weight_ptr, 2, C, S_OUT, S_IN, S_ROW, S_COLUMN, ROTATED)
    above = tl.zeros((BLOCK, 2 * C), tl.float32)
    here = tl.zeros((BLOCK, 2 * C), tl.float32)
    for row in tl.range(start - 1, start + ROWS + 1, num_stages=STAGES):
        x = _load(x_ptr, tile, -1, row, images, H, W, C, BLOCK, 4)
        done = tl.dot(x, bottom, above)
        above = tl.dot(x, middle, here)
        here = tl.dot(x, top)
        offsets, exists = _pixels(tile, 0, row - 1, images, H, W, C, BLOCK, 2)
        tl.store(y_ptr + offsets, done.to(y_ptr.dtype.element_ty), mask=exists & (row > start))


@triton.jit
def weight_parts(x_ptr, grad_ptr, partial_ptr, images, steps, H: tl.constexpr, W: tl.constexpr,
                 C: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    part = tl.program_id(0)
    top = tl.zeros((4 * C, 2 * C), tl.float32)
    middle = tl.zeros((4 * C, 2 * C), tl.float32)
    bottom = tl.zeros((4 * C, 2 * C), tl.float32)
    for step in tl.range(part * steps, (part + 1) * steps, num_stages=STAGES):
        tile = step // H
        row = step % H
        x = tl.trans(_load(x_ptr, tile, -1, row, images, H, W, C, BLOCK, 4))
        top = tl.dot(x, _load(grad_ptr, tile, 0, row + 1, images, H, W, C, BLOCK, 2), top)
        middle = tl.dot(x, _load(grad_ptr, tile, 0, row, images, H, W, C, BLOCK, 2), middle)
        bottom = tl.dot(x, _load(grad_ptr, tile, 0, row - 1, images, H, W, C, BLOCK, 2), bottom)
    offsets = tl.arange(0, 4 * C)[:, None] * (2 * C) + tl.arange(0, 2 * C)[None, :]
    partial_ptr += part * (24 * C * C)
    tl.store(partial_ptr + offsets, top)
    tl.store(partial_ptr + 8 * C * C + offsets, middle)
    tl.store(partial_ptr + 16 * C * C + offsets, bottom)
