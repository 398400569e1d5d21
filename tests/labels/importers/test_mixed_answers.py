"""A file of every kind of answer in every provider's shape: what each row must become.

The id of a row in ``mixed.jsonl`` tells its kind, its class (``none``: it must have no label, or
the two of a pair) and a number.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from noisyteacher.core.errors import InputError
from noisyteacher.labels.importers import import_llm, parse_classes

MIXED = Path(__file__).parent / "fixtures" / "mixed.jsonl"
NEWS = parse_classes("World,Sports,Business,Sci/Tech")
KINDS = {
    "bare": 32,
    "json": 28,
    "confidence": 20,
    "think": 16,
    "marked": 20,
    "prose": 40,
    "several": 16,
    "probabilities": 8,
    "logprobs": 8,
}
REASONS = {
    "refused": 15,
    "negated": 24,
    "ambiguous": 18,
    "off-list": 39,
    "cut off": 6,
    "empty answer": 6,
    "error": 6,
}
SURE = {"confidence": 0.8, "several": 0.5, "probabilities": 0.8, "logprobs": 0.8}
RULES = {
    "class": 48,
    "JSON": 36,
    "prose": 48,
    "marked": 24,
    "several classes": 16,
    "probabilities": 8,
    "logprobs": 8,
}


def test_every_row_gets_what_its_answer_names(tmp_path: Path) -> None:
    rejected = tmp_path / "rejected.jsonl"
    done = import_llm([MIXED], NEWS, allow_rejected=True, rejected=rejected)
    assert done.lines == sum(KINDS.values()) + sum(REASONS.values()) >= 300
    kinds: Counter[str] = Counter()
    names = done.labels.classes
    for key, probs in zip(done.labels.ids.tolist(), done.labels.probs, strict=True):
        kind, expected = key.rsplit("/", 1)[0].split("/", 1)
        kinds[kind] += 1
        top = "+".join(sorted(names[i] for i in (probs == probs.max()).nonzero()[0]))
        assert top == expected, key
        sure = SURE.get(kind, 1.0)
        assert probs.max() == pytest.approx(sure, abs=1e-3), key
    assert kinds == KINDS
    assert done.rules == RULES
    assert done.rejected == REASONS
    for row in map(json.loads, rejected.read_text().splitlines()):
        assert row["id"].split("/")[0] == row["reason"], row
    with pytest.raises(InputError, match="93 of 281 answers name no class"):
        import_llm([MIXED], NEWS)


def test_the_text_that_was_asked_about_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id":"a","text":"Sports","gold":"World","mine":"World"}\n')
    with pytest.raises(InputError, match=r"may have its label under 'gold'.*--label-column"):
        import_llm([path], NEWS)
    path.write_text(
        '{"id":"a","text":"Sports","label":null}\n{"id":"b","text":"Sports","label":"World"}\n'
    )
    done = import_llm([path], NEWS, allow_rejected=True)
    assert (done.labels.ids.tolist(), done.rejected) == (["b"], {"empty answer": 1})
    path.write_text('{"id":"a","text":"x","label":"World","llm_label":"Sports"}\n')
    assert import_llm([path], NEWS).labels.hard.tolist() == [1]
