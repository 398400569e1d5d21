"""From an LLM's answers with log-probabilities to a label store, and how far to trust it.

    python examples/llm_logprobs.py

The answers are made up here, in the shape of a batch output file; yours come from the API, asked
with logprobs=true and top_logprobs=20. The same from a shell:

    noisyteacher import answers.jsonl --classes positive,negative --out labels
"""

import json
import math
import tempfile
from pathlib import Path

import numpy as np

from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.importers import import_llm, parse_classes
from noisyteacher.noise import TeacherNoise


def answer(name: str, probs: dict[str, float]) -> str:
    """One line of a batch output: the first token of an answer, with its candidates."""
    listed = [{"token": token, "logprob": math.log(p)} for token, p in probs.items()]
    first = max(listed, key=lambda entry: entry["logprob"])
    choice = {
        "message": {"role": "assistant", "content": first["token"]},
        "logprobs": {"content": [first | {"top_logprobs": listed}]},
    }
    body = {"object": "chat.completion", "model": "some-llm", "choices": [choice]}
    return json.dumps({"custom_id": name, "response": {"status_code": 200, "body": body}})


def main() -> None:
    rng = np.random.default_rng(0)
    ids = [f"review-{row}" for row in range(400)]
    y = rng.integers(0, 2, 400)  # 0 positive, 1 negative; known for the first hundred only
    strength = rng.normal(1.5 * (1 - 2 * y), 1.5)  # how positive the LLM finds each review
    sure = 0.95 / (1 + np.exp(-strength))
    with tempfile.TemporaryDirectory() as folder:
        answers, store = Path(folder, "answers.jsonl"), Path(folder, "labels")
        said = [{" Positive": p, "negative": 0.95 - p, "It": 0.05} for p in sure.tolist()]
        answers.write_text("\n".join(map(answer, ids, said)))

        imported = import_llm([answers], parse_classes("positive,negative"))
        imported.labels.save(store)
        labels = TeacherLabels.open(store)

    noise = TeacherNoise().fit(labels.take(ids[:100]), y[:100])
    trust = noise.predict(labels.take(ids[100:]))
    print(f"{imported.lines} answers, {len(labels)} labels, {labels.missing.mean():.3f} missing")
    print(f"trusted: {trust.alpha.mean():.3f} on average, at most {trust.alpha.max():.3f}")
    print(f"teacher accuracy {(labels.hard == y).mean():.3f}")


if __name__ == "__main__":
    main()
