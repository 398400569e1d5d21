"""Which part of a response is its answer, and what several rows of one id come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noisyteacher.labels.importers.llm_rows import LlmRows
from noisyteacher.labels.importers.reading import REFUSED
from noisyteacher.labels.importers.responses import (
    ERROR,
    BadLineError,
    read_response,
    rows_of_object,
)


def call(label: str) -> dict[str, Any]:
    return {"function": {"name": "say", "arguments": f'{{"label": "{label}"}}'}}


def use(label: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": "say", "input": {"label": label}}


def part(label: str) -> dict[str, Any]:
    return {"functionCall": {"name": "say", "args": {"label": label}}}


CALLING = {"role": "assistant", "content": None, "tool_calls": [call("bad")]}
CALLS = {
    "openai": {"choices": [{"message": {"tool_calls": [call("bad"), call("good")]}}]},
    "anthropic": {"content": [use("bad"), {"type": "text", "text": "or"}, use("good")]},
    "gemini": {"candidates": [{"content": {"parts": [part("bad"), part("good")]}}]},
}


@pytest.mark.parametrize("provider", CALLS)
def test_the_last_of_several_tool_calls_is_the_answer(provider: str) -> None:
    (sample,) = read_response({"id": "a", **CALLS[provider]}).samples
    assert sample.text.replace(" ", "") == '{"label":"good"}'


def test_what_a_model_thinks_is_no_part_of_its_answer() -> None:
    """Its reasoning may name every class."""
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "bad? no."}]}
    said = {"type": "message", "content": [{"type": "output_text", "text": "good"}]}
    (sample,) = read_response({"id": "a", "output": [thought, said]}).samples
    assert sample.text == "good"
    parts = [{"text": "bad? no.", "thought": True}, {"text": "good"}]
    (sample,) = read_response({"id": "a", "candidates": [{"content": {"parts": parts}}]}).samples
    assert sample.text == "good"
    blocks = [{"type": "thinking", "thinking": "bad? no."}, {"type": "text", "text": "good"}]
    (sample,) = read_response({"id": "a", "content": blocks}).samples
    assert sample.text == "good"


CUT = {
    "openai": ("choices", [{"message": {"content": "goo"}, "finish_reason": "length"}]),
    "gemini": (
        "candidates",
        [{"content": {"parts": [{"text": "goo"}]}, "finishReason": "MAX_TOKENS"}],
    ),
    "anthropic": ("content", [{"type": "text", "text": "goo"}]),
}


@pytest.mark.parametrize("provider", CUT)
def test_answers_that_were_cut_off_say_so(provider: str) -> None:
    key, value = CUT[provider]
    more = {"stop_reason": "max_tokens"} if provider == "anthropic" else {}
    (sample,) = read_response({"id": "a", key: value, **more}).samples
    assert (sample.text, sample.cut) == ("goo", True)


def test_the_answer_of_a_chat_is_the_last_message_of_the_assistant() -> None:
    asked = {"role": "user", "content": "good or bad?"}
    said = {"role": "assistant", "content": [{"type": "text", "text": "good"}]}
    (sample,) = read_response({"id": "a", "messages": [asked, said]}).samples
    assert sample.text == "good"
    (sample,) = read_response({"id": "a", "messages": [asked, CALLING]}).samples
    assert sample.text == '{"label": "bad"}'
    (sample,) = read_response({"id": "a", "messages": [asked], "response": "bad"}).samples
    assert sample.text == "bad"
    for messages in ([], [said, asked], "good", [{"role": "user"}]):
        with pytest.raises(BadLineError, match="no answer of a known shape"):
            read_response({"id": "a", "messages": messages})


def test_the_rows_of_an_object_may_stand_under_one_key() -> None:
    rows = [{"id": "a", "label": "good"}, {"id": "b", "label": "bad"}]
    assert rows_of_object({"object": "list", "data": rows}, 2) == rows
    scores = [{"label": "good", "score": 0.9}, {"label": "bad", "score": 0.1}]
    assert rows_of_object({"scores": scores}, 2) == []  # of one example
    assert rows_of_object({"id": "a", "data": rows}, 2) == []
    assert rows_of_object({"messages": [{"id": "a", "role": "user"}]}, 2) == []


def test_a_failed_request_has_no_answer() -> None:
    """Whatever its body holds."""
    body = {"choices": [{"message": {"content": "good"}}]}
    found = read_response({"custom_id": "a", "response": {"status_code": 429, "body": body}})
    assert (found.problem, found.samples) == (ERROR, ())
    found = read_response({"custom_id": "a", "response": {"status_code": 200, "body": body}})
    assert found.samples[0].text == "good"
    refused = {"choices": [{"message": {"content": "good"}, "finish_reason": "content_filter"}]}
    assert read_response({"custom_id": "a", **refused}).problem == REFUSED


def test_rows_of_one_id_become_their_mean_at_the_place_of_the_first() -> None:
    """Also where ids are in no order, and beside rows that stand alone."""
    rows = LlmRows(2)
    given = [("z", [0.9, 0.1]), ("a", [0.2, 0.4]), ("m", [0.5, 0.1]), ("a", [0.0, 0.2])]
    numbers = [rows.keep(mass) for _, mass in given]
    names = np.fromiter((name for name, _ in given), object)
    rows.add(names, np.array(numbers, np.int32))
    found = rows.take()
    assert found.ids.tolist() == ["z", "a", "m"]
    assert found.repeated == 1
    expected = np.array([[0.9, 0.1], [0.1 / 0.4, 0.3 / 0.4], [0.5 / 0.6, 0.1 / 0.6]])
    np.testing.assert_allclose(found.probs[found.label], expected, atol=1e-6)
    np.testing.assert_allclose(found.missing[found.label], [0.0, 0.6, 0.4], atol=1e-6)
