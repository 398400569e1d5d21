"""Tokens to classes, against cases worked out by hand and against a plain recursion."""

from __future__ import annotations

import math

import pytest
from chat_lines import Place, chat_content
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyteacher.core.errors import InputError
from noisyteacher.labels.importers import with_synonyms
from noisyteacher.labels.importers.answers import NO_CLASS, SEVERAL_CLASSES, Answers
from noisyteacher.labels.importers.responses import chat_positions


def answers(*classes: str, **synonyms: str) -> Answers:
    return Answers(with_synonyms({c: tuple(synonyms.get(c, "").split()) for c in classes}))


def share(given: Answers, *places: Place) -> tuple[list[float], int]:
    mass, answer = given.share_out(chat_positions(chat_content(places)))
    return mass, answer


def test_spellings_of_one_answer_add_up() -> None:
    candidates = {
        " positive": 0.4,
        "Positive.": 0.2,
        "**POSITIVE": 0.1,
        "negative": 0.2,
        "so": 0.05,
    }
    mass, answer = share(answers("positive", "negative"), (" positive", candidates))
    assert mass == pytest.approx([0.7, 0.2])
    assert answer == 0


@pytest.mark.parametrize(
    "token", ["▁good", "Ġgood", "Ċgood", "\n\n good", '"good"', "(good)", "Good,"]
)
def test_white_space_and_punctuation_are_set_aside(token: str) -> None:
    assert answers("good", "bad").meaning(token).label == 0


@pytest.mark.parametrize("token", ["goods", "go od", "good-ish", "-good", ""])
def test_other_texts_are_no_whole_answer(token: str) -> None:
    assert not answers("good", "bad").meaning(token).whole


def test_synonyms_count_for_their_class() -> None:
    given_answers = answers("positive", "negative", positive="good 1", negative="bad 0")
    mass, _ = share(given_answers, ("1", {"1": 0.5, "0": 0.1, "good": 0.2, "Bad": 0.1}))
    assert mass == pytest.approx([0.7, 0.2])


def test_beginning_of_one_class_counts_where_nothing_follows() -> None:
    mass, answer = share(answers("positive", "negative"), ("pos", {"pos": 0.6, "neg": 0.3}))
    assert mass == pytest.approx([0.6, 0.3])
    assert answer == 0


def test_sampled_beginning_is_followed() -> None:
    mass, answer = share(
        answers("positive", "negative"),
        ("pos", {"pos": 0.6, "neg": 0.3}),
        ("itive", {"itive": 0.9, "sibly": 0.1}),
    )
    assert mass == pytest.approx([0.54, 0.3])
    assert answer == 0


def test_beginning_of_several_classes_is_split_by_what_follows() -> None:
    mass, answer = share(
        answers("unsure", "unhappy", "happy"),
        (" un", {" un": 0.6, "happy": 0.3}),
        ("happy", {"happy": 0.5, "sure": 0.3, "ique": 0.1}),
    )
    assert mass == pytest.approx([0.18, 0.30, 0.3])
    assert answer == 1


def test_beginning_of_several_classes_is_missing_where_nothing_follows() -> None:
    three = answers("unsure", "unhappy", "happy")
    assert share(three, ("un", {"un": 0.6, "happy": 0.3})) == (
        pytest.approx([0, 0, 0.3]),
        SEVERAL_CLASSES,
    )
    # "un" was not sampled here, so what follows says nothing about it.
    mass, answer = share(three, ("happy", {"happy": 0.6, "un": 0.3}), (".", {".": 1.0}))
    assert mass == pytest.approx([0, 0, 0.6])
    assert answer == 2


def test_three_positions_are_followed() -> None:
    mass, _ = share(
        answers("very good", "very bad"),
        ('"', {'"': 0.8, "Very": 0.1}),
        ("very", {"very": 0.5, "Very": 0.25}),
        (" good", {" good": 0.75, " bad": 0.25}),
    )
    # 0.8 * 0.5 * (0.75, 0.25); the unsampled "Very" begin both.
    assert mass == pytest.approx([0.3, 0.1])


def test_refusal_that_starts_like_a_class_is_no_label() -> None:
    mass, answer = share(
        answers("insult", "praise"),
        ("I", {"I": 0.9, "praise": 0.05}),
        (" cannot", {" cannot": 0.8, "nsult": 0.1}),
    )
    assert mass == pytest.approx([0.09, 0.05])
    assert answer == NO_CLASS


def test_answer_that_begins_a_longer_one_is_decided_by_the_next_position() -> None:
    two = answers("no", "not sure")
    mass, answer = share(
        two, ("no", {"no": 0.8, "not": 0.1}), (".", {".": 0.6, "t": 0.1, "<eos>": 0.2})
    )
    assert mass == pytest.approx([0.8 * 0.8, 0.1 + 0.8 * 0.1])
    assert answer == 0
    mass, answer = share(two, ("no", {"no": 0.8, "not": 0.1}))
    assert mass == pytest.approx([0.8, 0.1])
    assert answer == 0


def test_sampled_token_outside_the_list_counts() -> None:
    content = chat_content([("positive", {"positive": 0.3, "negative": 0.5})])
    del content[0]["top_logprobs"][0]
    two = answers("positive", "negative")
    assert two.share_out(chat_positions(content)).mass == pytest.approx([0.3, 0.5])
    fast = two.share_out_fast(content)
    assert fast is not None
    assert (fast.mass, fast.answer) == (pytest.approx([0.3, 0.5]), 0)
    assert content[0]["top_logprobs"][0]["token"] == "negative"


def test_same_answer_for_two_classes_is_refused() -> None:
    with pytest.raises(InputError, match=r"'yes' and 'no' have the same answer, 'Y\.'"):
        answers("yes", "no", yes="y", no="Y.")
    with pytest.raises(InputError, match="holds nothing but white space and"):
        answers("...", "no")


PIECES = ["", " ", "po", "pos", "posh", "itive", "sitive", "ne", "no", "t", "ne.", "X", "Positive"]


@st.composite
def places(draw: st.DrawFn) -> list[Place]:
    found = []
    for _ in range(draw(st.integers(1, 3))):
        tokens = draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5, unique=True))
        weights = [draw(st.integers(1, 9)) for _ in range(len(tokens) + 1)]
        probs = {t: w / sum(weights) for t, w in zip(tokens, weights[1:], strict=True)}
        found.append((draw(st.sampled_from(tokens)), probs))
    return found


def reference(found: list[Place], by_answer: dict[str, int], before: str = "") -> list[float]:
    """The rules again, as a recursion over plain strings."""

    def classes_of(text: str) -> tuple[int | None, set[int]]:
        clean = text.lower().strip(" .")
        begins = {
            c for a, c in by_answer.items() if a != clean and a.startswith(text.lower().lstrip())
        }
        return by_answer.get(clean), begins

    mass = [0.0, 0.0]
    whole_before = classes_of(before)[0] if before else None
    sampled, probs = found[0]
    for token, p in probs.items():
        whole, begins = classes_of(before + token)
        open_end = begins - {whole} if whole is not None else begins
        if token == sampled and open_end and len(found) > 1:
            below = reference(found[1:], by_answer, before + token)
            mass = [m + p * b for m, b in zip(mass, below, strict=True)]
        elif whole is not None:
            mass[whole] += p
        elif len(begins) == 1:
            mass[begins.pop()] += p
        elif not begins and whole_before is not None:
            mass[whole_before] += p
    return mass


@settings(max_examples=150, deadline=None)
@given(places())
def test_agrees_with_a_plain_recursion(found: list[Place]) -> None:
    two = answers("positive", "no", positive="posh", no="ne not")
    by_answer = {"positive": 0, "posh": 0, "no": 1, "ne": 1, "not": 1}
    expected = reference(found, by_answer)
    content = chat_content(found)
    assert two.share_out(chat_positions(content)).mass == pytest.approx(expected)
    fast = two.share_out_fast(content)
    assert fast is None or fast.mass == pytest.approx(expected)
    assert sum(expected) <= 1 + 1e-9


def test_the_fast_way_is_taken_for_whole_answers_only() -> None:
    two = answers("no", "not sure")
    assert two.share_out_fast(chat_content([("not sure", {"not sure": 0.5})])) is not None
    for token in ("no", "not", "maybe", ""):
        assert two.share_out_fast(chat_content([(token, {token: 0.5})])) is None


def test_logprobs_of_minus_infinity_in_all_but_name() -> None:
    content = chat_content([("good", {"good": 1.0, "bad": 0.5})])
    content[0]["top_logprobs"][1]["logprob"] = -9999.0
    assert answers("good", "bad").share_out_fast(content) == ([1.0, 0.0], 0)
    assert math.exp(-9999.0) == 0.0
