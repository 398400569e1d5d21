"""Lines of LLM output in the shapes that APIs and vLLM write them.

- Batch output: ``{"custom_id", "response": {"status_code", "body"}, "error"}``, the body being one
  of the next two. ``response`` may also hold the body directly.
- A chat completion: ``choices[0].logprobs.content``, a list of ``{"token", "logprob",
  "top_logprobs": [{"token", "logprob"}, ...]}``.
- A completion: ``choices[0].logprobs`` with the lists ``tokens``, ``token_logprobs`` and
  ``top_logprobs``, the last one of objects from token to log-probability.
- vLLM's own request output: ``outputs[0].logprobs``, a list of objects from token id to
  ``{"logprob", "decoded_token"}``, beside ``outputs[0].token_ids``.

Only the first choice is read.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from noisyteacher.labels.importers.answers import Position, Positions

_ID_KEYS = ("custom_id", "id", "request_id")
_BETWEEN_POSITIONS = re.compile(rb'\}\]\}, ?\{"token":')
_END_OF_POSITIONS = b"}]}]"


class BadLineError(Exception):
    """The line is not what this importer reads; the message goes on after "line 7 "."""


class Response(NamedTuple):
    """One line: whose answer, and either its positions or the reason why there are none."""

    id: Any
    model: Any
    text: str
    positions: Positions | None
    problem: str = ""


class ChatPositions:
    """``logprobs.content`` of a chat completion."""

    __slots__ = ("content",)

    def __init__(self, content: list[Any]) -> None:
        self.content = content

    def __len__(self) -> int:
        return len(self.content)

    def __getitem__(self, number: int, /) -> Position:
        here = self.content[number]
        top = here.get("top_logprobs") or ()
        tokens = [candidate["token"] for candidate in top]
        logprobs = [candidate["logprob"] for candidate in top]
        return _with_sampled(here["token"], here["logprob"], tokens, logprobs)


class CompletionPositions:
    """``logprobs`` of a completion: one list per field."""

    __slots__ = ("_logprobs",)

    def __init__(self, logprobs: dict[str, Any]) -> None:
        self._logprobs = logprobs

    def __len__(self) -> int:
        return len(self._logprobs["tokens"])

    def __getitem__(self, number: int, /) -> Position:
        logprobs = self._logprobs
        top = (logprobs.get("top_logprobs") or {number: None})[number] or {}
        return _with_sampled(
            logprobs["tokens"][number],
            logprobs["token_logprobs"][number],
            list(top),
            list(top.values()),
        )


class VllmPositions:
    """``logprobs`` of vLLM's own output, by token id."""

    __slots__ = ("_logprobs", "_token_ids")

    def __init__(self, output: dict[str, Any]) -> None:
        self._logprobs = output["logprobs"]
        self._token_ids = output["token_ids"]

    def __len__(self) -> int:
        return len(self._logprobs)

    def __getitem__(self, number: int, /) -> Position:
        here = self._logprobs[number]
        sampled = here[str(self._token_ids[number])]["decoded_token"]
        candidates = here.values()
        tokens = [candidate["decoded_token"] for candidate in candidates]
        return Position(sampled, tokens, [candidate["logprob"] for candidate in candidates])


def _with_sampled(
    sampled: str, logprob: float, tokens: list[str], logprobs: list[float]
) -> Position:
    # A token sampled from far down the list is not among the top ones.
    if sampled not in tokens:
        tokens.append(sampled)
        logprobs.append(logprob)
    return Position(sampled, tokens, logprobs)


def read_response(line: Any) -> Response:
    """Find the parts of a parsed line."""
    if type(line) is not dict:
        raise BadLineError("is not a JSON object")
    wrapped = line.get("response")
    body = line
    if type(wrapped) is dict:
        body = wrapped.get("body", wrapped)
        if wrapped.get("status_code", 200) != 200:
            return Response(_id(line), None, _error_text(line, body), None, "error")
    if line.get("error"):
        return Response(_id(line), None, _error_text(line, body), None, "error")
    choices = body.get("choices") or body.get("outputs")
    if not choices:
        raise BadLineError("has neither choices nor outputs, so it is no response of an LLM")
    return _read_choice(_id(line), body.get("model"), choices[0])


def _id(line: dict[str, Any]) -> Any:
    for key in _ID_KEYS:
        name = line.get(key)
        if name is not None:
            return name
    return None


def _error_text(line: dict[str, Any], body: Any) -> str:
    error = line.get("error") or (isinstance(body, dict) and body.get("error")) or "unknown"
    if isinstance(error, dict):
        error = error.get("message") or error.get("code") or "unknown"
    return str(error)


def _read_choice(name: Any, model: Any, choice: dict[str, Any]) -> Response:
    message = choice.get("message") or {}
    refusal = message.get("refusal")
    text = refusal or message.get("content") or choice.get("text") or ""
    positions = None if refusal else _positions(choice)
    if positions:
        return Response(name, model, text, positions)
    if refusal or choice.get("finish_reason") == "content_filter":
        return Response(name, model, text, None, "refused")
    return Response(name, model, text, None, "no logprobs" if positions is None else "empty answer")


def _positions(choice: dict[str, Any]) -> Positions | None:
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, list):
        return VllmPositions(choice)
    if not logprobs:
        return None
    if "content" in logprobs:
        content = logprobs["content"]
        return None if content is None else ChatPositions(content)
    return CompletionPositions(logprobs)


def without_later_positions(line: bytes) -> bytes | None:
    """The line of a chat completion with the first of several positions only; None if unsure.

    In JSON the marks between two positions cannot stand inside a string: its quotation marks would
    have a backslash. Those at the end can; what is left is then no JSON, and all is read after all.
    From several choices the first position of the first one is left, and the end of the last.
    """
    between = _BETWEEN_POSITIONS.search(line)
    if between is None:
        return None
    end = line.rfind(_END_OF_POSITIONS, between.end())
    return None if end < 0 else line[: between.start() + 3] + line[end + 3 :]
