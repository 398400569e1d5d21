"""Classes as users name them: a list of names, or a JSON file with the answers of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.labels.checks import clean_classes

# Class name to its answers: the name itself first, then its synonyms.
ClassAnswers = dict[str, tuple[str, ...]]


def parse_classes(text: str) -> ClassAnswers:
    """Read ``positive,negative`` or the path of a ``.json`` file.

    The file holds a list of names, or an object from each name to its synonyms:
    ``{"positive": ["pos", "good"], "negative": ["neg"]}``. A name always counts as an answer.
    """
    if text.endswith(".json"):
        return _from_json(Path(text))
    return with_synonyms({name.strip(): () for name in _split(text)})


def with_synonyms(synonyms: dict[str, tuple[str, ...]]) -> ClassAnswers:
    """Check the names and put each before its own synonyms."""
    names = clean_classes(list(synonyms))
    return {name: tuple(dict.fromkeys((name, *synonyms[name]))) for name in names}


def _split(text: str) -> list[str]:
    names = text.split(",")
    stripped = [name.strip() for name in names]
    if "" in stripped:
        raise InputError(f"{text!r} has an empty class name.")
    return list(clean_classes(stripped))


def _from_json(path: Path) -> ClassAnswers:
    try:
        content = orjson.loads(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error.msg} (line {error.lineno}).") from error
    if isinstance(content, list):
        return with_synonyms(dict.fromkeys(clean_classes(content), ()))
    if not isinstance(content, dict):
        raise InputError(
            f"{path} must hold a list of class names or an object from each to a list."
        )
    return with_synonyms({name: _answers(name, given, path) for name, given in content.items()})


def _answers(name: str, given: Any, path: Path) -> tuple[str, ...]:
    answers = [given] if isinstance(given, str) else given
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise InputError(f"{path}: the answers of {name!r} must be strings, got {given!r}.")
    return tuple(answers)
