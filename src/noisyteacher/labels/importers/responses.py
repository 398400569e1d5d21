"""Answers of LLMs in the lines that providers write: the text of each, and its tokens if there are.

=========================  =======================================================================
OpenAI, compatible server  ``choices`` of a chat completion (``message``) or completion (``text``)
OpenAI Responses API       ``output``, a list of items, with messages among them
Anthropic                  ``content``, a list of blocks
Gemini                     ``candidates``
Ollama                     ``message``, or ``response`` as text
vLLM's request output      ``outputs``
plain rows                 ``response``, ``answer``, ``label``, ``text`` or the like
chats                      ``messages``, of which the assistant's last one is the answer
=========================  =======================================================================

Batch files wrap these: OpenAI's in ``response.body``, Anthropic's in ``result.message``, Gemini's
in ``response``. Each function below reads one shape. The arguments of a tool call are its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from noisyteacher.core.errors import first_few
from noisyteacher.io.user_tables import with_capitals
from noisyteacher.labels.importers.answers import Position, Positions
from noisyteacher.labels.importers.lexicon import word_set
from noisyteacher.labels.importers.reading import CONFIDENCE_KEYS, REFUSED, key_words

ERROR = "error"
ID_KEYS = (
    *("custom_id", "id", "key", "request_id", "responseId", "response_id"),
    *with_capitals("id")[1:],
)
# Names that only a teacher's labels have.
TEACHER_KEYS = (
    *("teacher_label", "teacher_prediction", "llm_label", "llm_prediction", "llm_answer"),
    *("model_label", "model_prediction", "gpt_label"),
)
# Where plain rows have the answer; "text" comes last, because it may be what was asked about.
PLAIN_KEYS = (
    *TEACHER_KEYS,
    *with_capitals(
        *("response", "answer", "output", "completion", "generated_text", "prediction", "label"),
        *("class", "category"),
    ),
    *with_capitals("content", "text", "responses", "answers", "samples"),
)
# A key with one of these words may hold the answer; "text" beside it is what was asked about.
_LABEL_WORDS = word_set(
    "label class category prediction pred predicted answer gold truth target llm gpt teacher"
)
_CUT_REASONS = ("length", "max_tokens", "MAX_TOKENS", "max_output_tokens")
_BLOCKED = word_set("SAFETY PROHIBITED_CONTENT BLOCKLIST SPII RECITATION IMAGE_SAFETY LANGUAGE")
_BETWEEN_POSITIONS = re.compile(rb'\}\]\}, ?\{"token":')
_END_OF_POSITIONS = b"}]}]"


class BadLineError(Exception):
    """The line is not what this importer reads; the message goes on after "line 7 "."""


class Sample(NamedTuple):
    """One answer: its text, its tokens' log-probabilities, and whether it was cut for length."""

    text: str
    positions: Positions | None = None
    cut: bool = False


class Response(NamedTuple):
    """One line: whose answers; or why there are none (``ERROR`` or ``REFUSED``), in what words."""

    id: Any
    model: Any
    samples: Sequence[Sample]
    problem: str = ""
    told: str = ""


def chat_positions(content: list[Any] | None) -> Positions | None:
    """``logprobs.content`` of a chat completion."""
    if not content:
        return None

    def read(number: int) -> Position:
        here = content[number]
        top = [(one["token"], one["logprob"]) for one in here.get("top_logprobs") or ()]
        return _with_sampled(here["token"], here["logprob"], top)

    return Positions(len(content), read)


def _completion_positions(logprobs: dict[str, Any]) -> Positions:
    """``logprobs`` of a completion: one list per field."""

    def read(number: int) -> Position:
        top = (logprobs.get("top_logprobs") or {number: None})[number] or {}
        own = logprobs["token_logprobs"][number]
        return _with_sampled(logprobs["tokens"][number], own, list(top.items()))

    return Positions(len(logprobs["tokens"]), read)


def _vllm_positions(output: dict[str, Any]) -> Positions:
    """``logprobs`` of vLLM's own output, by token id."""

    def read(number: int) -> Position:
        here = output["logprobs"][number]
        sampled = here[str(output["token_ids"][number])]["decoded_token"]
        return Position(sampled, [(one["decoded_token"], one["logprob"]) for one in here.values()])

    return Positions(len(output["logprobs"]), read)


def _gemini_positions(candidate: dict[str, Any]) -> Positions | None:
    """``logprobsResult`` of a Gemini candidate."""
    result = _either(candidate, "logprobsResult", "logprobs_result") or {}
    chosen = _either(result, "chosenCandidates", "chosen_candidates")
    if not chosen:
        return None
    listed = _either(result, "topCandidates", "top_candidates") or []

    def pair(one: dict[str, Any]) -> tuple[str, float]:
        return one["token"], _either(one, "logProbability", "log_probability")

    def read(number: int) -> Position:
        top = (listed[number].get("candidates") if number < len(listed) else None) or ()
        return _with_sampled(*pair(chosen[number]), list(map(pair, top)))

    return Positions(len(chosen), read)


def _with_sampled(sampled: str, logprob: float, top: list[tuple[str, float]]) -> Position:
    # A token sampled from far down the list is not among the top ones.
    if all(token != sampled for token, _ in top):
        top.append((sampled, logprob))
    return Position(sampled, top)


def rows_of_object(value: dict[str, Any], least: int) -> list[dict[str, Any]]:
    """The rows of an object with one list of them, or of ids and answers; none if it is a response.

    Answers by id are all of one kind, and there are at ``least`` so many.
    """
    if not _KEYS_OF_RESPONSES.isdisjoint(value):
        return []
    lists = [rows for rows in value.values() if isinstance(rows, list)]
    if len(lists) == 1 and all(type(row) is dict and find_id(row) is not None for row in lists[0]):
        return lists[0]
    kinds = set(map(type, value.values())) - {type(None)}
    if len(value) < least or len(kinds) != 1:
        return []
    return [{"custom_id": name, "response": answer} for name, answer in value.items()]


def read_response(line: Any) -> Response:
    """Find the answers of a parsed line."""
    if type(line) is not dict:
        raise BadLineError("is not a JSON object")
    name, body = find_id(line), line
    wrapped = line.get("response")
    if type(wrapped) is dict:
        body = wrapped.get("body", wrapped)
        if wrapped.get("status_code", 200) != 200:
            return Response(name, None, (), ERROR, _error_text(line, body))
    elif type(line.get("result")) is dict and "type" in line["result"]:
        body = line["result"].get("message") or line["result"]
        if line["result"]["type"] != "succeeded":
            told = _error_text(line["result"], body, line["result"]["type"])
            return Response(name, None, (), ERROR, told)
    if line.get("error") or type(body) is not dict or (body is not line and body.get("error")):
        return Response(name, None, (), ERROR, _error_text(line, body))
    for key, kind, read in _SHAPES:
        if key in body and isinstance(body[key], kind):
            return read(name, body)
    if line.get("status") and not body:  # a failed line of a Vertex batch
        return Response(name, None, (), ERROR, str(line["status"]))
    if body is not line and not any(isinstance(body.get(key), str) for key in ("response", "text")):
        return _response(name, body.get("model"), [Sample(orjson.dumps(body).decode())])
    return _read_plain(name, body)


def find_id(line: dict[str, Any]) -> Any:
    """What a line calls its example; None if it does not."""
    for key in ID_KEYS:
        name = line.get(key)
        if name is not None:
            return name
    about = line.get("metadata")
    return find_id(about) if type(about) is dict else None


def _error_text(line: dict[str, Any], body: Any, default: str = "unknown") -> str:
    error = line.get("error") or (isinstance(body, dict) and body.get("error")) or default
    while isinstance(error, dict):
        error = error.get("message") or error.get("error") or error.get("code") or str(default)
    return str(error)


def _read_choices(name: Any, body: dict[str, Any]) -> Response:
    """A chat completion or a completion of OpenAI or a compatible server; vLLM's own output."""
    choices = body["choices"] if "choices" in body else body["outputs"]
    if not choices:
        raise BadLineError("has an empty list of choices")
    samples = []
    refusal = None
    for choice in choices:
        message = choice.get("message") or choice
        reason = choice.get("finish_reason")
        if message.get("refusal") or reason == "content_filter":
            refusal = message.get("refusal") or _text(message.get("content")) or "content filter"
            continue
        text = _called(message) or _text(message.get("content") or message.get("text"))
        samples.append(Sample(text, _choice_positions(choice), reason in _CUT_REASONS))
    return _response(name, body.get("model"), samples, refusal)


def _response(name: Any, model: Any, samples: Sequence[Sample], refusal: Any = None) -> Response:
    if samples or refusal is None:
        return Response(name, model, samples or (Sample(""),))
    return Response(name, model, (), REFUSED, _as_text(refusal))


def _choice_positions(choice: dict[str, Any]) -> Positions | None:
    logprobs = choice.get("logprobs")
    if not logprobs:
        return None
    if isinstance(logprobs, list):
        return _vllm_positions(choice)
    if "content" in logprobs:
        return chat_positions(logprobs["content"])
    return _completion_positions(logprobs)


def _called(message: dict[str, Any]) -> str:
    """The arguments of a tool call, as JSON."""
    calls = message.get("tool_calls") or [{"function": message.get("function_call")}]
    return _as_text(((calls[-1] or {}).get("function") or {}).get("arguments") or "")


def _text(content: Any) -> str:
    """The text of a message, which may come in parts."""
    if isinstance(content, list):
        return "".join(p if isinstance(p, str) else p.get("text") or "" for p in content)
    return content or ""


def _read_openai_items(name: Any, body: dict[str, Any]) -> Response:
    """A response of OpenAI's Responses API."""
    texts: list[str] = []
    content: list[Any] = []
    refusal = None
    for item in body["output"]:
        if item.get("type") == "function_call":
            texts = [item.get("arguments") or ""]
        for part in (item.get("content") or ()) if item.get("type") == "message" else ():
            if part.get("type") == "refusal":
                refusal = part.get("refusal") or "refused"
            else:
                texts.append(part.get("text") or "")
                content += part.get("logprobs") or ()
    why = (body.get("incomplete_details") or {}).get("reason")
    if body.get("status") in ("failed", "cancelled"):
        return Response(name, body.get("model"), (), ERROR, _error_text(body, None, body["status"]))
    if refusal is not None or why == "content_filter":
        return _response(name, body.get("model"), (), refusal or "content filter")
    sample = Sample("".join(texts), chat_positions(content), why is not None)
    return _response(name, body.get("model"), [sample])


def _read_anthropic(name: Any, body: dict[str, Any]) -> Response:
    """A message of Anthropic."""
    blocks, why = body["content"], body.get("stop_reason")
    text = "".join(block.get("text") or "" for block in blocks if block.get("type") == "text")
    if why == "refusal":
        return _response(name, body.get("model"), (), text or "refusal")
    called = [block.get("input") for block in blocks if block.get("type") == "tool_use"]
    if called:
        text = orjson.dumps(called[-1]).decode()
    return _response(name, body.get("model"), [Sample(text, None, why in _CUT_REASONS)])


def _read_gemini(name: Any, body: dict[str, Any]) -> Response:
    """A response of Gemini's generateContent, in the REST API's names or the Python package's."""
    model = _either(body, "modelVersion", "model_version")
    samples = []
    refusal = None
    for candidate in body.get("candidates") or ():
        why = str(_either(candidate, "finishReason", "finish_reason") or "")
        parts = (candidate.get("content") or {}).get("parts") or ()
        said = [part for part in parts if not part.get("thought")]
        text = "".join(part.get("text") or "" for part in said)
        if why in _BLOCKED:
            refusal = text or why
            continue
        for part in said:
            called = _either(part, "functionCall", "function_call")
            text = orjson.dumps(called.get("args")).decode() if called else text
        samples.append(Sample(text, _gemini_positions(candidate), why in _CUT_REASONS))
    feedback = _either(body, "promptFeedback", "prompt_feedback") or {}
    blocked = _either(feedback, "blockReason", "block_reason")
    return _response(name, model, samples, refusal or (blocked and str(blocked)))


def _read_ollama(name: Any, body: dict[str, Any]) -> Response:
    """A chat or a completion of Ollama."""
    message = body.get("message")
    if isinstance(message, dict):
        text = _called(message) or message.get("content") or ""
    elif "done" in body:
        text = body["response"]
    else:
        return _read_plain(name, body)
    cut = body.get("done_reason") in _CUT_REASONS
    sample = Sample(text, chat_positions(body.get("logprobs")), cut)
    return _response(name, body.get("model"), [sample])


def _read_plain(name: Any, row: dict[str, Any]) -> Response:
    """A row of the user's own: an id, and the answer or a list of answers."""
    key = next((key for key in PLAIN_KEYS if row.get(key) is not None), None)
    if key is None:
        if any(key in row for key in PLAIN_KEYS):
            return _response(name, row.get("model"), ())
        if last := _last_of_chat(row):
            return _response(
                name, row.get("model"), [Sample(_called(last) or _text(last["content"]))]
            )
        raise BadLineError(
            f"holds no answer of a known shape; its keys are {first_few(row, 8)}, and an answer "
            "stands under 'response', 'answer', 'label' or the like"
        )
    if rivals := rivals_of_text(key, row):
        if not set(PLAIN_KEYS).isdisjoint(rivals):  # its label is null
            return _response(name, row.get("model"), ())
        raise BadLineError(
            f"may have its label under {first_few(rivals)}, while 'text' may be what was asked "
            "about; name the column of labels, label_column= (--label-column)"
        )
    said = row[key]
    sure = [one for one in CONFIDENCE_KEYS if isinstance(row.get(one), int | float | str)]
    if sure and isinstance(said, str | int):
        said = {"label": said, sure[0]: row[sure[0]]}
    several = isinstance(said, list) and all(isinstance(one, str) for one in said)
    samples = [Sample(_as_text(one)) for one in (said if several else [said])]
    return _response(name, row.get("model"), samples)


def _last_of_chat(row: dict[str, Any]) -> dict[str, Any] | None:
    """The last message of a chat, if it is the assistant's."""
    messages = row.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else {}
    return last if last.get("role") == "assistant" else None


def rivals_of_text(key: str, keys: Iterable[str]) -> list[str]:
    """The keys that may hold the answer where the ``key`` found is "text"."""
    return [k for k in keys if _LABEL_WORDS & set(key_words(k))] if key.lower() == "text" else []


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _either(values: dict[str, Any], one: str, other: str) -> Any:
    found = values.get(one)
    return values.get(other) if found is None else found


_SHAPES: tuple[tuple[str, Any, Callable[[Any, dict[str, Any]], Response]], ...] = (
    ("choices", object, _read_choices),
    ("outputs", list, _read_choices),
    ("candidates", list, _read_gemini),
    ("promptFeedback", dict, _read_gemini),
    ("prompt_feedback", dict, _read_gemini),
    ("output", list, _read_openai_items),
    ("content", list, _read_anthropic),
    ("message", dict, _read_ollama),
    ("response", str, _read_ollama),
)
_KEYS_OF_RESPONSES = {
    *(key for key, *_ in _SHAPES),
    *ID_KEYS,
    *PLAIN_KEYS,
    "result",
    "error",
    "messages",
}


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
