"""Import speed: the commonest files of answers, against only parsing the same lines.

    python benchmarks/import_jsonl.py --csv benchmarks/import_jsonl.csv

Each shape: chat completions with top-20 log-probabilities (one or five tokens an answer), a batch
without, a batch of Anthropic's, and rows of an id with a label or with probabilities. The rivals do
less: `json.loads` and `orjson.loads` of every line, nothing kept. The importer parses, finds the
classes, checks ids and saves the store. All run on one core, each shape in a process of its own, as
an import does: in memory that other shapes have used, ids lie scattered. Times are processor
seconds, the best of `--repeats` in turns, so that a busy machine counts little.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson

from measuring import parser_of, told, write_csv
from noisyteacher.labels.importers import (
    import_llm,
    import_table,
    parse_classes,
    rejected_path,
)
from noisyteacher.labels.importers.probability_files import kind_of_outputs

CLASSES = ("positive", "negative", "neutral")
TOP = 20
DISTINCT = 2_000  # different answers; the lines repeat them with ids of their own


def vocabulary(rng: random.Random, size: int = 5_000) -> list[str]:
    """Tokens as a model has them: mostly words that are no answer."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [
        " " * rng.getrandbits(1) + "".join(rng.choices(letters, k=rng.randint(1, 8)))
        for _ in range(size)
    ]


def position(rng: random.Random, words: list[str], first: str) -> dict[str, object]:
    """One position: the sampled token on top, other spellings of the classes and words below."""
    spellings = [w for c in CLASSES for w in (c, f" {c}", c.capitalize(), c[:3])]
    # Few words are frequent at one place of one prompt, many are rare.
    drawn = [words[int(len(words) * rng.random() ** 4)] for _ in range(3 * TOP)]
    others = [token for token in rng.sample(spellings, 7) + drawn if token != first]
    tokens = [first, *dict.fromkeys(others)][:TOP]
    below = sorted((-rng.expovariate(0.15) - 0.5 for _ in tokens[1:]), reverse=True)
    scores = [0.0, *below]
    total = math.log(sum(map(math.exp, scores)) * 1.0005)
    top = [
        {"token": token, "logprob": score - total, "bytes": list(token.encode())}
        for token, score in zip(tokens, scores, strict=True)
    ]
    return {**top[0], "top_logprobs": top}


def answer(rng: random.Random, words: list[str], positions: int) -> str:
    """A batch-output line with a place for the id; 1 in 50 answers off-list, 1 in 50 in pieces."""
    kind, label = rng.random(), rng.choice(CLASSES)
    sampled = [label.capitalize()] + ["."] * (positions - 1)  # 0 positions: no log-probabilities
    if kind < 0.02:
        sampled[0] = "Sorry"
    elif kind < 0.04:
        sampled = [label[:3], label[3:], *sampled[2:]]
    content = [position(rng, words, token) for token in sampled]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "".join(sampled), "refusal": None},
        "logprobs": {"content": content, "refusal": None} if positions else None,
        "finish_reason": "stop",
    }
    body = {
        "id": f"chatcmpl-{rng.getrandbits(120):030x}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "some-model",
        "choices": [choice],
        "usage": {"prompt_tokens": 140, "completion_tokens": positions, "total_tokens": 141},
        "system_fingerprint": "fp_0000000000",
    }
    response = {"status_code": 200, "request_id": f"{rng.getrandbits(128):032x}", "body": body}
    line = {"id": "batch_req", "custom_id": "ID", "response": response, "error": None}
    return json.dumps(line) + "\n"


def anthropic(rng: random.Random, _: list[str]) -> str:
    """A line of a message batch with a place for the id."""
    message = {
        "id": f"msg_{rng.getrandbits(96):024x}",
        "type": "message",
        "role": "assistant",
        "model": "some-model",
        "content": [{"type": "text", "text": rng.choice(CLASSES).capitalize()}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 140, "output_tokens": 4, "service_tier": "batch"},
    }
    line = {"custom_id": "ID", "result": {"type": "succeeded", "message": message}}
    return json.dumps(line) + "\n"


def plain(rng: random.Random, _: list[str]) -> str:
    """An id and a label."""
    return json.dumps({"id": "ID", "label": rng.choice(CLASSES).capitalize()}) + "\n"


def probabilities(rng: random.Random, _: list[str]) -> str:
    """An id and the probability of each class."""
    drawn = [rng.expovariate(1) for _ in CLASSES]
    shares = {name: round(x / sum(drawn), 4) for name, x in zip(CLASSES, drawn, strict=True)}
    return json.dumps({"id": "ID", "probs": shares}) + "\n"


def write_lines(path: Path, lines: int, shape: str, seed: int = 0) -> None:
    rng = random.Random(seed)
    words = vocabulary(rng)
    make, _ = SHAPES[shape]
    pieces = [make(rng, words).split('"ID"') for _ in range(min(lines, DISTINCT))]
    with path.open("w") as file:
        for number in range(lines):
            before, after = pieces[number % len(pieces)]
            file.write(f'{before}"request-{number}"{after}')


# What makes a line, and the share of the lines that each shape gets.
SHAPES: dict[str, tuple[Callable[[random.Random, list[str]], str], float]] = {
    "chat, logprobs": (partial(answer, positions=1), 0.2),
    "chat, logprobs of 5 tokens": (partial(answer, positions=5), 0.1),
    "batch": (partial(answer, positions=0), 1.0),
    "Anthropic batch": (anthropic, 1.0),
    "id and label": (plain, 1.0),
    "id and probabilities": (probabilities, 1.0),
}


def only_parse(path: Path, parse: Callable[[bytes], object]) -> int:
    lines = 0
    with path.open("rb") as file:
        for line in file:
            parse(line)
            lines += 1
    return lines


def import_and_save(path: Path, store: Path) -> int:
    classes = parse_classes(",".join(CLASSES))
    if kind_of_outputs(path, classes=classes) == "table":
        labels = import_table([path], classes=classes)
        lines = len(labels)
    else:
        done = import_llm([path], classes, rejected=rejected_path(store))
        labels, lines = done.labels, done.lines
    labels.save(store, overwrite=True)
    return lines


def measured(path: Path, folder: Path, repeats: int) -> list[dict[str, object]]:
    runs: dict[str, Callable[[], int]] = {
        "json.loads only": lambda: only_parse(path, json.loads),
        "orjson.loads only": lambda: only_parse(path, orjson.loads),
        "noisyteacher import": lambda: import_and_save(path, folder / "labels"),
    }
    best = dict.fromkeys(runs, math.inf)
    lines = 0
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.process_time()
            lines = run()
            best[name] = min(best[name], time.process_time() - began)
    return [
        {
            "program": name,
            "lines": lines,
            "bytes_per_line": round(path.stat().st_size / lines),
            "lines_per_second": round(lines / seconds),
            "times_orjson_only": round(seconds / best["orjson.loads only"], 2),
            "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }
        for name, seconds in best.items()
    ]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000, help="with log-probabilities fewer")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "answers.jsonl"
        for shape in args.shapes:
            write_lines(path, round(args.lines * SHAPES[shape][1]), shape)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                of_shape = pool.apply(measured, (path, Path(name), args.repeats))
            rows += [told({"shape": shape, **row}) for row in of_shape]
    write_csv(args.csv, rows)


if __name__ == "__main__":
    main()
