"""Files of LLM answers to labels: every shape of line, every way a file can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_lines import Place, batch_line, chat_body, plain_line
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyteacher.core.errors import InputError
from noisyteacher.io import formats
from noisyteacher.labels.importers import (
    ImportSettings,
    LlmImport,
    import_llm,
    parse_classes,
    with_synonyms,
)
from noisyteacher.labels.importers.answer_lines import LineReader
from noisyteacher.labels.importers.responses import without_later_positions

FIXTURES = Path(__file__).parent / "fixtures"
TWO = parse_classes("positive,negative")


def read(path: Path, **options: Any) -> LlmImport:
    classes = options.pop("classes", TWO)
    return import_llm([path], classes, **{"allow_rejected": True, **options})


def written(folder: Path, *lines: str, name: str = "answers.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def listed(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_batch_output(tmp_path: Path) -> None:
    rejected = tmp_path / "store.rejected.jsonl"
    done = read(FIXTURES / "openai_batch.jsonl", rejected=rejected)
    labels = done.labels
    assert labels.ids.tolist() == ["review-1", "review-2", "review-5"]
    assert labels.classes == ("positive", "negative")
    expected = [[0.8 / 0.95, 0.15 / 0.95], [0.3 / 0.84, 0.54 / 0.84], [1, 0]]
    np.testing.assert_allclose(labels.probs, expected, atol=5e-4)
    np.testing.assert_allclose(labels.missing, [0.05, 0.16, 0.9], atol=1e-6)
    assert labels.teacher == "some-llm"
    assert (done.lines, done.bad, done.off_list, done.mostly_missing) == (7, 0, 1, 1)
    assert done.rejected == {"refused": 1, "error": 2, "off-list": 1}
    assert done.never_named == ()
    found = {(row["id"], row["line"], row["reason"], row["kept"]) for row in listed(rejected)}
    assert found == {
        ("review-3", 3, "refused", False),
        ("review-4", 4, "error", False),
        ("review-5", 5, "off-list", True),
        ("review-6", 6, "off-list", False),
        ("review-7", 7, "error", False),
    }
    texts = {row["id"]: row["answer"] for row in listed(rejected)}
    assert texts["review-3"] == "I can't help with that."
    assert texts["review-4"] == "Rate limit reached."
    assert texts["review-5"] == "I am not sure."
    assert "expired" in texts["review-7"]


def test_plain_chat_completions() -> None:
    labels = read(FIXTURES / "chat.jsonl").labels
    assert labels.ids.tolist() == ["chatcmpl-a", "chatcmpl-b"]
    # The second answer begins with a quotation mark, of probability 0.9.
    mass = np.array([[0.2, 0.8], [0.9 * 0.8, 0.05 + 0.9 * 0.1]])
    np.testing.assert_allclose(labels.probs, mass / mass.sum(1, keepdims=True), atol=5e-4)
    np.testing.assert_allclose(labels.missing, 1 - mass.sum(1), atol=1e-6)


def test_completions() -> None:
    labels = read(FIXTURES / "vllm_completions.jsonl").labels
    # The second answer samples a token that is not among the top ones.
    mass = np.array([[0.7, 0.2], [0.8, 0.1 + 0.01]])
    np.testing.assert_allclose(labels.probs, mass / mass.sum(1, keepdims=True), atol=5e-4)
    np.testing.assert_allclose(labels.missing, 1 - mass.sum(1), atol=1e-6)
    assert labels.teacher == "some-open-llm"


def test_vllm_requests() -> None:
    done = read(FIXTURES / "vllm_requests.jsonl", classes=parse_classes("unsure,unhappy,happy"))
    mass = np.array([[0.6 * 0.3, 0.6 * 0.5, 0.3], [0, 0, 0.9]])
    np.testing.assert_allclose(done.labels.probs, mass / mass.sum(1, keepdims=True), atol=5e-4)
    np.testing.assert_allclose(done.labels.missing, 1 - mass.sum(1), atol=1e-6)
    assert done.labels.ids.tolist() == ["0", "1"]


def test_body_directly_under_response(tmp_path: Path) -> None:
    body = chat_body([("negative", {"negative": 0.75, "positive": 0.25})])
    path = written(tmp_path, json.dumps({"id": 7, "response": body}))
    labels = read(path).labels
    assert labels.ids.tolist() == [7]
    np.testing.assert_allclose(labels.probs, [[0.25, 0.75]], atol=5e-4)


def test_only_logprob_of_the_sampled_token(tmp_path: Path) -> None:
    body = chat_body([("negative", {"negative": 0.75})])
    body["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = []
    done = read(written(tmp_path, json.dumps(body)))
    np.testing.assert_allclose(done.labels.missing, [0.25], atol=1e-6)
    assert done.never_named == ("positive",)


def test_several_files_and_line_numbers(tmp_path: Path) -> None:
    first = written(tmp_path, plain_line("a", 0.6, 0.4), plain_line("b", 0.5, 0.4), name="1.jsonl")
    second = written(tmp_path, "", plain_line("c", 0.1, 0.9), name="2.jsonl")
    assert import_llm([first, second], TWO).labels.ids.tolist() == ["a", "b", "c"]
    again = written(
        tmp_path, "", plain_line("c", 0.1, 0.9), plain_line("a", 0.1, 0.9), name="3.jsonl"
    )
    done = import_llm([first, again], TWO)
    assert (done.labels.ids.tolist(), done.repeated) == (["a", "b", "c"], 1)
    np.testing.assert_allclose(done.labels.probs[0], [0.35, 0.65], atol=1e-3)


def test_a_retried_example_may_stand_twice_if_only_one_has_a_label(tmp_path: Path) -> None:
    failed = json.dumps({"custom_id": "a", "response": None, "error": {"message": "try again"}})
    done = read(written(tmp_path, failed, plain_line("a", 0.6, 0.4)))
    assert done.labels.ids.tolist() == ["a"]
    assert done.rejected == {"error": 1}


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "end"])
def test_line_endings_and_byte_order_mark(
    tmp_path: Path, ending: str, mark: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_BLOCK_BYTES", 100)  # many blocks, cut within lines
    found = [plain_line("a", 0.6, 0.4), "", plain_line("b", 0.3, 0.7), plain_line("é", 0.2, 0.8)]
    path = tmp_path / "answers.jsonl"
    path.write_bytes((mark + ending.join(found) + (ending if last else "")).encode())
    assert read(path).labels.ids.tolist() == ["a", "b", "é"]
    path.write_bytes((mark + ending.join([*found, "{"]) + (ending if last else "")).encode())
    with pytest.raises(InputError, match="line 5 is not JSON"):
        read(path)


def test_utf16_is_named(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(plain_line("a", 0.6, 0.4), encoding="utf-16")
    with pytest.raises(InputError, match="UTF-16"):
        read(path)


@pytest.mark.parametrize("content", ["", "\n", "\n\n", "\ufeff"])
def test_empty_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=r"answers.jsonl is empty\."):
        read(path)


BAD_LINES = {
    "no JSON": ('{"custom_id": "x", ', "is not JSON"),
    "text": ('"positive"', "is not a JSON object"),
    "a request": (
        '{"custom_id": "x", "body": {"messages": []}}',
        "holds no answer of a known shape; its keys are 'custom_id', 'body'",
    ),
    "no id": (
        json.dumps(chat_body([("positive", {"positive": 0.9})]) | {"id": None}),
        "no custom_id",
    ),
    "a list as id": (
        json.dumps(chat_body([("positive", {"positive": 0.9})]) | {"id": [1]}),
        "no custom",
    ),
    "null token": (plain_line("x", 0.6, 0.4).replace('"positive"', "null"), "known shape"),
    "text logprob": (plain_line("x", 1.0, 0.5).replace(": 0.0", ': "0"'), "known shape"),
    "logits": (plain_line("x", 50.0, 0.5), "a probability of 50.5 together"),
    "huge logits": (plain_line("x", 1.0, 0.5).replace(": 0.0", ": 1e5"), "known shape"),
}


@pytest.mark.parametrize(("line", "problem"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_stops_or_is_listed(tmp_path: Path, line: str, problem: str) -> None:
    path = written(tmp_path, plain_line("a", 0.6, 0.4), line, plain_line("b", 0.3, 0.7))
    rejected = tmp_path / "store.rejected.jsonl"
    with pytest.raises(InputError, match=rf"line 2 .*{problem}.*skip_bad=True \(--skip-bad\)"):
        read(path, rejected=rejected)
    assert [p.name for p in tmp_path.iterdir()] == ["answers.jsonl"]
    done = read(path, rejected=rejected, skip_bad=True)
    assert done.labels.ids.tolist() == ["a", "b"]
    assert (done.bad, done.lines, done.rejected) == (1, 3, {})
    (entry,) = listed(rejected)
    assert entry["line"] == 2
    assert problem in entry["reason"]


def test_ids_from_a_file_belong_to_lines(tmp_path: Path) -> None:
    lines = [plain_line("x", 0.6, 0.4), "{", "", plain_line("x", 0.3, 0.7)]
    path = written(tmp_path, *lines)
    done = read(path, ids=np.array(["a", "b", "c"]), skip_bad=True)
    assert done.labels.ids.tolist() == ["a", "c"]
    assert read(path, ids=np.array([4, 5, 6]), skip_bad=True).labels.ids.tolist() == [4, 6]
    with pytest.raises(InputError, match="4 ids were given for 3 answers"):
        read(path, ids=np.arange(4), skip_bad=True)
    with pytest.raises(InputError, match="2 ids were given, but there are more"):
        read(path, ids=np.arange(2), skip_bad=True)


def test_whole_number_ids(tmp_path: Path) -> None:
    path = written(tmp_path, plain_line("17", 0.6, 0.4), plain_line("-3", 0.3, 0.7))
    settings = ImportSettings(int_ids=True)
    assert read(path).labels.ids.tolist() == ["17", "-3"]
    assert read(path, settings=settings).labels.ids.tolist() == [17, -3]
    path = written(tmp_path, plain_line("17", 0.6, 0.4), plain_line("x3", 0.3, 0.7))
    with pytest.raises(InputError, match="the ids 'x3' are not whole numbers"):
        read(path, settings=settings)
    path = written(tmp_path, plain_line("7", 0.6, 0.4), plain_line("07", 0.3, 0.7))
    done = read(path, settings=settings)
    assert (done.labels.ids.tolist(), done.repeated) == ([7], 1)


def test_ids_of_two_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [plain_line("a", 0.6, 0.4), plain_line("a", 0.6, 0.4).replace('"a"', "5")]
    path = written(tmp_path, *lines)
    with pytest.raises(InputError, match="all strings or all integers"):
        read(path)
    monkeypatch.setattr(formats, "_BLOCK_BYTES", 100)
    with pytest.raises(InputError, match="all strings or all integers"):
        read(path)


def test_nothing_usable_is_an_error_that_says_why(tmp_path: Path) -> None:
    path = written(tmp_path, batch_line("a", [("Mixed", {"Mixed": 0.9})]))
    with pytest.raises(InputError, match=r"1 × off-list\)\. .*'positive', 'negative'; .*'Mixed'"):
        read(path)
    body = chat_body([("positive", {"positive": 1.0})])
    body["choices"][0]["logprobs"] = None
    done = read(written(tmp_path, json.dumps(body)))
    assert (done.labels.probs.tolist(), done.rules) == ([[1, 0]], {"class": 1})


@pytest.mark.parametrize("shape", ["plain", "chat"])
def test_the_user_names_the_key_of_the_ids(tmp_path: Path, shape: str) -> None:
    message = {"choices": [{"message": {"content": "positive"}}]}
    answer = {"answer": "positive"} if shape == "plain" else message
    lines = [json.dumps({"id": f"chatcmpl-{uid}", "uid": uid, **answer}) for uid in (7, 8)]
    path = written(tmp_path, *lines)
    assert read(path).labels.ids.tolist() == ["chatcmpl-7", "chatcmpl-8"]
    assert read(path, id_column="uid").labels.ids.tolist() == [7, 8]
    with pytest.raises(InputError, match=r"answers\.jsonl, line 1 has no key 'key' for its id\."):
        read(path, id_column="key")
    with pytest.raises(InputError, match="line 3 is not JSON"):
        read(written(tmp_path, *lines, "{"), id_column="uid")


def test_answers_that_are_options_get_a_hint(tmp_path: Path) -> None:
    lines = [json.dumps({"id": name, "answer": option}) for name, option in ("aB", "bA")]
    with pytest.raises(InputError, match=r"name the first option: .*\(--choices A, 1 or 0\)\."):
        read(written(tmp_path, *lines))
    with pytest.raises(InputError, match=r"the answers are 'B', 'Mixed'\.$"):
        read(written(tmp_path, lines[0], '{"id": "c", "answer": "Mixed"}'))


def test_answers_without_positions(tmp_path: Path) -> None:
    silent = chat_body([]) | {"id": "silent"}
    filtered = chat_body([]) | {"id": "filtered"}
    filtered["choices"][0] |= {"finish_reason": "content_filter", "logprobs": None}
    cut = batch_line("cut", [(" ", {" ": 0.5})])
    path = written(tmp_path, *map(json.dumps, (silent, filtered)), cut, plain_line("a", 0.5, 0.5))
    assert read(path).rejected == {"empty answer": 1, "refused": 1, "cut off": 1}


def test_synonyms_and_settings(tmp_path: Path) -> None:
    path = written(tmp_path, batch_line("a", [("B", {"B": 0.5, "A": 0.25})]))
    classes = with_synonyms({"World": ("A",), "Sports": ("B",), "Business": ("C",)})
    settings = ImportSettings(k=1, teacher="me", revision="2", temperature=1.0)
    labels = read(path, classes=classes, settings=settings).labels
    assert labels.hard.tolist() == [1]
    assert (labels.k, labels.teacher, labels.revision) == (1, "me", "2")
    with pytest.raises(InputError, match="cannot be used with answers of an LLM"):
        read(path, settings=ImportSettings(logits=True))


@pytest.mark.parametrize("shape", ["plain rows", "chat completions", "mixed rows"])
@pytest.mark.parametrize("model", [{"name": "x"}, ["x"], 7, None])
def test_a_model_that_is_no_text_has_no_name(tmp_path: Path, shape: str, model: Any) -> None:
    row: dict[str, Any] = {"answer": "positive", "model": model}
    if shape == "chat completions":
        row = {**chat_body([("positive", {"positive": 1.0})]), "model": model}
    rows = [{**row, "id": str(number)} for number in range(3)]
    if shape == "mixed rows":
        rows[1]["answer"] = ["negative"]
    labels = read(written(tmp_path, *map(json.dumps, rows))).labels
    assert labels.ids.tolist() == ["0", "1", "2"]
    assert labels.teacher is None


@pytest.mark.parametrize("refusal", [True, 7, ["no"], {"reason": "no"}])
def test_a_refusal_that_is_no_text_is_listed(tmp_path: Path, refusal: Any) -> None:
    rejected = tmp_path / "store.rejected.jsonl"
    refused = chat_body([]) | {"id": "refused"}
    refused["choices"][0]["message"]["refusal"] = refusal
    path = written(tmp_path, json.dumps(refused), plain_line("a", 0.5, 0.5))
    assert read(path, rejected=rejected).rejected == {"refused": 1}
    assert json.loads(listed(rejected)[0]["answer"]) == refusal


def test_an_import_without_rejections_removes_the_old_list(tmp_path: Path) -> None:
    rejected = tmp_path / "store.rejected.jsonl"
    rejected.write_text("{}\n")
    read(written(tmp_path, plain_line("a", 0.5, 0.5)), rejected=rejected)
    assert not rejected.exists()


def test_progress_counts_every_byte_and_line(tmp_path: Path) -> None:
    path = written(tmp_path, *(plain_line(str(i), 0.5, 0.5) for i in range(500)))
    seen: list[tuple[int, int]] = []
    read(path, on_block=lambda size, lines: seen.append((size, lines)))
    assert len(seen) > 1
    assert tuple(map(sum, zip(*seen, strict=True))) == (path.stat().st_size, 500)


TOKENS = ["positive", "neg", "ative", '}]}, {"token":', "}]}]", '"', "\\", "x"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=4), st.booleans())
def test_leaving_later_positions_out_changes_nothing(tokens: list[str], compact: bool) -> None:
    places: list[Place] = [
        (t, {t: 0.5, "negative": 0.25} | {w: 0.01 for w in TOKENS if w != t}) for t in tokens
    ]
    line = batch_line("a", places, compact).encode()
    whole = LineReader(TWO)
    quick = LineReader(TWO)
    quick._shortest = 1
    expected, found = whole._read_all(line), quick.read(line)
    assert found[0].id == expected[0].id == "a"
    assert found[1] == pytest.approx(expected[1])
    assert found[2:] == expected[2:]


def test_later_positions_are_left_out() -> None:
    places: list[Place] = [
        ("positive", {"positive": 0.5}),
        (".", {".": 0.5, "!": 0.1}),
        ("*", {"*": 1.0}),
    ]
    for compact in (False, True):
        line = batch_line("a", places, compact).encode()
        shorter = without_later_positions(line)
        assert shorter is not None
        assert (
            json.loads(shorter)["response"]["body"]["choices"][0]["logprobs"]["content"]
            == (json.loads(line)["response"]["body"]["choices"][0]["logprobs"]["content"][:1])
        )
        assert without_later_positions(shorter) is None
        reader = LineReader(TWO)
        first, second = reader.read(line), reader.read(line)
        assert reader._shortest == len(shorter)
        assert first[1:] == second[1:] == ([0.5, 0.0], "logprobs", (0,))
