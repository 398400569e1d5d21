"""``noisyteacher import``: teacher outputs as people have them, into a label store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyteacher.cli.common import (
    A_FILE,
    Json,
    Overwrite,
    TopClasses,
    json_line,
    say_first,
    say_next,
    verb,
)
from noisyteacher.core.errors import InputError, UnknownLabelsError, counted, first_few, warn

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


@verb
def import_labels(
    sources: Annotated[list[Path], {"exists": True}],
    out: Path,
    classes: str | None = None,
    ids: Annotated[Path | None, A_FILE] = None,
    id_column: str | None = None,
    label_column: str | None = None,
    confidence_column: str | None = None,
    list_column: str | None = None,
    int_ids: bool = False,
    logits: bool = False,
    temperature: float | None = None,
    teacher: str | None = None,
    revision: str | None = None,
    choices: str | None = None,
    answer_key: str | None = None,
    write_synonyms: Annotated[Path | None, {"dir_okay": False}] = None,
    allow_rejected: bool = False,
    skip_bad: bool = False,
    k: TopClasses = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Convert a teacher's outputs into a label store.

    Answers of an LLM: if there are log-probabilities, each class gets the probability of the tokens
    that name it, and the probability of all other answers is kept as missing mass. Otherwise the
    label is the class that the text names. Examples without a label are listed, with the reason, in
    a file next to the store that ends in .rejected.jsonl.

    Tables with one label per row: the label gets the probability in the confidence column, and the
    other classes share the rest. Without such a column, the label gets all of it. With --classes,
    the column may also hold whole answers of an LLM.

    Arguments:
        sources: The teacher's outputs: responses of an LLM in the format of OpenAI, Anthropic,
            Gemini, Ollama or a compatible server (.jsonl, or a folder of .json files); tables of
            probabilities or labels (.csv, .tsv, .jsonl, .parquet); or arrays (.npy, .npz).

    Output:
        out: The folder of the new label store.

    Columns, classes and images:
        classes: The class names, separated by commas, or a .json file with the names and their
            synonyms.
        ids: The ids of the rows: a .npy file, or a text file with one id per line.
        id_column: The column of a table, or the key of responses, that holds the ids (default: id
            or a similar name). Without such a column, give the ids with --ids.
        label_column: Tables with one label or answer per row: the column that holds it (default:
            label, prediction or a similar name).
        confidence_column: Tables with one label per row: the column that holds its probability,
            from 0 to 1 (default: confidence, probability or score).
        list_column: Tables: the column that holds a list with one value per class.
        int_ids: Read the ids as whole numbers, even if they are stored as text.

    Teacher:
        logits: The numbers are logits, not probabilities.
        temperature: The teacher's temperature. Logits are divided by it; otherwise it is only
            recorded in the store.
        teacher: The name of the teacher, recorded in the store.
        revision: The revision of the teacher, recorded in the store.

    Answers of an LLM:
        choices: For multiple-choice prompts whose options are the classes in order: the name of the
            first option (A, 1 or 0).
        answer_key: For answers in JSON: the key that holds the class (default: label, class or a
            similar name).
        write_synonyms: Write the most frequent answers that name no class to this .json file.
            Complete it and pass it as --classes.
        allow_rejected: Write the store even if more than a tenth of the answers name no class. In
            tables with one label per row: leave out rows whose label is not one of --classes.
        skip_bad: Skip lines that cannot be read instead of stopping at them.
    """
    say_first("Reading the teacher's outputs.", quiet=json)
    from noisyteacher.labels.importers import (
        ImportSettings,
        import_array,
        import_llm,
        import_table,
        parse_classes,
        read_ids,
        rejected_path,
    )
    from noisyteacher.labels.importers.answer_tables import answer_column
    from noisyteacher.labels.importers.llm_rows import RejectedList

    one_label = label_column is not None or confidence_column is not None
    names = None if classes is None else parse_classes(classes)
    files = _files(sources)
    kind, said_in = _kind(files, one_label, names), None
    if kind == "table" and names and confidence_column is None and list_column is None:
        columns = (answer_column(f, names, id_column, label_column) for f in files)
        said_in = next(filter(None, columns), None)
        kind = "table" if said_in is None else "answers"
    of_llm = (skip_bad, choices, answer_key, write_synonyms, allow_rejected and kind != "table")
    flags = ("--skip-bad", "--choices", "--answer-key", "--write-synonyms", "--allow-rejected")
    for flag, used in zip(flags, of_llm, strict=True):
        if used and kind != "answers":
            raise InputError(f"{flag} can only be used with answers of an LLM (.jsonl, .json).")
    if list_column is not None and kind != "table":
        raise InputError("--list-column can only be used with tables.")
    if one_label and kind != "table" and said_in is None:
        raise InputError("--label-column and --confidence-column can only be used with tables.")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; add --overwrite to replace it.")
    id_values = None if ids is None else read_ids(ids)
    settings = ImportSettings(logits, int_ids, k, teacher, revision, temperature)
    answers, left_out = None, 0
    if kind == "answers":
        if names is None:
            raise InputError(
                "Answers of an LLM need --classes, which names the answers to look for."
            )
        with _reading(files, quiet=json) as on_block:
            answers = import_llm(
                files,
                names,
                ids=id_values,
                id_column=id_column,
                label_column=said_in,
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
        if said_in is not None and label_column is None:
            warn(f"The column {said_in!r} holds the answers.")
    elif kind == "table":
        with (
            RejectedList(rejected_path(out) if allow_rejected else None) as listed,
            _with_way_out(allow_rejected),
        ):
            labels = import_table(
                files,
                ids=id_values,
                id_column=id_column,
                list_column=list_column,
                label_column=label_column,
                confidence_column=confidence_column,
                classes=names,
                off_list=listed if allow_rejected else None,
                settings=settings,
            )
            listed.commit()
            left_out = listed.lines
    else:
        given = None if names is None else tuple(names)
        labels = import_array(files[0], ids=id_values, classes=given, settings=settings)
    labels.save(out, overwrite=overwrite)
    if answers is None and not left_out:
        rejected_path(out).unlink(missing_ok=True)  # of the store that was replaced
    summary = _summary(out, labels, answers, left_out)
    # A table of labels has its own note of the classes that it found.
    found = kind == "table" and names is None and bool((labels.topk_logprob[:, 0] < 0).any())
    if json:
        typer.echo(json_line(summary))
    else:
        typer.echo(_in_words(summary))
        if found:
            told = f"The classes are those found in the table: {first_few(labels.classes, 10)}"
            typer.echo(f"{told}; use --classes to name them.")
        say_next("noisyteacher", "audit", out, "--gold", "GOLD")
    if summary.get("never_named"):
        warn(
            f"No answer names {first_few(summary['never_named'])}; if the LLM used other words for "
            "it, give them as synonyms in a .json file for --classes."
        )
    never = [name for name, count in summary["rows_per_class"].items() if not count]
    if found and never:
        warn(
            f"No row has its highest probability in {first_few(never)}; if that is not a class, "
            "name the classes with --classes."
        )


def _files(sources: list[Path]) -> list[Path]:
    """The files that are named, and those of answers in the folders."""
    from noisyteacher.io.formats import kind_of

    files: list[Path] = []
    for source in sources:
        if not source.is_dir():
            files.append(source)
            continue
        inside = sorted(p for p in source.rglob("*") if kind_of(p) in _ANSWER_FILES and p.is_file())
        if not inside:
            raise InputError(f"{source} contains no {', '.join(_ANSWER_FILES)} files.")
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
    found = {str(kind) for kind in kinds.values()}
    if len(found) > 1 or (found == {"array"} and len(files) > 1):
        raise InputError("Several files must be either all .jsonl files or all tables.")
    return found.pop()


@contextmanager
def _with_way_out(allow_rejected: bool) -> Iterator[None]:
    """Add to the error about labels that are no classes how to leave them out."""
    try:
        yield
    except UnknownLabelsError as error:
        if allow_rejected:
            raise
        told = f"{error} Use --allow-rejected to leave the rows with such labels out."
        raise InputError(told) from error


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
            display.update("Reading", done, total, line=f"{counted(count, 'line')}, {rate}")

        yield on_block


def _summary(
    out: Path, labels: TeacherLabels, answers: LlmImport | None, left_out: int
) -> dict[str, Any]:
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
    listed = rejected_path(out)
    if left_out:
        summary |= {"rejected": {"off-list": left_out}, "rejected_file": str(listed)}
    if answers is not None:
        summary |= {
            "lines": answers.lines,
            "understood": answers.rules,
            "hard_labels": int((labels.topk_logprob[:, 0] == 0).sum()),
            "several_answers": answers.repeated,
            "missing_mean": float(labels.missing.mean()),
            "missing_above_half": answers.mostly_missing,
            "rejected": answers.rejected,
            "bad_lines": answers.bad,
            "off_list_but_kept": answers.off_list,
            "unmatched": dict(list(answers.unmatched.items())[:_SHOWN]),
            "rejected_naming": answers.rejected_naming,
            "named_in_rejected": answers.named_in_rejected,
            "never_named": list(answers.never_named),
            "rejected_file": str(listed) if listed.exists() else None,
        }
    return summary


def _in_words(summary: dict[str, Any]) -> str:
    rows, per_class = summary["rows"], summary["rows_per_class"]
    top = sorted(per_class.items(), key=lambda item: -item[1])[:10]
    shares = ", ".join(f"{name} {count / rows:.1%}" for name, count in top)
    more = ", ..." if len(per_class) > len(top) else ""
    said = f"Wrote {rows} rows with {len(per_class)} classes to {summary['store']}."
    lines = [said, f"Most likely class: {shares}{more}."]
    if "lines" in summary:
        lines += _answers_in_words(summary)
    elif "rejected" in summary:
        count = summary["rejected"]["off-list"]
        lines.append(f"Rows left out because their label is not a class: {count}.")
    if summary.get("rejected_file"):
        lines.append(f"These examples are listed in {summary['rejected_file']}.")
    return "\n".join(lines)


def _answers_in_words(summary: dict[str, Any]) -> Iterator[str]:
    rules = ", ".join(f"{count} by {rule}" for rule, count in summary["understood"].items())
    yield f"Answers understood: {rules}." if rules else "No answer names a class in its text."
    count = summary["hard_labels"]
    if count and "logprobs" not in summary["understood"]:
        shown = f"{count} of {summary['rows']}"
        yield f"Hard labels (no log-probabilities, no stated confidence): {shown}."
    if count := summary["several_answers"]:
        yield f"Ids with several answers, whose mean is stored: {count}."
    mean, above = summary["missing_mean"], summary["missing_above_half"] / summary["rows"]
    yield f"Missing mass: {mean:.3f} on average, above 0.5 in {above:.1%} of the rows."
    reasons = summary["rejected"]
    if summary["bad_lines"]:
        reasons = {**reasons, "bad line": summary["bad_lines"]}
    if reasons:
        listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        yield f"Lines without a label: {sum(reasons.values())} of {summary['lines']} ({listed})."
    if summary["unmatched"]:
        common = ", ".join(f"{text!r} ({count})" for text, count in summary["unmatched"].items())
        yield f"Most frequent answers without a class: {common}."
    if count := summary["rejected_naming"]:
        told = "answer contains" if count == 1 else "answers contain"
        most = next(iter(summary["named_in_rejected"]))
        yield f"{count} rejected {told} the name of a class, most often {most!r}."
    if count := summary["off_list_but_kept"]:
        yield f"Answers without a class, labeled by their log-probabilities: {count}."
