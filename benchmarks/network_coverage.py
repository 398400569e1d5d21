"""What ``distill`` states about a network, against its accuracy on test rows, on digits.

    python benchmarks/network_coverage.py --csv benchmarks/network_coverage.csv

Each draw of scikit-learn's digits gives 100 rows to a teacher (naive Bayes), 200 gold rows, a pool
of 700 and 797 test rows. ``distill`` trains small networks, judges them on a held-out fifth of the
gold rows, and states an accuracy with a 95% interval.
"""

from __future__ import annotations

import os
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import noisyteacher as nt
from measuring import parser_of, told, write_csv

TEACHER, GOLD, POOL = 100, 200, 700


def measure(seed: int) -> dict[str, object]:
    """One draw: stated and true accuracy in percent."""
    images, digits = load_digits(return_X_y=True)
    images, names = (images / 16).astype(np.float32), digits.astype(str)
    order = np.random.default_rng(seed).permutation(len(digits))
    cuts = np.cumsum([TEACHER, GOLD, POOL])
    own, gold, pool, test = np.split(order, cuts)
    teacher = GaussianNB(var_smoothing=1e-2).fit(images[own], digits[own])
    began = time.process_time()
    student = nt.distill(
        "mlp",
        gold=(gold, images[gold], names[gold]),
        pool=(pool, images[pool]),
        labels=teacher.predict_proba(images[np.concatenate([gold, pool])]),
        classes=[str(digit) for digit in range(10)],
        seed=seed,
    )
    seconds = time.process_time() - began
    stated, low, high = student.about["figures"]["student"]
    right = np.asarray(student.predict(images[test])) == names[test]
    return {
        "seed": seed,
        "accuracy": round(100 * np.mean(right), 2),
        "stated": stated,
        "low": low,
        "high": high,
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=40)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [told(measure(seed)) for seed in range(args.draws)]
    inside = sum(r["low"] <= r["accuracy"] <= r["high"] for r in rows)
    gaps = [r["stated"] - r["accuracy"] for r in rows]
    print(f"{inside} of {len(rows)} intervals contain the test accuracy; ", end="")
    print(f"stated minus test {np.mean(gaps):+.2f} ± {np.std(gaps, ddof=1) / len(gaps) ** 0.5:.2f}")
    write_csv(args.csv, rows)


if __name__ == "__main__":
    main()
