"""The Triton kernels behind ``fused_norm``; importing this file needs Triton.

A channels_last activation is seen as a row-major (rows, C) matrix. Each pass of batch norm is two
kernels. The first cuts the rows among ``PARTS`` programs, and each writes its sums per channel to
its own row of a (2, PARTS, C) scratch. In the second, every program adds up those few rows itself
and then maps its share of the tensor, which saves a third launch and needs no atomics: results do
not depend on the order in which programs run. Every loop asks for its next tile before it works on
the one it has, so that memory is never idle.
"""

# triton.jit has no types, and the kernels' parameters are Triton's values, not Python's.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _columns(BLOCK_C: tl.constexpr):
    """The channels of this program, (BLOCK_C,)."""
    return tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)


@triton.jit
def _inside(tile, rows, C: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Which entries of a tile lie in the matrix, (BLOCK_R, BLOCK_C)."""
    row = tile * BLOCK_R + tl.arange(0, BLOCK_R)
    return (row < rows)[:, None] & (_columns(BLOCK_C) < C)[None, :]


@triton.jit
def _tile_pointers(matrix_ptr, tile, C: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Pointers to a tile, (BLOCK_R, BLOCK_C)."""
    # Only the start of the tile can pass 2**31 elements.
    start = tl.cast(tile, tl.int64) * (BLOCK_R * C)
    within = tl.arange(0, BLOCK_R)[:, None] * C + _columns(BLOCK_C)[None, :]
    return matrix_ptr + start + within


@triton.jit
def _load(matrix_ptr, tile, rows, C: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A tile in its own dtype, zero outside the matrix, (BLOCK_R, BLOCK_C)."""
    pointers = _tile_pointers(matrix_ptr, tile, C, BLOCK_R, BLOCK_C)
    return tl.load(pointers, mask=_inside(tile, rows, C, BLOCK_R, BLOCK_C), other=0.0)


@triton.jit
def _store(
    matrix_ptr, tile, value, rows, C: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr
):
    pointers = _tile_pointers(matrix_ptr, tile, C, BLOCK_R, BLOCK_C)
    inside = _inside(tile, rows, C, BLOCK_R, BLOCK_C)
    tl.store(pointers, value.to(matrix_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _load_channels(vector_ptr, C: tl.constexpr, BLOCK_C: tl.constexpr):
    """One float32 value per channel of this program, (BLOCK_C,)."""
    columns = _columns(BLOCK_C)
    return tl.load(vector_ptr + columns, mask=columns < C, other=0.0).to(tl.float32)


@triton.jit
def _store_channels(vector_ptr, value, C: tl.constexpr, BLOCK_C: tl.constexpr):
    columns = _columns(BLOCK_C)
    tl.store(vector_ptr + columns, value, mask=columns < C)


@triton.jit
def _store_part(partial_ptr, first, second, C: tl.constexpr, BLOCK_C: tl.constexpr):
    """Write this program's two numbers per channel to its row of the (2, PARTS, C) scratch."""
    part = tl.program_id(0)
    parts = tl.num_programs(0)
    _store_channels(partial_ptr + part * C, first, C, BLOCK_C)
    _store_channels(partial_ptr + (parts + part) * C, second, C, BLOCK_C)


@triton.jit
def _load_parts(partial_ptr, part, C: tl.constexpr, PARTS: tl.constexpr, BLOCK_C: tl.constexpr):
    """Some rows of both halves of the scratch; part (n,) -> (n, BLOCK_C) twice."""
    columns = _columns(BLOCK_C)[None, :]
    pointers = partial_ptr + part[:, None] * C + columns
    first = tl.load(pointers, mask=columns < C, other=0.0)
    second = tl.load(pointers + PARTS * C, mask=columns < C, other=0.0)
    return first, second


@triton.jit
def _rows_of(part, parts, rows, BLOCK_R: tl.constexpr):
    """How many rows a part has been given: every ``parts``-th tile, of which one may be cut."""
    tiles = tl.cdiv(rows, BLOCK_R)
    cut = tl.where((tiles - 1) % parts == part, tiles * BLOCK_R - rows, 0)
    return tl.cdiv(tiles - part, parts) * BLOCK_R - cut


@triton.jit
def _affine(weight_ptr, bias_ptr, inverse_std, C: tl.constexpr, BLOCK_C: tl.constexpr):
    """Scale and bias, (1, BLOCK_C) each: the norm is (x - mean) * scale + bias.

    The mean is not folded into the bias: a constant channel far from zero would come out noisy.
    """
    scale = _load_channels(weight_ptr, C, BLOCK_C) * inverse_std
    bias = _load_channels(bias_ptr, C, BLOCK_C)
    return scale[None, :], bias[None, :]


@triton.jit
def _activate(z, ACTIVATION: tl.constexpr):
    # Comparisons that fail for NaN keep it, so that a broken student is seen to be broken.
    if ACTIVATION != "none":
        z = tl.where(z < 0.0, 0.0, z)
    if ACTIVATION == "relu6":
        z = tl.where(z > 6.0, 6.0, z)
    return z


@triton.jit
def _through_activation(grad, z, ACTIVATION: tl.constexpr):
    """The gradient before the activation; ``z`` is its input or, as good, its output."""
    if ACTIVATION != "none":
        grad = tl.where(z <= 0.0, 0.0, grad)
    if ACTIVATION == "relu6":
        grad = tl.where(z >= 6.0, 0.0, grad)
    return grad


@triton.jit
def forward_sums(
    x_ptr, partial_ptr, rows, C: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr
):
    """The mean and the sum of squared deviations from it, per channel and part.

    In one pass, relative to a pivot p: E[(x-p)²] - (mean-p)². The pivot is the part's first row,
    which lies at most sqrt(n) standard deviations from the mean of its n rows, and mostly one or
    two. So float32 loses a factor of n in precision for the worst outlier, and next to nothing
    otherwise, however far from zero the mean is.
    """
    first = tl.program_id(0)
    step = tl.num_programs(0)
    x = _load(x_ptr, first, rows, C, BLOCK_R, BLOCK_C)
    pivot = _load_channels(x_ptr + tl.cast(first, tl.int64) * (BLOCK_R * C), C, BLOCK_C)
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    squares = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for tile in range(first, tl.cdiv(rows, BLOCK_R), step):
        shifted = x.to(tl.float32) - pivot[None, :]
        shifted = tl.where(_inside(tile, rows, C, BLOCK_R, BLOCK_C), shifted, 0.0)
        x = _load(x_ptr, tile + step, rows, C, BLOCK_R, BLOCK_C)
        total += shifted
        squares += shifted * shifted
    column_total = tl.sum(total, axis=0)
    shift = column_total / _rows_of(first, step, rows, BLOCK_R)
    deviations = tl.sum(squares, axis=0) - column_total * shift
    _store_part(partial_ptr, pivot + shift, deviations, C, BLOCK_C)


@triton.jit
def _join_moments(
    partial_ptr,
    rows,
    C: tl.constexpr,
    PARTS: tl.constexpr,
    PARTS_AT_ONCE: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Mean and biased variance of all rows from those of the parts, (BLOCK_C,) each."""
    # As above, relative to a pivot; this one is a mean, so the loss is a factor of PARTS at worst.
    pivot = _load_channels(partial_ptr, C, BLOCK_C)
    shifts = tl.zeros((PARTS_AT_ONCE, BLOCK_C), tl.float32)
    squares = tl.zeros((PARTS_AT_ONCE, BLOCK_C), tl.float32)
    for start in tl.static_range(0, PARTS, PARTS_AT_ONCE):
        part = start + tl.arange(0, PARTS_AT_ONCE)
        mean, deviations = _load_parts(partial_ptr, part, C, PARTS, BLOCK_C)
        weighted = (mean - pivot[None, :]) * _rows_of(part, PARTS, rows, BLOCK_R)[:, None]
        shifts += weighted
        squares += deviations + weighted * (mean - pivot[None, :])
    shift = tl.sum(shifts, axis=0) / rows
    variance = tl.sum(squares, axis=0) / rows - shift * shift
    # Rounding may leave a constant channel just below zero; NaN stays NaN.
    return pivot + shift, tl.where(variance < 0.0, 0.0, variance)


@triton.jit
def _join_sums(
    partial_ptr,
    C: tl.constexpr,
    PARTS: tl.constexpr,
    PARTS_AT_ONCE: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Both halves of the scratch added up over the parts, (BLOCK_C,) each."""
    firsts = tl.zeros((PARTS_AT_ONCE, BLOCK_C), tl.float32)
    seconds = tl.zeros((PARTS_AT_ONCE, BLOCK_C), tl.float32)
    for start in tl.static_range(0, PARTS, PARTS_AT_ONCE):
        part = start + tl.arange(0, PARTS_AT_ONCE)
        first, second = _load_parts(partial_ptr, part, C, PARTS, BLOCK_C)
        firsts += first
        seconds += second
    return tl.sum(firsts, axis=0), tl.sum(seconds, axis=0)


@triton.jit
def _update_running(
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    mean,
    unbiased,
    momentum,
    C: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    old_mean = _load_channels(running_mean_ptr, C, BLOCK_C)
    old_var = _load_channels(running_var_ptr, C, BLOCK_C)
    _store_channels(running_mean_ptr, (1.0 - momentum) * old_mean + momentum * mean, C, BLOCK_C)
    _store_channels(running_var_ptr, (1.0 - momentum) * old_var + momentum * unbiased, C, BLOCK_C)
    if batches_ptr is not None:  # noqa: SIM102
        if tl.program_id(1) == 0:
            tl.store(batches_ptr, tl.load(batches_ptr) + 1)


@triton.jit
def forward_apply(
    x_ptr,
    residual_ptr,
    y_ptr,
    weight_ptr,
    bias_ptr,
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    partial_ptr,
    stats_ptr,
    rows,
    momentum,
    eps,
    C: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PARTS: tl.constexpr,
    PARTS_AT_ONCE: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """y = act(weight * (x - mean) / std + bias + residual); also running stats and (2, C) stats."""
    first = tl.program_id(0)
    step = tl.num_programs(0)
    x = _load(x_ptr, first, rows, C, BLOCK_R, BLOCK_C)
    if residual_ptr is not None:
        residual = _load(residual_ptr, first, rows, C, BLOCK_R, BLOCK_C)

    mean, variance = _join_moments(partial_ptr, rows, C, PARTS, PARTS_AT_ONCE, BLOCK_R, BLOCK_C)
    inverse_std = 1.0 / tl.sqrt(variance + eps)
    if first == 0:
        _store_channels(stats_ptr, mean, C, BLOCK_C)
        _store_channels(stats_ptr + C, inverse_std, C, BLOCK_C)
        unbiased = variance * (rows / (rows - 1.0))
        _update_running(
            running_mean_ptr, running_var_ptr, batches_ptr, mean, unbiased, momentum, C, BLOCK_C
        )

    scale, bias = _affine(weight_ptr, bias_ptr, inverse_std, C, BLOCK_C)
    for tile in range(first, tl.cdiv(rows, BLOCK_R), step):
        z = (x.to(tl.float32) - mean[None, :]) * scale + bias
        x = _load(x_ptr, tile + step, rows, C, BLOCK_R, BLOCK_C)
        if residual_ptr is not None:
            z += residual.to(tl.float32)
            residual = _load(residual_ptr, tile + step, rows, C, BLOCK_R, BLOCK_C)
        _store(y_ptr, tile, _activate(z, ACTIVATION), rows, C, BLOCK_R, BLOCK_C)


@triton.jit
def backward_sums(
    grad_ptr,
    x_ptr,
    y_ptr,
    dz_ptr,
    weight_ptr,
    bias_ptr,
    stats_ptr,
    partial_ptr,
    rows,
    C: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Sums of dz and of dz * (x - mean), per channel and part; dz is grad before the activation.

    Where a residual was added (``y_ptr`` given) dz is read off y, and written, since it is the
    residual's gradient; otherwise x says where the activation was open, and y is not read.
    """
    first = tl.program_id(0)
    step = tl.num_programs(0)
    grad = _load(grad_ptr, first, rows, C, BLOCK_R, BLOCK_C)
    x = _load(x_ptr, first, rows, C, BLOCK_R, BLOCK_C)
    if y_ptr is not None:
        y = _load(y_ptr, first, rows, C, BLOCK_R, BLOCK_C)

    mean = _load_channels(stats_ptr, C, BLOCK_C)
    inverse_std = _load_channels(stats_ptr + C, C, BLOCK_C)
    scale, bias = _affine(weight_ptr, bias_ptr, inverse_std, C, BLOCK_C)
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    products = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for tile in range(first, tl.cdiv(rows, BLOCK_R), step):
        centred = x.to(tl.float32) - mean[None, :]
        if y_ptr is not None:
            dz = _through_activation(grad.to(tl.float32), y.to(tl.float32), ACTIVATION)
            _store(dz_ptr, tile, dz, rows, C, BLOCK_R, BLOCK_C)
            y = _load(y_ptr, tile + step, rows, C, BLOCK_R, BLOCK_C)
        else:
            dz = _through_activation(grad.to(tl.float32), centred * scale + bias, ACTIVATION)
        grad = _load(grad_ptr, tile + step, rows, C, BLOCK_R, BLOCK_C)
        x = _load(x_ptr, tile + step, rows, C, BLOCK_R, BLOCK_C)
        # Outside the matrix dz is zero, so what x is there does not matter.
        total += dz
        products += dz * centred
    _store_part(partial_ptr, tl.sum(total, axis=0), tl.sum(products, axis=0), C, BLOCK_C)


@triton.jit
def backward_apply(
    grad_ptr,
    x_ptr,
    dx_ptr,
    weight_ptr,
    bias_ptr,
    stats_ptr,
    partial_ptr,
    param_grads_ptr,
    rows,
    C: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PARTS: tl.constexpr,
    PARTS_AT_ONCE: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """dx = scale * (dz - mean(dz) - n * mean(dz * n)), and (2, C) gradients of weight and bias.

    n is x normalized. With ``ACTIVATION`` "none", ``grad_ptr`` already is dz.
    """
    first = tl.program_id(0)
    step = tl.num_programs(0)
    grad = _load(grad_ptr, first, rows, C, BLOCK_R, BLOCK_C)
    x = _load(x_ptr, first, rows, C, BLOCK_R, BLOCK_C)

    dz_sum, product_sum = _join_sums(partial_ptr, C, PARTS, PARTS_AT_ONCE, BLOCK_C)
    mean = _load_channels(stats_ptr, C, BLOCK_C)
    inverse_std = _load_channels(stats_ptr + C, C, BLOCK_C)
    weight_grad = product_sum * inverse_std
    if first == 0:
        _store_channels(param_grads_ptr, weight_grad, C, BLOCK_C)
        _store_channels(param_grads_ptr + C, dz_sum, C, BLOCK_C)

    scale, bias = _affine(weight_ptr, bias_ptr, inverse_std, C, BLOCK_C)
    slope = -scale * (weight_grad * inverse_std / rows)[None, :]
    offset = -scale * (dz_sum / rows)[None, :]
    for tile in range(first, tl.cdiv(rows, BLOCK_R), step):
        centred = x.to(tl.float32) - mean[None, :]
        dz = _through_activation(grad.to(tl.float32), centred * scale + bias, ACTIVATION)
        grad = _load(grad_ptr, tile + step, rows, C, BLOCK_R, BLOCK_C)
        x = _load(x_ptr, tile + step, rows, C, BLOCK_R, BLOCK_C)
        dx = scale * dz + (slope * centred + offset)
        _store(dx_ptr, tile, dx, rows, C, BLOCK_R, BLOCK_C)
