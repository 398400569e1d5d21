"""Tables and the figure of the decision benchmark, made from its rows.

    python benchmarks/decision_tables.py results/decisions

writes ``README.md`` and ``accuracy.svg`` (and ``.png``) beside the rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as student_t

from decisions import ALTERNATIVES, GOLD_SIZES, key, read_rows
from noisyteacher.bench.figures import save_figure

Rows = list[dict[str, Any]]
NAMES = {
    "teacher": "the teacher",
    "gold": "logistic regression on gold labels",
    "hard labels": "logistic regression on teacher labels",
    "both": "logistic regression on both",
    "CleanLearning": "cleanlab's CleanLearning on both",
    "self-training": "scikit-learn's self-training, no teacher",
    "ours": "noisyteacher",
}
SIMULATED = "favors-a-class"
# The list that the goal for regret names; the blend also holds forward correction.
SINGLE = ("GoldOnly()", "Vanilla(hard=True)", "TaylorCE(2)", "SLaM()", "SelfTraining()")
# Data sets with a folder and a section of their own: title, folder, what to know.
SEPARATE = (
    (
        "Many classes",
        "banking77",
        "banking77 consists of short questions in 77 classes (`--only banking77 --seeds 1 --out "
        "results/decisions/banking77`; the run was stopped before 50 gold rows).",
    ),
    (
        "Long texts",
        "imdb",
        "imdb consists of 8 982 movie reviews (`--only imdb --seeds 1 --out "
        "results/decisions/imdb`). The encoder reads only the first 256 tokens of each. Models "
        "that read the words of whole reviews are more accurate "
        "([results](../RESULTS.md#a-zero-shot-teacher-of-imdb)), but here all students use the "
        "encoder's features.",
    ),
)
INTRODUCTION = """# The decision benchmark: the student that `distill` returns

This benchmark compares the student that `distill` returns with five alternatives, and checks the
accuracy that `distill` states. Every cell is one decision: a data set, a teacher, a number of gold
rows and a seed.

- **Features.** Texts are embedded by a frozen sentence encoder (all-MiniLM-L6-v2, 384 numbers per
  text), and every student is linear on the same features. `distill --student embeddings` is not
  used here, because it would add TF-IDF features that the alternatives do not have.
- **Rows.** Gold, pool (at most 5 000) and test rows (at least 2 000 if the data set is large
  enough) are drawn from all rows of a data set. No teacher was trained on any of them.
- **Teachers.** They are zero-shot sentence similarity, naive Bayes trained on about 100 other rows,
  a list of keywords, and a teacher that is simulated from the true labels: it is right on 72 to
  79 % of the rows and favors one class when it is wrong.
- **Seconds** are processor time, partly measured while other programs were running.

The rows in this folder were made by

```
python benchmarks/decisions.py --data DIR --only trec emotion irony sst2 digits wine breast_cancer
python benchmarks/decision_tables.py results/decisions
```

with two more seeds for 50 gold rows (`--seeds 5`). `banking77` and `imdb` have their own sections
below.
"""


def join_rows(folder: Path, suffix: str = "") -> Rows:
    """Rows of cells that have both ours and the alternatives."""
    others = {key(r): r["alternatives"] for r in read_rows(folder / f"alternatives{suffix}.jsonl")}
    ours = read_rows(folder / f"rows{suffix}.jsonl")
    return [row | {"alternatives": others[key(row)]} for row in ours if key(row) in others]


def accuracy(row: dict[str, Any], name: str) -> float:
    if name == "ours":
        return float(row["accuracy"])
    if name == "teacher":
        return float(row["teacher_accuracy"])
    return float(row["alternatives"].get(name, np.nan))


def fixed_regret(row: dict[str, Any]) -> float:
    """How far the returned student is behind the best of the five fixed students in hindsight."""
    return float(max(row["candidates"][name] for name in SINGLE) - row["accuracy"])


def candidate_regret(row: dict[str, Any]) -> float:
    """The same against every student in the blend."""
    return float(max(row["candidates"].values()) - row["accuracy"])


def regret(row: dict[str, Any]) -> float:
    """The same against the alternatives too."""
    return max(candidate_regret(row), behind(row))


def behind(row: dict[str, Any]) -> float:
    """How far the returned student is behind the best alternative in hindsight."""
    return float(max(row["alternatives"].values()) - row["accuracy"])


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = "|" + "---|" * len(head)
    return "\n".join(["| " + " | ".join(line) + " |" for line in (head, *lines)]).replace(
        "|\n", f"|\n{rule}\n", 1
    )


def with_interval(rows: Rows, of: Callable[[dict[str, Any]], float]) -> str:
    """Mean over cells with a 95 % interval over draws.

    The teachers of a data set and seed share gold and test rows, so cells of one draw are not
    independent: the standard error is the cluster-robust one, with Student's t.
    """
    found = [(row["dataset"], row["seed"], value) for row in rows if np.isfinite(value := of(row))]
    center = np.mean([value for *_, value in found])
    draws: dict[tuple[str, int], float] = {}
    for dataset, seed, value in found:
        draws[dataset, seed] = draws.get((dataset, seed), 0.0) + value - center
    count = len(draws)
    if count < 2:
        return f"{center:+.1f}"
    error = np.sqrt(count / (count - 1) * np.sum(np.square([*draws.values()]))) / len(found)
    return f"{center:+.1f} ± {student_t.ppf(0.975, count - 1) * error:.1f}"


def by_size(rows: Rows, title: str, lines: dict[str, Callable[[Rows], str]]) -> str:
    """A table with a column for each number of gold rows."""
    parts = [[row for row in rows if row["gold"] == size] for size in GOLD_SIZES]
    head = [title, *(f"{size} gold rows" for size in GOLD_SIZES)]
    return table(head, [[name, *(of(p) if p else "" for p in parts)] for name, of in lines.items()])


def count(part: Rows) -> str:
    return str(len(part))


def accuracy_table(rows: Rows) -> str:
    lines = {"cells": count}
    for name, text in NAMES.items():
        bold = "**" if name == "ours" else ""
        lines[f"{bold}{text}{bold}"] = lambda part, name=name, bold=bold: (
            f"{bold}{np.nanmean([accuracy(r, name) for r in part]):.1f}{bold}"
        )
    return by_size(rows, "mean test accuracy, %", lines)


def lead_table(rows: Rows) -> str:
    def over(name: str, part: Rows) -> str:
        return with_interval(part, lambda row: accuracy(row, "ours") - accuracy(row, name))

    def over_gold_without_simulated(part: Rows) -> str:
        real = [row for row in part if row["teacher"] != SIMULATED]
        return over("gold", real) if real else ""

    lines = {NAMES[name]: partial(over, name) for name in ("teacher", *ALTERNATIVES)}
    lines[f"{NAMES['gold']}, without the simulated teacher"] = over_gold_without_simulated
    return by_size(rows, "noisyteacher minus", lines)


def honesty_table(rows: Rows) -> str:
    def covered(row: dict[str, Any]) -> float:
        return 100 * (row["stated"][1] <= row["accuracy"] <= row["stated"][2])

    def close(row: dict[str, Any]) -> float:
        return 100 * (behind(row) <= 0.5)

    def stated(row: dict[str, Any]) -> float:
        return float(row["stated"][0] - row["accuracy"])

    lines: dict[str, Callable[[Rows], str]] = {
        "mean regret, best of five fixed students": lambda p: f"{mean(p, fixed_regret):+.2f}",
        "with forward correction too": lambda p: f"{mean(p, candidate_regret):+.2f}",
        "with the alternatives too": lambda p: f"{mean(p, regret):+.2f}",
        "within 0.5 points of the best alternative": lambda p: f"{mean(p, close):.0f} %",
        "stated minus test accuracy": lambda p: with_interval(p, stated),
        "intervals that contain the test accuracy": lambda p: f"{mean(p, covered):.0f} %",
        "seconds of one core": lambda p: f"{mean(p, lambda row: row['seconds']):.1f}",
    }
    return by_size(rows, "", lines)


def better_table(rows: Rows) -> str:
    """In how many cells which alternative is the best, and ahead by more than half a point."""

    def best(name: str, part: Rows) -> str:
        ahead = [row["alternatives"] for row in part if behind(row) > 0.5]
        return str(sum(max(found, key=found.get) == name for found in ahead))

    lines = {"cells": count} | {NAMES[name]: partial(best, name) for name in ALTERNATIVES}
    return by_size(rows, "best alternative, if > 0.5 points better", lines)


def mean(part: Rows, of: Callable[[dict[str, Any]], float]) -> float:
    return float(np.mean([of(row) for row in part]))


def set_table(rows: Rows) -> str:
    head = ["data set (classes)", "teacher", "cells", *(NAMES[n] for n in (*ALTERNATIVES, "ours"))]
    lines = []
    for dataset, teacher in sorted({(row["dataset"], row["teacher"]) for row in rows}):
        part = [r for r in rows if (r["dataset"], r["teacher"]) == (dataset, teacher)]
        found = [np.nanmean([accuracy(r, n) for r in part]) for n in (*ALTERNATIVES, "ours")]
        best = np.nanmax(found)
        lines.append(
            [
                f"{dataset} ({part[0]['classes']})",
                f"{teacher}, {mean(part, lambda r: r['teacher_accuracy']):.1f}",
                str(len(part)),
                *(f"**{v:.1f}**" if v == best else f"{v:.1f}" for v in found),
            ]
        )
    return table(head, lines)


def draw(rows: Rows, path: Path) -> None:
    """Mean accuracy against gold rows, over the sets that have cells at every size."""
    whole = {row["dataset"] for row in rows if row["gold"] == GOLD_SIZES[-1]}
    rows = [row for row in rows if row["dataset"] in whole]
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    styles = {
        "teacher": ("0.5", ":", ""),
        "gold": ("#1b6ca8", "-", "o"),
        "both": ("#b0722b", "-", "^"),
    }
    styles |= {"CleanLearning": ("#7a5195", "-", "s"), "self-training": ("#2f855a", "-", "D")}
    styles |= {"hard labels": ("#c05621", "--", "v"), "ours": ("#c2185b", "-", "o")}
    for name, (color, line, marker) in styles.items():
        y = [
            np.nanmean([accuracy(r, name) for r in rows if r["gold"] == size])
            for size in GOLD_SIZES
        ]
        width = 2.6 if name == "ours" else 1.4
        axes.plot(
            GOLD_SIZES, y, line, color=color, marker=marker, lw=width, ms=5, label=NAMES[name]
        )
    axes.set_xscale("log")
    axes.set_xticks(GOLD_SIZES, [f"{size:,}".replace(",", " ") for size in GOLD_SIZES])
    axes.minorticks_off()
    axes.set_xlabel("gold rows")
    axes.set_ylabel("mean test accuracy, %")
    axes.grid(alpha=0.25)
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
    save_figure(figure, path)


def render(folder: Path) -> str:
    rows = join_rows(folder)
    seeds = [len({r["seed"] for r in rows if r["gold"] == size}) for size in GOLD_SIZES]
    told = f"{min(seeds)} seeds" + (
        f" ({max(seeds)} with {GOLD_SIZES[0]} gold rows)" if max(seeds) > min(seeds) else ""
    )
    text = [INTRODUCTION]
    text.append(
        f"There are {len(rows)} cells with {told}. Means are over cells. The 95 % intervals are "
        "over draws of rows from a data set, because all teachers share the rows of a draw.\n"
    )
    text.append(accuracy_table(rows) + "\n")
    text.append("![Accuracy against gold rows](accuracy.svg)\n")
    text.append("The figure leaves out the data sets that are too small for 1 000 gold rows.\n")
    text.append("## Paired differences\n\n" + lead_table(rows) + "\n")
    text.append(
        "## The choice of the student\n\n"
        "Regret is the accuracy of the best student in hindsight minus that of the returned one. "
        "The first line compares with five students that were fixed beforehand: gold only, hard "
        "labels, Taylor-CE, SLaM and self-training, each with the regularization strength of the "
        "lowest out-of-fold log-loss. For these, the goal was a regret of at most 0.3 at every "
        "size. The second line adds forward correction, which the blend also contains, and the "
        "third line adds the alternatives.\n\n" + honesty_table(rows) + "\n"
    )
    close = np.mean([behind(row) <= 0.5 for row in rows])
    text.append(
        "## Where an alternative is better\n\n"
        f"In {100 * close:.1f} % of the cells, the returned student is better than the best of the "
        "five alternatives or at most 0.5 points worse; the goal was 85 %. The best alternative is "
        "known only in hindsight: on average, each of them is worse at every size. The table "
        "counts the cells in which an alternative is more than 0.5 points better, by the best "
        "alternative.\n\n" + better_table(rows) + "\n"
    )
    text.append(
        "## By data set and teacher\n\nMeans over gold sizes and seeds.\n\n" + set_table(rows)
    )
    for title, name, words in SEPARATE:
        apart = join_rows(folder / name)
        if apart:
            text.append(
                f"\n## {title}\n\n{words} The {len(apart)} cells share one draw of rows, so "
                "differences have no interval. These cells are in no other table.\n\n"
                + accuracy_table(apart)
                + "\n\n"
                + honesty_table(apart)
                + "\n\n"
                + set_table(apart)
            )
    official = join_rows(folder, "-official")
    if official:
        text.append(
            "\n## Official test rows\n\n"
            "Here, the gold rows and the pool are drawn from the training part of a data set, and "
            "the test rows are its official ones. This was done for the texts only (`--official "
            f"--seeds 1 --only trec emotion irony sst2`). There are {len(official)} cells with "
            f"{len({row['seed'] for row in official})} seed, so the cells of a data set share one "
            "draw. The stated accuracy holds for rows drawn like the gold rows; the test rows of "
            "TREC and irony are drawn differently.\n\n"
            + accuracy_table(official)
            + "\n\n"
            + honesty_table(official)
        )
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    (folder / "README.md").write_text(render(folder))
    draw(join_rows(folder), folder / "accuracy")


if __name__ == "__main__":
    main()
