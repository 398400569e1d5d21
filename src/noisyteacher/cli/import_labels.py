"""``noisyteacher import``: teacher outputs as people have them, into a label store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyteacher.core.errors import InputError, first_few

if TYPE_CHECKING:
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.labels.importers import ClassAnswers, ImportSettings, LlmImport

EPILOG = """
**Example:** `noisyteacher import answers.jsonl --classes positive,negative --out labels`

**Example:** `noisyteacher import probs.npy --ids ids.txt --classes cat,dog --out labels`

**Example:** `noisyteacher import predictions.csv --label-column prediction --out labels`
"""


def import_labels(
    sources: Annotated[
        list[Path],
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="Teacher outputs: .npy or .npz arrays, .csv, .tsv or .parquet tables, or .jsonl "
            "answers of an LLM with logprobs (batch output, chat completions, vLLM). Tables of one "
            "label per row may be .jsonl too.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the new label store.")],
    classes: Annotated[
        str | None,
        typer.Option(help="Class names with commas between, or a .json file with synonyms."),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Ids of the rows: a .npy file, or text, one a line."
        ),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Tables: the column of ids (default: id).")
    ] = None,
    list_column: Annotated[
        str | None, typer.Option(help="Tables: the column of lists, one value per class.")
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(help="Tables of one label per row: its column (default: label and the like)."),
    ] = None,
    confidence_column: Annotated[
        str | None,
        typer.Option(
            help="Tables of one label per row: the column of its probability, 0 to 1 (default: "
            "confidence, probability or score)."
        ),
    ] = None,
    logits: Annotated[bool, typer.Option("--logits", help="The numbers are logits.")] = False,
    int_ids: Annotated[
        bool, typer.Option("--int-ids", help="Ids are whole numbers, also if written as text.")
    ] = False,
    k: Annotated[int | None, typer.Option(help="Classes to store per row (default: all).")] = None,
    teacher: Annotated[str | None, typer.Option(help="The teacher's name, for the record.")] = None,
    revision: Annotated[str | None, typer.Option(help="The teacher's revision.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Logits are divided by it; otherwise for the record.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on after lines that cannot be read.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the store.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Turn a teacher's outputs into a label store.

    Answers of an LLM: the probability of the first tokens goes to the classes whose answers they
    begin; what no class got is kept as missing mass. Examples that the LLM refused or answered
    off-list are listed beside the store, in a file that ends in .rejected.jsonl.

    Tables of one label per row: the label has the probability in the column of confidences, and
    the other classes share the rest; without such a column it has all.
    """
    import orjson

    from noisyteacher.labels.importers import (
        ImportSettings,
        import_array,
        import_table,
        parse_classes,
        read_ids,
        rejected_path,
    )

    one_label = label_column is not None or confidence_column is not None
    kind = _kind(sources, one_label)
    _check_options(kind, skip_bad, list_column, one_label)
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; --overwrite would replace it.")
    names = None if classes is None else parse_classes(classes)
    id_values = None if ids is None else read_ids(ids)
    settings = ImportSettings(logits, int_ids, k, teacher, revision, temperature)
    answers = None
    if kind == "answers":
        answers = _import_answers(sources, names, id_values, skip_bad, out, settings, quiet=json)
        labels = answers.labels
    elif kind == "table":
        labels = import_table(
            sources,
            ids=id_values,
            id_column=id_column,
            list_column=list_column,
            label_column=label_column,
            confidence_column=confidence_column,
            classes=names,
            settings=settings,
        )
    else:
        given = None if names is None else tuple(names)
        labels = import_array(sources[0], ids=id_values, classes=given, settings=settings)
    labels.save(out, overwrite=overwrite)
    if answers is None:
        rejected_path(out).unlink(missing_ok=True)  # of the store that was replaced
    summary = _summary(out, labels, answers)
    typer.echo(orjson.dumps(summary).decode() if json else _in_words(summary))


def _kind(sources: list[Path], one_label: bool) -> str:
    from noisyteacher.labels.importers.probability_files import OUTPUTS, kind_of_outputs

    kinds = {source: kind_of_outputs(source, labeled=one_label) for source in sources}
    unknown = [str(source) for source, kind in kinds.items() if kind is None]
    if unknown:
        raise InputError(f"{first_few(unknown)}: the name must end in one of {', '.join(OUTPUTS)}.")
    found = {kind for kind in kinds.values() if kind is not None}
    if len(found) > 1 or (found == {"array"} and len(sources) > 1):
        raise InputError("several files must all be .jsonl, or all tables.")
    return found.pop()


def _check_options(kind: str, skip_bad: bool, list_column: str | None, one_label: bool) -> None:
    if skip_bad and kind != "answers":
        raise InputError("--skip-bad is for an LLM's answers in .jsonl files only.")
    if list_column is not None and kind != "table":
        raise InputError("--list-column is for tables only.")
    if one_label and kind != "table":
        raise InputError("--label-column and --confidence-column are for tables only.")


def _import_answers(
    sources: list[Path],
    names: ClassAnswers | None,
    ids: Any,
    skip_bad: bool,
    out: Path,
    settings: ImportSettings,
    quiet: bool,
) -> LlmImport:
    from noisyteacher.core.progress import ProgressDisplay
    from noisyteacher.labels.importers import import_llm, rejected_path

    if names is None:
        raise InputError("answers of an LLM need --classes, to know which answers to look for.")
    total = sum(source.stat().st_size for source in sources)
    began, done, count = time.monotonic(), 0, 0
    with ProgressDisplay(quiet=quiet, in_bytes=True) as display:

        def on_block(size: int, lines: int) -> None:
            nonlocal done, count
            done, count = done + size, count + lines
            rate = f"{count / (time.monotonic() - began):.0f} a second"
            display.update("Reading", done, total, line=f"{count} lines, {rate}")

        return import_llm(
            sources,
            names,
            ids=ids,
            skip_bad=skip_bad,
            rejected=rejected_path(out),
            settings=settings,
            on_block=on_block,
        )


def _summary(out: Path, labels: TeacherLabels, answers: LlmImport | None) -> dict[str, Any]:
    import numpy as np

    from noisyteacher.labels.importers import rejected_path

    counts = np.bincount(labels.hard, minlength=labels.num_classes).tolist()
    summary: dict[str, Any] = {
        "store": str(out),
        "rows": len(labels),
        "classes": list(labels.classes),
        "rows_per_class": dict(zip(labels.classes, counts, strict=True)),
        "teacher": labels.teacher,
    }
    if answers is not None:
        listed = rejected_path(out)
        summary |= {
            "lines": answers.lines,
            "missing_mean": float(labels.missing.mean()),
            "missing_above_half": answers.mostly_missing,
            "rejected": answers.rejected,
            "bad_lines": answers.bad,
            "off_list_but_kept": answers.off_list,
            "never_named": list(answers.never_named),
            "rejected_file": str(listed) if listed.exists() else None,
        }
    return summary


def _in_words(summary: dict[str, Any]) -> str:
    rows, per_class = summary["rows"], summary["rows_per_class"]
    top = sorted(per_class.items(), key=lambda item: -item[1])[:10]
    shares = ", ".join(f"{name} {count / rows:.1%}" for name, count in top)
    more = ", ..." if len(per_class) > len(top) else ""
    lines = [f"{rows} rows, {len(per_class)} classes: {summary['store']}", f"{shares}{more}"]
    if "lines" not in summary:
        return "\n".join(lines)
    above = summary["missing_above_half"]
    lines.append(
        f"missing mass: {summary['missing_mean']:.3f} on average, "
        f"above 0.5 in {above} rows ({above / rows:.1%})"
    )
    reasons = dict(summary["rejected"])
    if summary["bad_lines"]:
        reasons["bad line"] = summary["bad_lines"]
    if reasons:
        listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        lines.append(f"{sum(reasons.values())} of {summary['lines']} lines have no label: {listed}")
    if summary["off_list_but_kept"]:
        lines.append(f"{summary['off_list_but_kept']} rows answered off-list, kept by their mass")
    if summary["rejected_file"]:
        lines.append(f"listed in {summary['rejected_file']}")
    if summary["never_named"]:
        lines.append(f"no answer names {first_few(summary['never_named'])}: is it spelled so?")
    return "\n".join(lines)
