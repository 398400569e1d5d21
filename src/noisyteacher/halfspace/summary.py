"""What the rows say: exponents beside the theory, the guarantee, and what it all does not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from noisyteacher.halfspace.consistency import SupportPoint, check_consistency
from noisyteacher.halfspace.measure import Exponent, Reached, fit_exponent
from noisyteacher.halfspace.study import Cell, Row, Study
from noisyteacher.halfspace.theory import PROVED

SYMBOLS = {"margin": "1/γ", "epsilon": "1/ε", "gap": "1/(1−2η)"}

CAVEATS = (
    "The theory bounds, from above and with large constants, the worst distribution with margin γ. "
    "These are a few distributions over a short range: an exponent below the theory's, or above "
    "it, is no contradiction, and one that meets it is no proof.",
    "near-margin changes with the problem (d ≈ 1/γ², a share 4ε of the points is rare): its "
    "exponents are those of a hard family, not of one distribution. The ball has d = 30 throughout "
    "and loses its hardest points as γ grows.",
    "'best' counts samples until some iterate is good, as the theorem does; 'last' asks the "
    "iterate of that moment. Neither counts the hold-out labels that find the good iterate.",
    "Where backward correction has a larger exponent than SLaM, look at its line with λ = η: the "
    "difference comes from the slack in λ, not from correcting backward. Its proved 1/γ⁴ is an "
    "upper bound, and nothing here shows that it must need as many.",
    "Plain logistic regression has no guarantee. It is quick where every point has the same margin "
    "(near-margin); on the ball it stops short, and on Long and Servedio's points (error figure) "
    "it ends with half of them wrong.",
)


@dataclass(frozen=True)
class ExponentRow:
    """One learner, one shape, one variable."""

    shape: str
    variable: str  # "margin", "epsilon" or "gap"
    learner: str
    best: Exponent | None
    last: Exponent | None
    proved: float | None


def reached(row: Row, which: str) -> Reached:
    """Read "best" or "last" of a samples row back."""
    return Reached(**row[which])


def sweep_rows(rows: Sequence[Row], cells: Sequence[Cell], learner: str) -> list[Row]:
    """The samples rows of these cells, in order, where they were run."""
    found = {
        (row["shape"], row["margin"], row["epsilon"], row["noise"]): row
        for row in rows
        if row["kind"] == "samples" and row["learner"] == learner
    }
    keys = [(cell.shape, cell.margin, cell.epsilon, cell.noise) for cell in cells]
    return [found[key] for key in keys if key in found]


def exponents(study: Study, rows: Sequence[Row]) -> list[ExponentRow]:
    """Fit every sweep of every learner."""
    fitted = []
    for shape in study.shapes:
        for variable, cells in study.sweeps(shape).items():
            for learner, proved in PROVED.items():
                chosen = sweep_rows(rows, cells, learner)
                values = [float(row[variable]) for row in chosen]
                best = fit_exponent(values, [reached(row, "best") for row in chosen])
                last = fit_exponent(values, [reached(row, "last") for row in chosen])
                fitted.append(ExponentRow(shape, variable, learner, best, last, proved[variable]))
    return fitted


def interval(exponent: Exponent | None) -> str:
    """``1.9 [1.7, 2.1]``, or a dash where fewer than three cells were reached."""
    if exponent is None:
        return "–"
    return f"{exponent.slope:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"


Lines = tuple[list[str], list[list[str]]]  # a table's header and its lines


@dataclass(frozen=True)
class Summary:
    """All that is printed after a study."""

    exponents: list[ExponentRow]
    guarantee: list[Row]
    consistency: list[Row]
    caveats: tuple[str, ...] = CAVEATS

    def rows(self) -> list[Row]:
        """What was derived from the measured rows, for machines."""
        return [{"kind": "exponent", **asdict(row)} for row in self.exponents] + self.consistency

    def tables(self) -> dict[str, Lines]:
        """Title -> header and lines."""
        return {
            "Exponents of the number of samples, with 95 % intervals": self._exponent_lines(),
            "SLaM: runs with an error of at most ε after T steps, a quarter of 1/((1−2η)γε)²":
                self._guarantee_lines(),
            "Is the truth the only minimiser of the population loss?": self._consistency_lines(),
        }  # fmt: skip

    def _exponent_lines(self) -> Lines:
        header = ["shape", "variable", "learner", "best iterate", "last iterate", "proved, at most"]
        return header, [
            [row.shape, SYMBOLS[row.variable], row.learner, interval(row.best), interval(row.last),
             "–" if row.proved is None else f"{row.proved:g}"]
            for row in self.exponents
        ]  # fmt: skip

    def _guarantee_lines(self) -> Lines:
        header = ["shape", "γ", "ε", "η", "T", "runs", "some iterate", "hold-out labels", "chosen"]
        return header, [
            [row["shape"], f"{row['margin']:g}", f"{row['epsilon']:g}", f"{row['noise']:g}",
             str(row["steps"]), str(row["runs"]), f"{100 * row['exists']:.1f} %",
             str(row["holdout"]), f"{100 * row['chosen']:.1f} %"]
            for row in self.guarantee
        ]  # fmt: skip

    def _consistency_lines(self) -> Lines:
        header = ["classes", "k", "α", "mix", "loss of the truth", "least loss", "answer"]
        return header, [
            [str(row["classes"]), str(row["k"]), f"{row['alpha']:g}", row["normalize"],
             f"{row['truth_loss']:.6f}", f"{row['loss']:.6f}", "yes" if row["holds"] else "no"]
            for row in self.consistency
        ]  # fmt: skip


def summarise(study: Study, rows: Sequence[Row]) -> Summary:
    """Fit the exponents and check the consistency proposition."""
    guarantee = [row for row in rows if row["kind"] == "guarantee"]
    return Summary(exponents(study, rows), guarantee, consistency_rows())


def consistency_rows() -> list[Row]:
    """The proposition just above and just below α = 1/k, and where its printed form fails."""
    cases = [(3, 2, 0.3), (3, 2, 0.6), (4, 3, 0.32), (4, 3, 0.35), (4, 4, 0.1), (4, 3, 0.6)]
    rows = []
    for classes, k, alpha in cases:
        for normalize in ("k-1", "none"):
            point = SupportPoint(truth=0, alpha=alpha, shortlist=tuple(range(k)))
            found = check_consistency([point], classes, normalize)
            rows.append({
                "kind": "consistency", "classes": classes, "k": k, "alpha": alpha,
                "normalize": normalize, "truth_loss": float(found.truth_loss[0]),
                "loss": float(found.loss[0]), "minimiser": found.minimiser[0].round(4).tolist(),
                "holds": found.holds,
            })  # fmt: skip
    return rows
