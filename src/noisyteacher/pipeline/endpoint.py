"""An LLM behind an OpenAI-compatible endpoint as a teacher: ``noisyteacher label openai:MODEL``.

Every text is put into a prompt and sent as a chat completion of its own, several at a time; answers
are read as ``noisyteacher import`` reads them. Requests that fail for a while (429, 5xx, broken
connections) are sent again, later and later; a server that does not know an optional parameter is
asked without it. Only the standard library is used.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.data import Dataset
from noisyteacher.io.classes import ClassAnswers
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.importers.answer_lines import LineReader
from noisyteacher.labels.importers.llm_rows import LlmRows
from noisyteacher.labels.importers.reading import REFUSED
from noisyteacher.labels.importers.responses import ERROR, BadLineError

PREFIX = "openai:"
DEFAULT_URL = "https://api.openai.com/v1"
PROMPT = """Sort the text into exactly one of these classes: {classes}.
Answer with the name of the class and nothing else.
{examples}
Text: {text}
Class:"""

_CHARACTERS_PER_TOKEN = 4
_LATER = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_REFUSES_ALL = {401: "refuses the key", 403: "refuses access", 404: "does not know the model"}
_LONGEST_WAIT = 60.0
_MANY_LOGPROBS, _FEW_LOGPROBS = 20, 5
_MOST_UNMATCHED = 0.1


@dataclass(frozen=True)
class Endpoint:
    """Where the LLM is, and how it may be asked.

    Args:
        base_url: up to ``/v1``; None: ``OPENAI_BASE_URL``, or OpenAI's own.
        key_variable: the environment variable of the key; local servers need none.
        concurrency: requests at a time.
        requests_per_minute: at most; None: as fast as the server answers.
        retries: how often a failing request is sent again.
        timeout: seconds to wait for an answer.
        max_tokens: of an answer.
        first_wait: seconds before the first retry; doubled every time.
    """

    base_url: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    concurrency: int = 8
    requests_per_minute: float | None = None
    retries: int = 6
    timeout: float = 120.0
    max_tokens: int = 32
    first_wait: float = 1.0

    @property
    def url(self) -> str:
        url = self.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL
        if not url.startswith(("http://", "https://")):
            raise InputError(f"the base URL must begin with http:// or https://, not {url!r}.")
        return url.rstrip("/")

    @property
    def key(self) -> str | None:
        key = os.environ.get(self.key_variable)
        if key is None and self.url == DEFAULT_URL:
            raise InputError(
                f"{self.url} needs a key in the environment variable {self.key_variable}; another "
                "server is named with --base-url."
            )
        return key


@dataclass(frozen=True)
class CostEstimate:
    """What labeling some texts takes."""

    texts: int
    tokens_in: int
    tokens_out: int
    seconds: float

    def cost(self, price_in: float, price_out: float) -> float:
        """In the currency of the prices, which are for a million tokens."""
        return (self.tokens_in * price_in + self.tokens_out * price_out) / 1e6


class EndpointTeacher:
    """An LLM as a teacher.

    Args:
        model: its name at the endpoint.
        classes: each class with its answers.
        endpoint: where it is.
        prompt: a template with ``{text}``, ``{classes}`` and ``{examples}``.
        examples: (text, class) pairs to show in the prompt; a text is never shown with its own.
        k: classes to store per row.
        allow_rejected: go on if more than a tenth of a shard's answers name no class.
    """

    def __init__(
        self,
        model: str,
        classes: ClassAnswers,
        endpoint: Endpoint | None = None,
        *,
        prompt: str = PROMPT,
        examples: Sequence[tuple[str, str]] = (),
        k: int | None = None,
        allow_rejected: bool = False,
    ) -> None:
        if prompt.count("{text}") != 1:
            raise InputError("the prompt must hold {text} exactly once, where the text goes.")
        self.name = f"{PREFIX}{model}"
        self.classes: tuple[str, ...] | None = tuple(classes)
        # Of the shard that was labeled last: id to the reason and the answer.
        self.rejected: dict[Any, tuple[str, str]] | None = {}
        self._endpoint = endpoint or Endpoint()
        self._model, self._prompt, self._examples = model, prompt, tuple(examples)
        self._k, self._allow_rejected = k, allow_rejected
        self._reader = LineReader(classes)
        self._sender = _Sender(self._endpoint)

    def fingerprint(self) -> str:
        """Other settings make other answers; other weights behind one name cannot be seen."""
        asked = (self._endpoint.url, self._model, self._prompt, self._examples)
        return hashlib.sha256(repr((*asked, self._endpoint.max_tokens)).encode()).hexdigest()

    def arrange(self, source: Dataset) -> Dataset:
        if source.kind != "text":
            raise InputError(f"{self.name} reads texts, not {source.kind}s.")
        return source

    def estimate(self, texts: Sequence[str]) -> CostEstimate:
        """Ask about one text, and reckon from there."""
        asked, count = len(self.ask(texts[0])), len(texts)
        began = time.monotonic()
        answer = orjson.loads(self._sender.send(self._body(texts[0])))
        seconds = time.monotonic() - began
        usage = answer.get("usage") or {}
        tokens = usage.get("prompt_tokens")
        per_token = asked / tokens if tokens else _CHARACTERS_PER_TOKEN
        length = sum(map(len, texts)) + (asked - len(texts[0])) * count
        rate = self._endpoint.concurrency / max(seconds, 1e-3)
        if self._endpoint.requests_per_minute:
            rate = min(rate, self._endpoint.requests_per_minute / 60)
        said = usage.get("completion_tokens") or min(8, self._endpoint.max_tokens)
        return CostEstimate(count, round(length / per_token), said * count, count / rate)

    def ask(self, text: str) -> str:
        """The prompt about a text."""
        shown = [
            f"\nText: {other}\nClass: {name}\n" for other, name in self._examples if other != text
        ]
        # Split first: a text may hold {classes} itself.
        parts = self._prompt.split("{text}")
        filled = [part.replace("{classes}", ", ".join(self.classes or ())) for part in parts]
        return text.join(part.replace("{examples}", "".join(shown)) for part in filled)

    def _body(self, text: str) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": self.ask(text)}],
            "max_tokens": self._endpoint.max_tokens,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": _MANY_LOGPROBS,
        }

    def label(
        self, ids: np.ndarray, inputs: np.ndarray | list[str], batch_size: int, seed: int
    ) -> TeacherLabels:
        self.rejected = rejected = {}
        rows, numbers = LlmRows(len(self.classes or ())), []
        with ThreadPoolExecutor(self._endpoint.concurrency) as pool:
            try:
                answers = list(pool.map(lambda text: self._sender.send(self._body(text)), inputs))
            except BaseException:
                self._sender.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for name, answer in zip(ids.tolist(), answers, strict=True):
            mass, reason, told = self._read(answer)
            if mass is None:
                rejected[name] = (reason, told)
            numbers.append(-1 if mass is None else rows.keep(mass))
        labels = np.array(numbers, np.int32)
        rows.add(ids[labels >= 0], labels[labels >= 0])
        self._check(rejected, len(rows))
        named, label, probs, missing, _ = rows.take()
        return TeacherLabels.from_probs(
            named, probs[label], self.classes, self._k, teacher=self.name, missing=missing[label]
        )

    def _read(self, answer: bytes) -> tuple[list[float] | None, str, str]:
        try:
            response, mass, reason, _ = self._reader.read(answer)
        except BadLineError as error:
            return None, f"bad answer: {error}", answer[:500].decode(errors="replace")
        told = response.told or " ".join(sample.text for sample in response.samples)
        return mass, reason, told

    def _check(self, rejected: dict[Any, tuple[str, str]], labeled: int) -> None:
        lost = sum(reason not in (ERROR, REFUSED) for reason, _ in rejected.values())
        too_many = lost > _MOST_UNMATCHED * (lost + labeled) and not self._allow_rejected
        if labeled and not too_many:
            return
        common = Counter(told[:80] for _, told in rejected.values()).most_common(5)
        shown = ", ".join(f"{told!r} ({count})" for told, count in common)
        raise InputError(
            f"{len(rejected)} of {len(rejected) + labeled} answers of {self.name} have no label: "
            f"{shown}; check the prompt (--prompt) and the synonyms of the classes, or continue "
            "without these answers (--allow-rejected)."
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key goes to the server that the user named and to no other."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


class _Sender:
    """Sends requests from several threads, none faster than the limits, each until it succeeds."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._lock = threading.Lock()
        self._next = 0.0  # the earliest time of the next request
        self._left_out: set[str] = set()  # parameters that the server does not know
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let no thread send anything more."""
        self._stopped.set()

    def send(self, body: dict[str, Any]) -> bytes:
        """The answer, or an object with the error where this one text cannot be answered."""
        tries = 0
        while True:
            self._wait_for_turn()
            sent = self._adapted(body)
            try:
                return self._post(sent)
            except urllib.error.HTTPError as error:
                told = error.read(10_000).decode(errors="replace")
                if error.code in _REFUSES_ALL or 300 <= error.code < 400:
                    why = _REFUSES_ALL.get(error.code, "sends elsewhere")
                    self.stop()
                    raise InputError(
                        f"{self._endpoint.url} {why} ({error.code} {error.reason}): {told[:300]}"
                    ) from error
                if error.code not in _LATER:
                    if error.code in (400, 422):
                        self._leave_out(told, sent)
                        if self._adapted(body) != sent:
                            continue
                    return orjson.dumps({"error": {"message": f"{error.code}: {told[:300]}"}})
                problem, wait = f"{error.code} {error.reason}", _retry_after(error)
            except (OSError, http.client.HTTPException) as error:
                problem, wait = str(error) or type(error).__name__, None
            tries += 1
            if tries > self._endpoint.retries:
                self.stop()
                raise InputError(
                    f"{self._endpoint.url} failed {tries} times, last with {problem}; the finished "
                    "shards are kept: start the same command again later."
                )
            if wait is None:
                doubled = self._endpoint.first_wait * 2.0 ** (tries - 1)
                wait = doubled * random.uniform(0.75, 1.25)
            self._pause(wait)

    def _post(self, body: dict[str, Any]) -> bytes:
        headers = {"Content-Type": "application/json"}
        if self._endpoint.key is not None:
            headers["Authorization"] = f"Bearer {self._endpoint.key}"
        request = urllib.request.Request(
            f"{self._endpoint.url}/chat/completions", orjson.dumps(body), headers, method="POST"
        )
        with self._opener.open(request, timeout=self._endpoint.timeout) as answer:
            return bytes(answer.read())

    def _adapted(self, body: dict[str, Any]) -> dict[str, Any]:
        changed = {key: value for key, value in body.items() if key not in self._left_out}
        if "max_tokens" in self._left_out:
            changed["max_completion_tokens"] = body["max_tokens"]
        if "many_logprobs" in self._left_out and "top_logprobs" in changed:
            changed["top_logprobs"] = _FEW_LOGPROBS
        return changed

    def _leave_out(self, told: str, sent: dict[str, Any]) -> None:
        """Note a parameter that the server complains of and can be asked without."""
        with self._lock:
            if "max_completion_tokens" in told:
                self._left_out.add("max_tokens")
            elif "top_logprobs" in told and sent.get("top_logprobs", 0) > _FEW_LOGPROBS:
                self._left_out.add("many_logprobs")
            elif "logprobs" in told:
                self._left_out |= {"logprobs", "top_logprobs"}
            elif "temperature" in told:
                self._left_out.add("temperature")

    def _wait_for_turn(self) -> None:
        while True:
            if self._stopped.is_set():
                raise InputError("labeling was stopped.")
            with self._lock:
                now = time.monotonic()
                if now >= self._next:
                    per_minute = self._endpoint.requests_per_minute
                    self._next = now + 60 / per_minute if per_minute else now
                    return
                wait = self._next - now
            self._stopped.wait(wait)

    def _pause(self, seconds: float) -> None:
        """Let all threads wait: the server has had enough of all of them."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + min(seconds, _LONGEST_WAIT))


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    try:
        return float(error.headers.get("Retry-After") or "")
    except ValueError:
        return None
