"""Files as providers write them: what is read from each, and that the examples are what they say.

The examples are checked with the types of the providers' own packages where those are installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisyteacher.core.errors import InputError
from noisyteacher.labels.importers import LlmImport, import_llm, import_table, parse_classes
from noisyteacher.labels.importers.probability_files import kind_of_outputs
from noisyteacher.labels.importers.responses import BadLineError, read_response

FIXTURES = Path(__file__).parent / "fixtures"
NEWS = parse_classes("World,Sports,Business,Sci/Tech")
NAMES = tuple(NEWS)


def rows_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / name).read_text().splitlines()]


def read(name: str, **options: Any) -> LlmImport:
    return import_llm([FIXTURES / name], NEWS, allow_rejected=True, **options)


# Each file: its labels by id, the rows without one by reason, and the rules.
EXPECTED: dict[str, tuple[dict[str, str], dict[str, int], dict[str, int]]] = {
    "openai_chat.jsonl": (
        {
            "chatcmpl-1": "Sports",
            "chatcmpl-2": "World",
            "chatcmpl-3": "Sci/Tech",
            "chatcmpl-5": "Business",
            "chatcmpl-6": "Business",
        },
        {"refused": 1},
        {"class": 2, "JSON": 2, "prose": 1},
    ),
    "openai_batch_text.jsonl": (
        {"news-1": "Sports", "news-2": "Sci/Tech", "news-3": "World"},
        {"error": 2, "refused": 1},
        {"class": 3},
    ),
    "openai_json_logprobs.jsonl": (
        {"news-1": "Sports", "news-2": "Sci/Tech"},
        {},
        {"logprobs": 2},
    ),
    "openai_responses.jsonl": (
        {"resp_1": "Sports", "resp_2": "World", "resp_5": "Business", "news-7": "Sci/Tech"},
        {"refused": 1, "error": 1, "cut off": 1},
        {"class": 2, "logprobs": 1, "JSON": 1},
    ),
    "anthropic_messages.jsonl": (
        {"msg_01": "Sports", "msg_02": "Business", "msg_03": "Sci/Tech", "msg_05": "World"},
        {"refused": 1},
        {"class": 2, "JSON": 1, "prose": 1},
    ),
    "anthropic_batch.jsonl": (
        {"news-1": "Sports", "news-2": "World"},
        {"error": 3, "refused": 1},
        {"class": 2},
    ),
    "gemini.jsonl": (
        {"r-1": "Sports", "r-2": "World", "r-3": "Business", "r-6": "Sci/Tech"},
        {"refused": 2},
        {"class": 2, "logprobs": 1, "JSON": 1},
    ),
    "gemini_batch.jsonl": (
        {"news-1": "Sports", "news-2": "World"},
        {"error": 1, "refused": 1},
        {"class": 1, "JSON": 1},
    ),
    "ollama_chat.jsonl": (
        {"news-1": "Sports", "news-2": "Business", "news-3": "World", "news-4": "Sci/Tech"},
        {"error": 1},
        {"class": 2, "JSON": 1, "logprobs": 1},
    ),
    "plain.jsonl": (
        {
            "news-1": "Sports",
            "news-2": "World",
            "news-3": "Sci/Tech",
            "news-4": "Business",
            "news-5": "Business",
            "news-6": "World",
            "news-7": "Sports",
            "news-8": "World",
        },
        {"error": 1},
        {"class": 6, "prose": 1, "JSON": 2},
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_labels_of_each_file(name: str) -> None:
    labels, rejected, rules = EXPECTED[name]
    done = read(name)
    found = zip(done.labels.ids.tolist(), done.labels.hard.tolist(), strict=True)
    assert {key: NAMES[number] for key, number in found} == labels
    assert (done.rejected, done.rules) == (rejected, rules)


def test_names_of_the_models() -> None:
    assert read("openai_chat.jsonl").labels.teacher == "gpt-4o-mini-2024-07-18"
    assert read("anthropic_batch.jsonl").labels.teacher == "claude-sonnet-4-5-20250929"
    assert read("gemini_batch.jsonl").labels.teacher == "gemini-2.5-flash"


def test_the_logprobs_of_a_value_in_json_count() -> None:
    labels = read("openai_json_logprobs.jsonl").labels
    expected = [[0.2, 0.7, 0.1, 0], [0.1, 0, 0.3, 0.6]]
    np.testing.assert_allclose(labels.probs, expected, atol=1e-3)
    np.testing.assert_allclose(labels.missing, [0, 0], atol=1e-5)


def test_logprobs_of_other_providers() -> None:
    probs = read("gemini.jsonl").labels.probs
    np.testing.assert_allclose(probs[1], [0.75, 0.25, 0, 0], atol=1e-3)
    probs = read("ollama_chat.jsonl").labels.probs
    np.testing.assert_allclose(probs[3], [0.1, 0, 0, 0.9], atol=1e-3)


def test_several_answers_become_shares() -> None:
    probs = read("openai_chat.jsonl").labels.probs
    np.testing.assert_allclose(probs[-1], [0.25, 0, 0.75, 0], atol=1e-3)
    done = read("plain.jsonl")
    np.testing.assert_allclose(done.labels.probs[-2], [0.25, 0.75, 0, 0], atol=1e-3)
    np.testing.assert_allclose(done.labels.probs[-1], [0.5, 0.5, 0, 0], atol=1e-3)
    assert done.repeated == 1


def test_a_stated_confidence_is_the_margin() -> None:
    probs = read("plain.jsonl").labels.probs
    np.testing.assert_allclose(probs[4], [0.2 / 3, 0.2 / 3, 0.8, 0.2 / 3], atol=1e-3)
    probs = read("anthropic_messages.jsonl").labels.probs
    np.testing.assert_allclose(probs[2], [0.2 / 3, 0.2 / 3, 0.2 / 3, 0.8], atol=1e-3)


def test_answers_without_logprobs_are_hard_labels() -> None:
    labels = read("openai_batch_text.jsonl").labels
    assert labels.probs.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert labels.missing.tolist() == [0, 0, 0]


def test_responses_without_ids_take_them_from_a_file() -> None:
    with pytest.raises(
        InputError, match=r"has no custom_id or id .* \(id_column= .* ids= \(--ids\) gives"
    ):
        read("ollama_generate.jsonl")
    done = read("ollama_generate.jsonl", ids=np.array(["a", "b", "c"]))
    assert (done.labels.ids.tolist(), done.labels.hard.tolist()) == (["a", "b"], [1, 0])
    assert done.rejected == {"cut off": 1}


def test_options_of_a_prompt() -> None:
    done = read("choices.jsonl", choices="A")
    assert done.labels.hard.tolist() == [1, 0, 2, 3]
    assert done.rules == {"choice": 4}
    with pytest.raises(InputError, match="3 of 4 answers name no class"):
        import_llm([FIXTURES / "choices.jsonl"], NEWS)


def test_options_with_logprobs(tmp_path: Path) -> None:
    tokens = [{"token": token, "logprob": p} for token, p in (("B", -0.105361), ("A", -2.302585))]
    content = [{**tokens[0], "top_logprobs": tokens}]
    choice = {"message": {"content": "B"}, "logprobs": {"content": content}}
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"id": "a", "choices": [choice]}) + "\n")
    done = import_llm([path], NEWS, choices="A")
    np.testing.assert_allclose(done.labels.probs, [[0.1, 0.9, 0, 0]], atol=1e-3)
    assert done.rules == {"logprobs": 1}


@pytest.mark.parametrize("name", ["probs_object.jsonl", "probs_list.jsonl", "probs_columns.jsonl"])
def test_probabilities_in_json_lines(name: str) -> None:
    path = FIXTURES / name
    assert kind_of_outputs(path, classes=NEWS) == "table"
    assert kind_of_outputs(path) == "table"
    labels = import_table([path], classes=NEWS)
    expected = [[0.1, 0.9, 0, 0], [0.5, 0, 0.25, 0.25]]
    np.testing.assert_allclose(labels.probs, expected, atol=1e-3)
    assert (labels.classes, labels.ids.tolist()) == (NAMES, ["news-1", "news-2"])
    assert import_table([path]).num_classes == 4


def test_probabilities_as_json_in_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('id,probs\na,"{""dog"": 0.75, ""cat"": 0.25}"\nb,"{""cat"": 1}"\n')
    labels = import_table([path], classes=parse_classes("cat,dog"))
    np.testing.assert_allclose(labels.probs, [[0.25, 0.75], [1, 0]], atol=1e-3)
    with pytest.raises(InputError, match="no column for the classes 'bird'"):
        import_table([path], classes=parse_classes("cat,bird"))


def test_columns_are_compared_as_answers_are(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,sci_tech,WORLD\na,0.75,0.25\n")
    labels = import_table([path], classes=parse_classes("World,Sci/Tech"))
    np.testing.assert_allclose(labels.probs, [[0.25, 0.75]], atol=1e-3)
    path.write_text("id,sci_tech,SciTech,world\na,0.75,0.25,0\n")
    with pytest.raises(InputError, match="several columns for the classes 'Sci/Tech'"):
        import_table([path], classes=parse_classes("World,Sci/Tech"))


@pytest.mark.parametrize(
    "line", [{}, {"id": "a"}, {"custom_id": "a", "body": {"messages": []}}, {"probs": 1}]
)
def test_lines_without_an_answer_are_named(line: dict[str, Any]) -> None:
    with pytest.raises(BadLineError, match="holds no answer of a known shape"):
        read_response(line)


def test_what_the_python_packages_dump_is_read(tmp_path: Path) -> None:
    """Gemini's package has other names than its REST API."""
    snake = {
        "candidates": [
            {
                "content": {"parts": [{"text": "World"}], "role": "model"},
                "finish_reason": "STOP",
                "logprobs_result": {
                    "chosen_candidates": [{"token": "World", "log_probability": -0.287682}],
                    "top_candidates": None,
                },
            }
        ],
        "model_version": "gemini-x",
        "response_id": "r-1",
    }
    (sample,) = read_response(snake).samples
    assert sample.text == "World"
    assert sample.positions is not None
    assert sample.positions.read(0).candidates == [("World", -0.287682)]


def test_a_failed_result_whose_type_is_no_text_is_an_error() -> None:
    failed = read_response({"custom_id": "a", "result": {"type": {"odd": 1}}})
    assert (failed.problem, failed.told) == ("error", "{'odd': 1}")


def test_a_folder_of_single_responses(tmp_path: Path) -> None:
    for name in ("news-1", "news-2"):
        body = json.loads((FIXTURES / "openai_chat.jsonl").read_text().splitlines()[0])
        (tmp_path / f"{name}.json").write_text(json.dumps(body, indent=2))
    listed = [{"custom_id": "news-3", "response": "World"}, {"id": "news-4", "response": "World"}]
    (tmp_path / "rest.json").write_text(json.dumps(listed))
    done = import_llm(sorted(tmp_path.iterdir()), NEWS)
    assert done.labels.ids.tolist() == ["news-1", "news-2", "news-3", "news-4"]


ANSWER_SHAPES: dict[str, Callable[[str], Any]] = {
    "text": str,
    "sentence": "I would say {}.".format,
    "object": lambda name: {"category": name, "reason": "It names a place."},
    "probabilities": lambda name: {other: 0.1 + 0.6 * (other == name) for other in NEWS},
    "response": lambda name: {"choices": [{"message": {"content": name}}]},
    "several": lambda name: [name, name],
}


@pytest.mark.parametrize("shape", ANSWER_SHAPES.values(), ids=ANSWER_SHAPES)
def test_an_object_of_ids_and_answers(tmp_path: Path, shape: Callable[[str], Any]) -> None:
    said = {"n/1": "World", "n/2": "Sports", "n/3": "Sci/Tech"}
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({name: shape(answer) for name, answer in said.items()}, indent=1))
    labels = import_llm([path], NEWS).labels
    assert labels.ids.tolist() == list(said)
    assert [labels.classes[number] for number in labels.hard] == list(said.values())


def test_objects_of_ids_and_answers_in_several_files(tmp_path: Path) -> None:
    for part in ("gold", "pool"):
        said = {f"{part}/{row}": "World" if row % 2 else None for row in range(30)}
        (tmp_path / f"{part}.json").write_text(json.dumps(said))
    done = import_llm(sorted(tmp_path.iterdir()), NEWS, allow_rejected=True)
    assert (len(done.labels), done.lines) == (30, 60)
    assert done.labels.ids[[0, -1]].tolist() == ["gold/1", "pool/29"]


@pytest.mark.parametrize(
    "odd", [{"mood": "World", "why": "x"}, {"World": 0.2, "why": "x"}, {"mood": "World"}]
)
def test_a_folder_of_unknown_shapes_is_no_object_of_ids(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    for name in ("news-1", "news-2"):
        (tmp_path / f"{name}.json").write_text(json.dumps(odd))
    with pytest.raises(InputError, match=r"news-1\.json, line 1 holds no answer"):
        import_llm(sorted(tmp_path.iterdir()), NEWS)


# The providers' own types, from packages of the extra "dev".


def test_openai_types() -> None:
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

    for row in rows_of("openai_chat.jsonl"):
        ChatCompletion.model_validate(row, strict=False)
    names = ("openai_batch_text.jsonl", "openai_json_logprobs.jsonl", "openai_batch.jsonl")
    for row in (row for name in names for row in rows_of(name)):
        if row["response"] and row["response"]["status_code"] == 200:
            ChatCompletion.model_validate(_filled(row["response"]["body"]))
    for row in rows_of("openai_responses.jsonl"):
        Response.model_validate(row["response"]["body"] if "custom_id" in row else row)


def _filled(body: dict[str, Any]) -> dict[str, Any]:
    """Older examples leave out what the type needs and the importer does not."""
    return {"created": 0, "id": "x", "object": "chat.completion", **body}


def test_anthropic_types() -> None:
    from anthropic.types import Message
    from anthropic.types.messages import MessageBatchIndividualResponse

    for row in rows_of("anthropic_messages.jsonl"):
        Message.model_validate(row)
    for row in rows_of("anthropic_batch.jsonl"):
        MessageBatchIndividualResponse.model_validate(row)


def test_gemini_types() -> None:
    from google.genai.types import GenerateContentResponse

    for row in rows_of("gemini.jsonl"):
        GenerateContentResponse.model_validate(row)
    for row in rows_of("gemini_batch.jsonl"):
        if "response" in row:
            GenerateContentResponse.model_validate(row["response"])


def test_ollama_types() -> None:
    import ollama

    for row in rows_of("ollama_chat.jsonl"):
        if "response" in row:
            ollama.ChatResponse.model_validate(row["response"])
    for row in rows_of("ollama_generate.jsonl"):
        ollama.GenerateResponse.model_validate(row)
