"""Import speed: LLM answers with top-20 log-probabilities, against only parsing the same lines.

    python benchmarks/import_jsonl.py --lines 1000000 --csv benchmarks/import_jsonl.csv

The rivals do less: `json.loads` and `orjson.loads` of every line, nothing kept. The importer
parses, maps tokens to classes, checks ids and saves the store. All run in one process on one core,
and times are processor seconds, so that a busy machine does not count; wall seconds stand beside.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from measuring import this_machine, write_csv
from noisyteacher.labels.importers import import_llm, parse_classes, rejected_path

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


def write_lines(path: Path, lines: int, positions: int, seed: int = 0) -> None:
    rng = random.Random(seed)
    words = vocabulary(rng)
    pieces = [answer(rng, words, positions).split('"ID"') for _ in range(min(lines, DISTINCT))]
    with path.open("w") as file:
        for number in range(lines):
            before, after = pieces[number % len(pieces)]
            file.write(f'{before}"request-{number}"{after}')


def only_parse(path: Path, parse: Callable[[bytes], object]) -> int:
    lines = 0
    with path.open("rb") as file:
        for line in file:
            parse(line)
            lines += 1
    return lines


def import_and_save(path: Path, store: Path) -> int:
    done = import_llm([path], parse_classes(",".join(CLASSES)), rejected=rejected_path(store))
    done.labels.save(store, overwrite=True)
    return done.lines


def measured(path: Path, folder: Path) -> Iterator[dict[str, object]]:
    runs: dict[str, Callable[[], int]] = {
        "json.loads only": lambda: only_parse(path, json.loads),
        "orjson.loads only": lambda: only_parse(path, orjson.loads),
        "noisyteacher import": lambda: import_and_save(path, folder / "labels"),
    }
    floor = 0.0
    for name, run in runs.items():
        wall, cpu = time.perf_counter(), time.process_time()
        lines = run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if name.startswith("orjson"):
            floor = cpu
        yield {
            "program": name,
            "lines": lines,
            "bytes_per_line": round(path.stat().st_size / lines),
            "lines_per_second": round(lines / cpu),
            "lines_per_wall_second": round(lines / wall),
            "times_orjson_only": round(cpu / floor, 2) if floor else "",
            "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument(
        "--positions", type=int, nargs="+", default=[1], help="tokens per answer; 0: only the text"
    )
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "answers.jsonl"
        for positions in args.positions:
            write_lines(path, args.lines, positions)
            for row in measured(path, Path(name)):
                row = {"positions": positions, **row}
                print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
                rows.append(row | this_machine())
    write_csv(args.csv, rows)


if __name__ == "__main__":
    main()
