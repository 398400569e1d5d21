"""The page of a run that goes on, and the command that writes or serves pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import orjson
import pytest
import typer
from report_runs import row, write_rows
from typer.testing import CliRunner

from noisyteacher.cli.report import report
from noisyteacher.core.errors import InputError
from noisyteacher.report.page import has_extra
from noisyteacher.report.watch import PageServer
from noisyteacher.runs import Row, read_rows
from noisyteacher.runs.folder import ProgressFile

pytestmark = pytest.mark.skipif(
    not has_extra(), reason="charts need the extra [report]: altair, vl-convert, jinja2"
)

app = typer.Typer()
app.command()(report)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    write_rows(tmp_path, [])
    with PageServer(tmp_path) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def get(server: PageServer, path: str, host: str | None = None) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    status, text = answer.status, answer.read().decode()
    connection.close()
    return status, text


def test_the_page_follows_the_run(server: PageServer) -> None:
    status, page = get(server, "/")
    assert status == 200
    assert "No student has finished yet" in page
    before = orjson.loads(get(server, "/state")[1])
    assert before["progress"] == ""
    write_rows(server.run, [row("SLaM()")])
    line = {"student": "next_one", "epoch": 7, "loss": 0.25, "test": 81.5}
    (server.run / "curves.jsonl").write_bytes(orjson.dumps(line) + b'\n{"student": "cut')
    after = orjson.loads(get(server, "/state")[1])
    assert after["version"] != before["version"]
    assert after["progress"] == (
        "1 students have finished. Training next_one: epoch 7, loss 0.25, test accuracy 81.5."
    )
    assert "SLaM()" in get(server, "/")[1]
    assert orjson.loads(get(server, "/state")[1]) == after


def test_a_poll_reads_nothing_that_has_not_changed(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("read for a poll")

    for name in ("read_command_log", "read_audit", "read_comparison", "_read_json"):
        monkeypatch.setattr(f"noisyteacher.report.page_source.{name}", never)
    parsed = []

    def counted(path: Path) -> list[Row]:
        parsed.append(path.name)
        return read_rows(path)

    monkeypatch.setattr("noisyteacher.report.watch.read_rows", counted, raising=False)
    (server.run / "audit.json").write_text("{}")
    (server.run / "curves.jsonl").write_text('{"student": "s", "epoch": 1}\n')
    for finished in (1, 2):
        write_rows(server.run, [row("SLaM()", trial) for trial in range(finished)])
        for _ in range(3):
            state = orjson.loads(server.state())
            assert state["progress"].startswith(f"{finished} students have finished.")
    assert parsed == ["results.jsonl"] * 2


def test_only_this_machine_gets_only_the_page(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert get(server, "/results.jsonl")[0] == 404
    assert get(server, "/../recipe.json")[0] == 404
    assert get(server, "/", host="evil.example:80")[0] == 403
    assert get(server, "/", host=f"localhost:{server.server_port}")[0] == 200


def test_a_damaged_run_is_an_answer_not_a_crash(server: PageServer) -> None:
    (server.run / "recipe.json").write_text("{")
    status, text = get(server, "/")
    assert status == 500
    assert "not JSON" in text
    write_rows(server.run, [row("SLaM()")])
    assert get(server, "/")[0] == 200


def test_ctrl_c_stops_the_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(server: PageServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PageServer, "serve_forever", interrupted)
    write_rows(tmp_path, [row("SLaM()")])
    result = CliRunner().invoke(app, [str(tmp_path), "--watch"])
    assert result.exit_code == 0
    assert "http://127.0.0.1:" in result.output
    assert "Stopped." in result.output


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    write_rows(tmp_path, [row("SLaM()")])
    result = CliRunner().invoke(app, [str(tmp_path)])
    assert result.exit_code == 0
    assert str(tmp_path / "report.html") in result.output.replace("\n", "")
    out = tmp_path / "elsewhere" / "page.html"
    result = CliRunner().invoke(app, [str(tmp_path), "--out", str(out), "--json"])
    assert orjson.loads(result.output) == {"report": str(out)}
    assert out.exists()
    result = CliRunner().invoke(app, [str(tmp_path), "--out", str(out), "--watch"])
    assert isinstance(result.exception, InputError)


def test_progress_has_a_share_and_the_time_left(server: PageServer, monkeypatch) -> None:
    assert orjson.loads(server.state())["done"] is None
    now = [100.0]
    monkeypatch.setattr("noisyteacher.runs.folder.time.monotonic", lambda: now[0])
    saved = ProgressFile(server.run)
    now[0] = 110.0
    saved.write("Training SLaM(), fold 2", 5, 20)
    state = orjson.loads(server.state())
    assert state["done"] == 0.25
    assert state["progress"] == "Training SLaM(), fold 2: 5 of 20 steps, about 30 s left."
    now[0] = 110.5
    saved.write("too soon", 6, 20)
    assert orjson.loads(server.state()) == state
    saved.write("Training has finished", 20, 20)
    assert orjson.loads(server.state())["done"] == 1
    (server.run / "progress.json").write_text("{")
    assert orjson.loads(server.state())["done"] is None


def test_without_a_folder_nothing_is_written() -> None:
    ProgressFile(None).write("anything", 1, 2)


def test_open_shows_the_page_in_the_browser(tmp_path: Path, monkeypatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    write_rows(tmp_path, [row("SLaM()")])
    result = CliRunner().invoke(app, [str(tmp_path), "--html", str(tmp_path / "a.html"), "--open"])
    assert result.exit_code == 0, result.output
    assert opened == [str(tmp_path / "a.html")]
