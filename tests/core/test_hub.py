"""A model that cannot be had is refused at once, not after half a minute of retries."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from noisyteacher.core import hub
from noisyteacher.core.errors import InputError
from noisyteacher.core.hub import check_model_name

pytest.importorskip("huggingface_hub")


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A port of this machine at which nothing answers, and no proxy on the way."""
    from huggingface_hub import constants

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    for name in hub._PROXIES:
        monkeypatch.delenv(name, raising=False)


def test_an_unknown_name() -> None:
    with pytest.raises(InputError, match="'bert-tiny' is neither a folder nor in the local cache"):
        check_model_name("bert-tiny")


def test_offline_mode_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub, "_reachable", lambda address: pytest.fail("asked"))
    with pytest.raises(InputError, match="hub cannot be reached"):
        check_model_name("bert-tiny")


@pytest.mark.parametrize("path", ["./models/bert", "/models/bert", "~/bert-x", "a/b/c"])
def test_a_path_that_is_not_there(path: str) -> None:
    with pytest.raises(InputError, match=f"There is no model folder '{path}'"):
        check_model_name(path)


def test_a_folder(tmp_path: Path) -> None:
    check_model_name(tmp_path)


def test_a_hub_that_answers_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        check_model_name("bert-tiny")


def test_behind_a_proxy_the_library_finds_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    check_model_name("bert-tiny")
