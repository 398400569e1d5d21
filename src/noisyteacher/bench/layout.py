"""Tables as Markdown and LaTeX, from the same cells."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Text:
    """One cell."""

    text: str = ""
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A title, column heads, rows of cells, and notes below."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    notes: tuple[str, ...] = ()

    def without_blank(self, name: str) -> Table:
        """Without the columns of this name, where nothing stands in any of them."""
        places = [i for i, head in enumerate(self.header) if head == name]
        if any(row[i].text for row in self.rows for i in places):
            return self
        kept = [i for i in range(len(self.header)) if i not in places]
        header = tuple(self.header[i] for i in kept)
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return replace(self, header=header, rows=rows)

    def markdown(self) -> str:
        head = [self.header, ("---", *("---:" for _ in self.header[1:]))]
        body = [tuple(_markdown(cell) for cell in row) for row in self.rows]
        grid = "\n".join("| " + " | ".join(row) + " |" for row in [*head, *body])
        return "\n\n".join([f"### {self.title}", grid, *self.notes]) + "\n"

    def latex(self) -> str:
        """A table environment; it needs booktabs and graphicx."""
        body = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in self.rows]
        notes = " ".join(escape_latex(note) for note in self.notes)
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{escape_latex(self.title)}. {notes}}}",
                r"\resizebox{\linewidth}{!}{%",
                rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}",
                r"\toprule",
                " & ".join(escape_latex(name) for name in self.header) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}}",
                r"\end{table}",
                "",
            ]
        )


def _markdown(cell: Text) -> str:
    plain = cell.text.replace("|", "\\|")
    return f"**{plain}**" if cell.bold else plain


def _latex(cell: Text) -> str:
    plain = escape_latex(cell.text)
    return rf"\textbf{{{plain}}}" if cell.bold else plain


_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "†": r"$\dagger$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    """Signs that LaTeX would read as commands, and those its fonts lack."""
    return re.sub("|".join(map(re.escape, _LATEX)), lambda found: _LATEX[found.group()], text)
