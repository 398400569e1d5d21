"""Models by folder or name, loaded without running their code.

They are refused at once where the Hugging Face hub cannot be asked for them.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from noisyteacher.core.errors import InputError
from noisyteacher.core.integrity import file_sha256
from noisyteacher.core.user_code import import_extra

# What Transformers raises for a folder that it cannot read. A TypeError comes from a configuration
# file that does not hold an object.
LOADING_ERRORS = (OSError, ValueError, TypeError)

_MODEL_FILES = (".safetensors", ".bin", ".json", ".txt", ".model")
_SECONDS = 3.0
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def check_model_name(name: str | Path) -> None:
    """Refuse a model that is no folder, is not in the local cache, and cannot be downloaded.

    Without this check, Transformers retries for half a minute before it reports an error.
    """
    if Path(name).exists():
        return
    text = str(name)
    if text.startswith((".", "/", "~")) or text.count("/") > 1 or "\\" in text:
        raise InputError(f"There is no model folder {text!r}.")
    from huggingface_hub import constants, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(text, "config.json"), str):
        return
    if constants.HF_HUB_OFFLINE or not _reachable(constants.ENDPOINT):
        raise InputError(
            f"The model {text!r} is neither a folder nor in the local cache, and the Hugging Face "
            "hub cannot be reached. Check the name, or give the folder of a downloaded model."
        )


def without_tilde(name: str | Path) -> str:
    """The name of a model, or its folder with the user's home in place of ``~``."""
    return os.path.expanduser(name)  # noqa: PTH111  Path would make a name, bert, of ./bert


def _reachable(address: str) -> bool:
    if any(os.environ.get(name) for name in _PROXIES):
        return True  # a proxy answers for it, which only the library itself can find out
    place = urlsplit(address)
    port = place.port or (80 if place.scheme == "http" else 443)
    try:
        with socket.create_connection((place.hostname or "", port), _SECONDS):
            return True
    except OSError:
        return False


def load_pretrained(auto: str, name: str, kind: str, **options: Any) -> Any:
    """What the class ``auto`` of Transformers loads by that name; ``kind`` stands in errors."""
    transformers = import_extra("transformers", "hf", f"{kind.capitalize()}s need transformers")
    check_model_name(name)
    place: ModuleType = transformers
    if auto == "AutoImageProcessor":
        # Some releases of Transformers 5 offer it at the top only where torchvision is installed,
        # although Pillow is enough for it.
        from transformers.models.auto import image_processing_auto

        place = image_processing_auto
    try:
        with quiet_loading(transformers):
            return getattr(place, auto).from_pretrained(name, trust_remote_code=False, **options)
    except LOADING_ERRORS as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"No {kind} could be loaded from {name!r}: {first}") from error


def model_digest(name: str | Path, settings: str = "") -> str:
    """Tells a model and its ``settings`` from others: by the files of its folder, or by its name
    and revision on the hub.
    """
    found = hashlib.sha256(settings.encode())
    folder = Path(name)
    if folder.is_dir():
        for path in sorted(folder.rglob("*")):
            if path.suffix in _MODEL_FILES:
                found.update(str(path.relative_to(folder)).encode())
                found.update(bytes.fromhex(file_sha256(path)))
    else:
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(str(name), "config.json")
        revision = Path(config).parent.name if isinstance(config, str) else None
        found.update(f"{name} {revision}".encode())
    return found.hexdigest()


@contextmanager
def quiet_loading(transformers: ModuleType) -> Iterator[None]:
    """Without a report on weights that are new or unused, and without bars where nobody watches."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
