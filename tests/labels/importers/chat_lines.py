"""Chat completions as lines, for the tests of importing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

# One place of an answer: the sampled token, and the probability of each candidate.
Place = tuple[str, dict[str, float]]


def chat_content(places: Sequence[Place]) -> list[dict[str, Any]]:
    return [
        {
            "token": sampled,
            "logprob": math.log(candidates[sampled]),
            "bytes": list(sampled.encode()),
            "top_logprobs": [
                {"token": token, "logprob": math.log(p), "bytes": list(token.encode())}
                for token, p in candidates.items()
            ],
        }
        for sampled, candidates in places
    ]


def chat_body(places: Sequence[Place]) -> dict[str, Any]:
    text = "".join(sampled for sampled, _ in places)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": None},
        "logprobs": {"content": chat_content(places), "refusal": None},
        "finish_reason": "stop",
    }
    return {"id": "chatcmpl-0", "object": "chat.completion", "model": "m", "choices": [choice]}


def batch_line(name: str, places: Sequence[Place], compact: bool = False) -> str:
    response = {"status_code": 200, "request_id": "r", "body": chat_body(places)}
    line = {"id": "b", "custom_id": name, "response": response, "error": None}
    return json.dumps(line, separators=(",", ":") if compact else None)


def plain_line(name: str, positive: float, negative: float) -> str:
    """A one-token answer with these probabilities."""
    sampled = "positive" if positive >= negative else "negative"
    return batch_line(name, [(sampled, {"positive": positive, "negative": negative})])
