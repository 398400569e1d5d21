"""``noisyteacher import``: teacher outputs as people have them, into a label store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyteacher.core.errors import InputError, first_few, warn

if TYPE_CHECKING:
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.labels.importers import ClassAnswers, LlmImport

_ANSWER_FILES = (".jsonl", ".ndjson", ".json")
_LOOKED_AT = 20
_SHOWN = 6

EPILOG = """
**Example:** `noisyteacher import answers.jsonl --classes positive,negative --out labels`

**Example:** `noisyteacher import responses/ --classes classes.json --choices A --out labels`

**Example:** `noisyteacher import probs.npy --ids ids.txt --classes cat,dog --out labels`

**Example:** `noisyteacher import predictions.csv --label-column prediction --out labels`
"""


def import_labels(
    sources: Annotated[
        list[Path],
        typer.Argument(
            exists=True,
            help="Teacher outputs: answers of an LLM as OpenAI, Anthropic, Gemini, Ollama or a "
            "compatible server give them (.jsonl, or a folder of .json files); .csv, .tsv, .jsonl "
            "or .parquet tables of probabilities or labels; .npy or .npz arrays.",
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
    choices: Annotated[
        str | None,
        typer.Option(
            help="Answers: the first option of a multiple-choice prompt, A, 1 or 0, where the "
            "options are the classes in their order."
        ),
    ] = None,
    answer_key: Annotated[
        str | None,
        typer.Option(help="Answers in JSON: the key of the class (default: label and the like)."),
    ] = None,
    write_synonyms: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Answers: write the most frequent ones that name no class to this .json file, to "
            "be filled in and given as --classes.",
        ),
    ] = None,
    allow_rejected: Annotated[
        bool,
        typer.Option(
            "--allow-rejected",
            help="Answers: make a store even if more than a tenth of them name no class.",
        ),
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on after lines that cannot be read.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the store.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Turn a teacher's outputs into a label store.

    Answers of an LLM: with log-probabilities, those of the tokens that name a class are its
    probability, and what no class got is kept as missing mass; otherwise the class that the text
    names is the label. Examples without a label are listed with the reason beside the store, in a
    file that ends in .rejected.jsonl.

    Tables of one label per row: the label has the probability in the column of confidences, and
    the other classes share the rest; without such a column it has all.
    """
    import orjson

    from noisyteacher.labels.importers import (
        ImportSettings,
        import_array,
        import_llm,
        import_table,
        parse_classes,
        read_ids,
        rejected_path,
    )

    one_label = label_column is not None or confidence_column is not None
    names = None if classes is None else parse_classes(classes)
    files = _files(sources)
    kind = _kind(files, one_label, names)
    if kind != "answers":
        _only_for_answers(
            skip_bad=skip_bad,
            choices=choices,
            answer_key=answer_key,
            write_synonyms=write_synonyms,
            allow_rejected=allow_rejected,
        )
    _check_options(kind, list_column, one_label)
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; --overwrite would replace it.")
    id_values = None if ids is None else read_ids(ids)
    settings = ImportSettings(logits, int_ids, k, teacher, revision, temperature)
    answers = None
    if kind == "answers":
        if names is None:
            raise InputError("answers of an LLM need --classes, to know which answers to look for.")
        with _reading(files, quiet=json) as on_block:
            answers = import_llm(
                files,
                names,
                ids=id_values,
                choices=choices,
                answer_key=answer_key,
                skip_bad=skip_bad,
                allow_rejected=allow_rejected,
                rejected=rejected_path(out),
                synonyms=write_synonyms,
                settings=settings,
                on_block=on_block,
            )
        labels = answers.labels
    elif kind == "table":
        labels = import_table(
            files,
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
        labels = import_array(files[0], ids=id_values, classes=given, settings=settings)
    labels.save(out, overwrite=overwrite)
    if answers is None:
        rejected_path(out).unlink(missing_ok=True)  # of the store that was replaced
    summary = _summary(out, labels, answers)
    typer.echo(orjson.dumps(summary).decode() if json else _in_words(summary))
    if summary.get("never_named"):
        warn(
            f"No answer names {first_few(summary['never_named'])}; if the LLM used other words for "
            "it, give them as synonyms in a .json file for --classes."
        )


def _files(sources: list[Path]) -> list[Path]:
    """The files that are named, and those of answers in the folders."""
    from noisyteacher.io.formats import kind_of

    files: list[Path] = []
    for source in sources:
        if not source.is_dir():
            files.append(source)
            continue
        inside = sorted(path for path in source.rglob("*") if kind_of(path) in _ANSWER_FILES)
        if not inside:
            raise InputError(f"{source} holds no files {', '.join(_ANSWER_FILES)}.")
        files += inside
    return files


def _kind(files: list[Path], one_label: bool, names: ClassAnswers | None) -> str:
    from noisyteacher.io.formats import kind_of
    from noisyteacher.labels.importers.probability_files import OUTPUTS, kind_of_outputs

    # A folder may hold thousands of files of one kind; the first few tell it.
    some = files[:_LOOKED_AT] + [file for file in files[_LOOKED_AT:] if kind_of(file) != ".json"]
    kinds = {file: kind_of_outputs(file, labeled=one_label, classes=names) for file in some}
    unknown = [str(file) for file, kind in kinds.items() if kind is None]
    if unknown:
        raise InputError(f"{first_few(unknown)}: the name must end in one of {', '.join(OUTPUTS)}.")
    found = {kind for kind in kinds.values() if kind is not None}
    if len(found) > 1 or (found == {"array"} and len(files) > 1):
        raise InputError("several files must all be .jsonl, or all tables.")
    return found.pop()


def _only_for_answers(**options: object) -> None:
    for name, value in options.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is for an LLM's answers in .jsonl or .json files only.")


def _check_options(kind: str, list_column: str | None, one_label: bool) -> None:
    if list_column is not None and kind != "table":
        raise InputError("--list-column is for tables only.")
    if one_label and kind != "table":
        raise InputError("--label-column and --confidence-column are for tables only.")


@contextmanager
def _reading(files: list[Path], quiet: bool) -> Iterator[Callable[[int, int], None]]:
    from noisyteacher.core.progress import ProgressDisplay

    total = sum(file.stat().st_size for file in files)
    began, done, count = time.monotonic(), 0, 0
    with ProgressDisplay(quiet=quiet, in_bytes=True) as display:

        def on_block(size: int, lines: int) -> None:
            nonlocal done, count
            done, count = done + size, count + lines
            rate = f"{count / (time.monotonic() - began):.0f} a second"
            display.update("Reading", done, total, line=f"{count} lines, {rate}")

        yield on_block


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
            "understood": answers.rules,
            "several_answers": answers.repeated,
            "missing_mean": float(labels.missing.mean()),
            "missing_above_half": answers.mostly_missing,
            "rejected": answers.rejected,
            "bad_lines": answers.bad,
            "off_list_but_kept": answers.off_list,
            "unmatched": dict(list(answers.unmatched.items())[:_SHOWN]),
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
    rules = ", ".join(f"{count} by {rule}" for rule, count in summary["understood"].items())
    lines.append(f"understood: {rules}" if rules else "no answer names a class by its text")
    if "logprobs" not in summary["understood"]:
        lines.append("no log-probabilities: labels without a stated confidence are hard")
    if summary["several_answers"]:
        lines.append(f"{summary['several_answers']} ids have several answers; their shares count")
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
    if summary["unmatched"]:
        common = ", ".join(f"{text!r} ({count})" for text, count in summary["unmatched"].items())
        lines.append(f"most frequent answers without a class: {common}")
    if summary["off_list_but_kept"]:
        lines.append(f"{summary['off_list_but_kept']} rows answered off-list, kept by their mass")
    if summary["rejected_file"]:
        lines.append(f"listed in {summary['rejected_file']}")
    return "\n".join(lines)
