"""The paper's definitions written out plainly and exactly, to hold the fast code against."""

from fractions import Fraction


def step_fit(covariates, responses):
    """Knots and exact isotonic values, by pooling adjacent violators on fractions."""
    knots = sorted(set(covariates))
    blocks = []  # [sum of responses, number of responses, number of knots]
    for knot in knots:
        here = [r for c, r in zip(covariates, responses, strict=True) if c == knot]
        blocks.append([Fraction(sum(map(int, here))), len(here), 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    return knots, [total / n for total, n, width in blocks for _ in range(width)]


def step_value(knots, values, query):
    """The value at the smallest knot >= query, the last value beyond the end."""
    return next((v for c, v in zip(knots, values, strict=True) if c >= query), values[-1])


def order(row):
    """The classes of a row, most probable first, the lower index first in a tie."""
    return sorted(range(len(row)), key=lambda i: (-row[i], i))


def margins(row):
    """margin_1 to margin_(L-1)."""
    ranked = sorted(row, reverse=True)
    return [sum(ranked[:k]) - ranked[k] for k in range(1, len(row))]


def alpha_and_k(val, y, pool, *, lower_bound, threshold):
    """alpha(x) and k(x) the long way: one curve for every shortlist size."""
    by_size = zip(*map(margins, val), strict=True)
    rank = [order(row).index(truth) for row, truth in zip(val, y, strict=True)]
    curves = [step_fit(m, [r < k for r in rank]) for k, m in enumerate(by_size, start=1)]
    alphas, sizes = [], []
    for row in pool:
        at = [step_value(*c, m) for c, m in zip(curves, margins(row), strict=True)] + [1]
        alphas.append(max(float(at[0]), lower_bound))
        first = next(k for k, alpha in enumerate(at, start=1) if alpha >= threshold)
        sizes.append(max(2, first))
    return alphas, sizes
