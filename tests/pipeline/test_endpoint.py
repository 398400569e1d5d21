"""An LLM behind an endpoint: every request goes over HTTP to a small server in this process."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from noisyteacher.cli.label import EPILOG, label
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.importers import parse_classes
from noisyteacher.pipeline.endpoint import Endpoint, EndpointTeacher

TWO = parse_classes("positive,negative")
Answer = tuple[int, dict[str, Any], dict[str, str]]


def sentiment(text: str) -> str:
    return "Positive" if "good" in text else "negative"


class Server:
    """A model that finds "good" positive and the rest negative, with some faults on demand."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.faults: list[Answer] = []  # sent before anything else
        self.logprobs = True
        self.answer: Callable[[str], str] = lambda text: (
            "Positive" if "good" in text else "negative"
        )
        self.most_at_once = self._now = 0
        self.seconds = 0.0
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                code, content, headers = server.respond(self.path, body, dict(self.headers))
                payload = json.dumps(content).encode()
                self.send_response(code)
                for name, value in {"Content-Length": str(len(payload)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *arguments: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def respond(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            fault = self.faults.pop(0) if self.faults else None
        time.sleep(self.seconds)
        with self._lock:
            self._now -= 1
        if path != "/v1/chat/completions":
            return 404, {"error": {"message": "no such path"}}, {}
        if fault is not None:
            return fault
        if not self.logprobs and "logprobs" in body:
            return 400, {"error": {"message": "Unsupported parameter: 'logprobs'."}}, {}
        text = self.answer(body["messages"][0]["content"].rsplit("Text: ", 1)[1])
        choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": text}}
        if "logprobs" in body:
            shares = {text: 0.8, "negative" if text == "Positive" else "Positive": 0.2}
            top = [{"token": token, "logprob": math.log(p)} for token, p in shares.items()]
            choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
        usage = {"prompt_tokens": 50, "completion_tokens": 2}
        return 200, {"choices": [choice | {"finish_reason": "stop"}], "usage": usage}, {}

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    started = Server()
    yield started
    started.close()


def teacher(server: Server, **options: Any) -> EndpointTeacher:
    own = {"base_url": server.url, "first_wait": 0.01, "concurrency": 4}
    names = ("concurrency", "requests_per_minute", "retries", "max_tokens", "timeout")
    own |= {name: options.pop(name) for name in names if name in options}
    return EndpointTeacher("a-model", TWO, Endpoint(**own), **options)


def labels_of(asked: EndpointTeacher, texts: list[str]) -> TeacherLabels:
    return asked.label(np.arange(len(texts)), texts, 256, 0)


def failing(code: int, message: str = "", **headers: str) -> Answer:
    return (
        code,
        {"error": {"message": message}},
        {n.replace("_", "-"): v for n, v in headers.items()},
    )


def test_texts_become_labels_with_logprobs(server: Server) -> None:
    labels = labels_of(teacher(server), ["a good film", "a bad film", "good {text} good"])
    assert labels.hard.tolist() == [0, 1, 0]
    np.testing.assert_allclose(labels.probs[0], [0.8, 0.2], atol=1e-3)
    assert labels.teacher == "openai:a-model"
    body = next(b for b in server.requests if "{text}" in b["messages"][0]["content"])
    assert (body["model"], body["temperature"], body["top_logprobs"]) == ("a-model", 0, 20)
    prompt = body["messages"][0]["content"]
    assert "positive, negative" in prompt
    assert prompt.endswith("Text: good {text} good\nClass:")
    assert server.headers[0]["Authorization"] == "Bearer a-key"


def test_a_server_without_logprobs_gives_hard_labels(server: Server) -> None:
    server.logprobs = False
    labels = labels_of(teacher(server), ["good", "bad"])
    assert labels.probs.tolist() == [[1, 0], [0, 1]]
    assert "logprobs" not in server.requests[-1]
    before = len(server.requests)
    labels_of(teacher(server, concurrency=1), ["good", "bad", "bad"])
    assert len(server.requests) == before + 4  # it is asked for them once


@pytest.mark.parametrize(
    ("message", "gone", "there"),
    [
        ("Use 'max_completion_tokens' instead.", "max_tokens", "max_completion_tokens"),
        ("'temperature' does not support 0", "temperature", "logprobs"),
        ("top_logprobs must be at most 5", "x", "top_logprobs"),
    ],
)
def test_parameters_that_a_server_does_not_know(
    server: Server, message: str, gone: str, there: str
) -> None:
    server.faults = [failing(400, message)]
    assert labels_of(teacher(server), ["good"]).hard.tolist() == [0]
    assert gone not in server.requests[-1]
    assert there in server.requests[-1]


@pytest.mark.parametrize("code", [429, 500, 503, 529])
def test_what_fails_for_a_while_is_sent_again(server: Server, code: int) -> None:
    server.faults = [failing(code), failing(code)]
    assert labels_of(teacher(server), ["good"]).hard.tolist() == [0]
    assert len(server.requests) == 3


def test_the_server_says_how_long_to_wait(server: Server) -> None:
    server.faults = [failing(429, Retry_After="0.3")]
    labels_of(teacher(server), ["good"])
    assert server.times[1] - server.times[0] >= 0.29


def test_back_off_grows(server: Server) -> None:
    server.faults = [failing(500)] * 5
    labels_of(teacher(server), ["good"])
    gaps = np.diff(server.times)
    assert (gaps >= 0.75 * 0.01 * 2.0 ** np.arange(5)).all()


def test_giving_up_says_how_to_go_on(server: Server) -> None:
    server.faults = [failing(503)] * 10
    with pytest.raises(InputError, match=r"failed 3 times, last with 503 .*start the same command"):
        labels_of(teacher(server, retries=2), ["good"])
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (401, "refuses the key"),
        (403, "refuses access"),
        (404, "not know the model"),
        (302, "sends"),
    ],
)
def test_what_no_retry_can_help_stops(server: Server, code: int, told: str) -> None:
    server.faults = [failing(code, "no", Location="http://127.0.0.1:9/")]
    with pytest.raises(InputError, match=told):
        labels_of(teacher(server, concurrency=1), ["good", "bad"])
    assert len(server.requests) == 1


def test_one_text_that_cannot_be_answered_is_set_aside(server: Server) -> None:
    server.faults = [failing(400, "This text is too long.")]
    asked = teacher(server, concurrency=1)
    labels = labels_of(asked, ["good", "bad", "good"])
    assert labels.ids.tolist() == [1, 2]
    ((key, (reason, answer)),) = (asked.rejected or {}).items()
    assert (key, reason) == (0, "error")
    assert "too long" in answer


def test_too_many_answers_without_a_class_stop(server: Server) -> None:
    server.logprobs = False
    server.answer = lambda text: "Mixed" if "so-so" in text else "positive"
    with pytest.raises(InputError, match=r"2 of 4 answers .* 'Mixed' \(2\).*--allow-rejected"):
        labels_of(teacher(server), ["a", "so-so", "b", "so-so"])
    labels = labels_of(teacher(server, allow_rejected=True), ["a", "so-so", "b", "so-so"])
    assert labels.ids.tolist() == [0, 2]


def test_requests_at_a_time(server: Server) -> None:
    server.seconds = 0.05
    labels_of(teacher(server, concurrency=3), ["good"] * 12)
    assert server.most_at_once == 3


def test_requests_per_minute(server: Server) -> None:
    labels_of(teacher(server, requests_per_minute=600), ["good"] * 5)
    assert server.times[-1] - server.times[0] >= 0.2


def test_examples_never_show_a_text_its_own_label(server: Server) -> None:
    asked = teacher(server, examples=[("fine", "positive"), ("dull", "negative")])
    assert "Text: fine\nClass: positive\n" in asked.ask("other")
    prompt = asked.ask("fine")
    assert "Class: positive" not in prompt
    assert "Text: dull\nClass: negative\n" in prompt


def test_settings_that_change_answers_change_the_fingerprint(server: Server) -> None:
    first = teacher(server).fingerprint()
    assert first == teacher(server, concurrency=1).fingerprint()
    assert first != teacher(server, max_tokens=5).fingerprint()
    assert first != teacher(server, prompt="Say {classes}: {text}").fingerprint()
    assert first != teacher(server, examples=[("a", "positive")]).fingerprint()
    with pytest.raises(InputError, match=r"hold \{text\} exactly once"):
        teacher(server, prompt="Say {classes}.")


def test_addresses_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="needs a key in the environment variable OPENAI_API_KEY"):
        _ = Endpoint().key
    assert Endpoint("http://127.0.0.1:8000/v1/").url == "http://127.0.0.1:8000/v1"
    assert Endpoint("http://127.0.0.1:8000/v1").key is None
    with pytest.raises(InputError, match="must begin with http"):
        _ = Endpoint("file:///etc").url
    monkeypatch.setenv("OPENAI_BASE_URL", "https://example.org/v1")
    monkeypatch.setenv("MY_KEY", "k")
    assert (Endpoint().url, Endpoint(key_variable="MY_KEY").key) == ("https://example.org/v1", "k")


# The command.


def run(*arguments: object) -> Any:
    app = typer.Typer()
    app.command(epilog=EPILOG)(label)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "pool.csv"
    rows = [f"p{row},a {'good' if row % 3 else 'bad'} film {row}" for row in range(30)]
    path.write_text("id,text\n" + "\n".join(rows) + "\n")
    return path


def command(server: Server, pool: Path, *more: object) -> tuple[object, ...]:
    out = pool.with_name("labels")
    names = ("--classes", "positive,negative")
    return ("openai:a-model", pool, "--base-url", server.url, *names, "--out", out, *more)


def test_the_command_labels_a_file(server: Server, pool: Path) -> None:
    result = run(*command(server, pool, "--price", "0.15,0.60"))
    assert result.exit_code == 0, result.exception
    assert "30 texts: about" in result.stderr
    assert "at these prices" in result.stderr
    labels = TeacherLabels.open(pool.with_name("labels"))
    assert len(labels) == 30
    assert labels.hard.tolist() == [0 if row % 3 else 1 for row in range(30)]


def test_the_estimate_asks_once(server: Server, pool: Path) -> None:
    result = run(*command(server, pool, "--estimate"))
    assert result.exit_code == 0, result.exception
    assert "60 out" in result.stdout
    assert len(server.requests) == 1
    assert not pool.with_name("labels").exists()
    assert "two numbers" in str(run(*command(server, pool, "--price", "x")).exception)


def test_a_stopped_labeling_goes_on_with_its_shards(server: Server, pool: Path) -> None:
    arguments = command(server, pool, "--shard-size", 10, "--concurrency", 1, "--retries", 0)
    asked = 0

    def answer(text: str) -> str:
        nonlocal asked
        asked += 1
        if asked == 17:  # one for the estimate, ten for the first shard
            server.faults = [failing(503)]
        return "positive"

    server.answer = answer
    result = run(*arguments)
    assert isinstance(result.exception, InputError)
    assert not pool.with_name("labels").exists()
    server.answer, before = lambda text: "positive", len(server.requests)
    result = run(*arguments)
    assert result.exit_code == 0, result.exception
    assert "Continuing with the finished shards" in result.stderr
    assert len(server.requests) - before == 21  # the estimate, and two shards of ten
    assert len(TeacherLabels.open(pool.with_name("labels"))) == 30


def test_examples_from_a_gold_file_and_a_prompt_of_ones_own(server: Server, pool: Path) -> None:
    gold, prompt = pool.with_name("gold.csv"), pool.with_name("prompt.txt")
    gold.write_text("id,text,label\na,one,Negative\nb,two,positive\nc,three,negative\n")
    prompt.write_text("{examples}\nWhich of {classes}?\nText: {text}")
    options = ("--examples", gold, "--shots", 1, "--prompt", prompt)
    result = run(*command(server, pool, *options))
    assert result.exit_code == 0, result.exception
    sent = server.requests[-1]["messages"][0]["content"]
    assert sent.startswith("\nText: two\nClass: positive\n\nText: one\nClass: negative\n")
    assert "three" not in sent
    assert "Which of positive, negative?" in sent


def test_what_has_no_label_is_listed(server: Server, pool: Path) -> None:
    server.logprobs = False
    server.answer = lambda text: "I cannot say." if "film 3\n" in text else "positive"
    with pytest.warns(NoisyTeacherWarning, match="1 rows have no label"):
        result = run(*command(server, pool))
    assert result.exit_code == 0, result.exception
    (row,) = pool.with_name("labels.rejected.jsonl").read_text().splitlines()
    assert (json.loads(row)["id"], json.loads(row)["reason"]) == ("p3", "refused")


def test_options_of_endpoints_are_refused_elsewhere(server: Server, pool: Path) -> None:
    result = run("openai:m", pool, "--out", pool.with_name("x"), "--base-url", server.url)
    assert "needs --classes" in str(result.exception)
