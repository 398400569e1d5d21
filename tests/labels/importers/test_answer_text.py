"""Texts of answers to classes: every way to name one, and what must stay without a label."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyteacher.core.errors import InputError
from noisyteacher.labels.importers import parse_classes, with_synonyms
from noisyteacher.labels.importers.answer_text import AnswerReader, Reading

NAMES = ("World", "Sports", "Business", "Sci/Tech")
READER = AnswerReader(parse_classes(",".join(NAMES)))


def names(reading: Reading) -> str:
    return " ".join(NAMES[number] for number in reading.classes)


ONE_CLASS = {
    "class": [
        "Sports",
        "sports",
        "SPORTS.",
        " 'Sports' ",
        "**Sports**",
        "`Sports`",
        "_Sports_",
        "- Sports",
        "* Sports",
        "• Sports",
        "## Sports",
        "> Sports",
        "1. Sports",
        "B) Sports",
        "(b) Sports",
        "Sports!",
        "Sports?",
        "[Sports]",
        "<b>Sports</b>",
        "```\nSports\n```",
        "```text\nSports\n```",
        "<answer>Sports</answer>",
        "Some thoughts. <answer>\nSports\n</answer>",
        "\\boxed{Sports}",
        "$\\boxed{\\text{Sports}}$",
        "<think>World? It says world.</think>\n\nSports",
        "<think></think>Sports",
        "It says World.</think>Sports",
        "<reasoning>World</reasoning>Sports",
        "<|channel|>analysis<|message|>World?<|end|><|channel|>final<|message|>Sports",
        "Sports<|im_end|>",
        "Sports\u200b",
    ],
    "marked": [
        "Answer: Sports",
        "**Answer:** Sports",
        "**Category**: Sports",
        "Final answer: **Sports**.",
        "Label = Sports",
        "Predicted category: Sports",
        "The correct label: Sports",
        "Topic -> Sports",
        "Category:\nSports",
        "Label: Sports\nReason: It is about the World Cup and Business deals.",
        "Reasoning: a World leader watched a match.\nAnswer: Sports",
        "World is tempting, but it is a match report. Final answer: Sports",
        "Possible label: World\nAnswer: World\nFinal answer: Sports",
        "Answer: It is Sports, because of the match.",
        "Category: Sports\nReason: a mistake cost the team the World Cup.",
        "<think>hm</think>Category: Sports",
    ],
    "prose": [
        "The category is Sports.",
        "This is Sports.",
        "It's sports!",
        "It is about sports.",
        "I would say it's Sports.",
        "I think this is about sports.",
        "I'm fairly sure it's Sports",
        "Definitely Sports.",
        "This text belongs to the sports category.",
        "The article should be classified as Sports.",
        'The best fitting category is "Sports".',
        "The most likely class is **Sports**",
        "This is clearly a Sports article about football.",
        "Sports, because the World Cup is a football event.",
        "Sports since it is about a match",
        "Sports – the text describes a match.",
        "Sports. The text does not mention politics.",
        "Sports\n\nThe article is about the World Cup.",
        "**Sports**\n\nReason: a match between two teams.",
        "The article mentions World leaders, but focuses on football.\n\nSports",
        "The article covers a match, so I'd put it in Sports.",
        "The article covers a match. Therefore, it is Sports.",
        "The text describes a match from the Sports section",
        "This one goes under Sports, I believe.",
        "The article discusses a match. This makes it Sports.",
        "The passage talks about a match (Sports).",
        "Sure! The category is Sports.",
        "Here's the answer: Sports",
        "Sports (football)",
        "not World but Sports",
        "Not World, but Sports.",
        "It is not World; it is Sports.",
        "This is Sports, not World.",
        "Sports and not World",
        "Sports rather than World",
        "Sports instead of Business.",
        "It isn't World. It's Sports.",
        "Sports: it is a report about a match.",
        "Sports - a match between two teams",
        "I think it is a match report: Sports",
        "Best guess: Sports",
        "Sports. The wrong team won.",
        "Sports\n\nThe fans had to wait for hours.",
        "It is Sports because the referee was wrong.",
        "Probably Sports",
        "It might be Sports.",
    ],
    "JSON": [
        '{"label": "Sports"}',
        '{"Label": "sports."}',
        '{"category": "Sports", "reason": "the World Cup"}',
        '{"reasoning": "World or Business? No.", "answer": "Sports"}',
        '{"news_category": "Sports"}',
        '{"predictedCategory": "Sports"}',
        '{"classification": {"label": "Sports", "why": "x"}}',
        '{"labels": ["Sports"]}',
        '[{"label": "Sports"}]',
        '```json\n{"label": "Sports"}\n```',
        '```\n{"label": "Sports"}\n```',
        'Here is the JSON: {"label": "Sports"}. Not World!',
        '<think>{"label": "World"}</think>{"label": "Sports"}',
        '{"label": "Sports", "reason": "the text',
        "{'label': 'Sports', 'reason': 'x'}",
        '{"label": "The category is Sports."}',
        '{"Sports": true, "World": false}',
        '{"label": "Sports"} {"label": "Sports"}',
        '{"label": "Sports"}\nExplanation: a World leader watched the wrong match.',
        '{"result": {"category": "Sports"}}',
        '{"final_answer": "Sports", "answer": "hm"}',
    ],
}
SEVERAL = [
    "Sports or World",
    "Sports, World",
    "Sports/World",
    "World & Sports",
    "Either World or Sports.",
    "Both Sports and World",
    "It could be Sports or World.",
    "- Sports\n- World",
    '["Sports", "World"]',
    '{"labels": ["World", "Sports"]}',
    "Answer: Sports or World",
]
NO_LABEL = {
    "refused": [
        "I cannot help with that.",
        "I can't classify this text as Sports or World.",
        "I'm sorry, but I can't assist.",
        "I am unable to classify this.",
        "Sorry, this content is not allowed.",
        "As an AI language model, I have no opinion on Sports.",
        "Unfortunately, I cannot say whether this is Sports.",
        "I won't do that.",
    ],
    "empty answer": ["", "  \n", "<think>Sports</think>", "<|im_end|>"],
    "cut off": ["<think>It is Sports", "<think>a</think><think>Sports", '{"label": "Spor', "{"],
    "negated": [
        "It isn't Sports",
        "It is not Sports.",
        "Not Sports",
        "not sports",
        "Neither Sports nor World",
        "It is not Sports, World or Business",
        "Not Sports, World",
        "No, this is not about Sports.",
        "Sports is not the right category.",
        "I would never call this Sports.",
        "Everything except Sports",
        "It doesn't belong to Sports",
        "Answer: not Sports",
        "Sports? No.",
        "Sports. No.",
        "Sports is wrong.",
        "Sports, obviously not",
        "Sports. Definitely not.",
        "Sports: none",
        "non-Sports",
        "The wrong answer is Sports.",
        "It is wrongly labeled as Sports.",
    ],
    "ambiguous": [
        "It's World. It's Sports.",
        "World\nIt is a report.\nSports",
        "not only Sports but also World",
        "Anything but Sports",
        "more World than Sports",
        "World Sports",
        "A world record in sports",
        "Answer: World\nAnswer: Sports",
        '{"label": "World", "category": "Sports"}',
        '{"label": "World"} {"label": "Sports"}',
        '{"World": 0.9, "Sports": 0.8}',
        '[{"label": "World"}, {"label": "Sports"}]',
        "<answer>World</answer> <answer>Sports</answer>",
        "Sports (World)",
        "It was Sports, now it is Business.",
        "Is it Sports or Business?",
        "World, Sports, Business, or Sci/Tech",
        "You sort news. Categories: World, Sports, Business.",
        "World; secondary: Business",
        "Final answer: World\n\nWait, actually Sports",
        "Previously: World. Now: Sports",
        # A value for each class.
        "World: 2, Sports: 8",
        "World - 2\nSports - 8",
        "World: low, Sports: high",
        "World: 1/5\nSports: 4/5",
        "World: 0.2 Sports: 0.8",
        "Sports: 0.1",
        "Sports (10%)",
        # A ranking, or the options of the prompt.
        "1. Sports\n2. World",
        # An answer that is taken back, or goes on with the next example.
        "Category: Sports\n\nActually, this is Business.",
        "Category: Sports\nNo.",
        "Category: Sports. Hmm, Business is better.",
        "Category: Sports\nI made a mistake.",
        '{"label": "Sports"}\n\nActually, this is Business.',
        '{"label": "Sports"}\nWait, no. Business.',
        "Sports\n\nText: Oil prices rise.\nCategory: Business",
    ],
    "off-list": [
        "Entertainment",
        # A class as a key, and as the value of another key than the answer's.
        "Sports: 8",
        "Sports: yes",
        "Sports: N/A",
        "Sports = absent",
        "Sports - None detected",
        "Sports: The text does not mention it.",
        "Least likely: Sports",
        "Ruled out: Sports",
        "Subcategory: Sports",
        "Keywords: Sports",
        "Parent category: Sports",
        "World News",
        "Sport",
        "Worldwide",
        "sports-related",
        "It is sports-related.",
        "A",
        "(B)",
        "2",
        "Answer: C",
        "The answer is B.",
        "This is the best in the world.",
        "A world record was set.",
        "He writes for Business Insider.",
        "business as usual",
        "Is this Sports?",
        "It would be Sports if there were a match.",
        "If it is about a match, Sports.",
        "Category: Entertainment. It mentions Sports.",
        "The word Sports appears once.",
        "Only the headline mentions Sports.",
        "I refuse to say Sports",
        "She built a career in Business.",
        "Please provide the text. Options: Sports",
        "The author hates Sports.",
        "It is unclear whether this is Sports",
        "The article is about the World Cup.",
        "Text: Oil prices rise\nCategory: Economy",
        '{"label": "Culture", "topic": "Sports"}',
        '{"not_label": "Sports"}',
        '{"rejected_label": "Sports"}',
        '{"label": null}',
        '{"label": 3}',
        '{"reason": "Sports"}',
        '{"label": {"text": "Sports"}}',
        "None of the above",
        "Unknown",
        "N/A",
        "I do not know.",
        "The headline is 'Oil: Business as usual'.",
    ],
}


@pytest.mark.parametrize(
    ("rule", "text"), [(rule, text) for rule, texts in ONE_CLASS.items() for text in texts]
)
def test_an_answer_that_names_one_class_gets_it(rule: str, text: str) -> None:
    reading = READER.read(text)
    assert (names(reading), reading.rule) == ("Sports", rule)
    assert reading.confidence is None


@pytest.mark.parametrize("text", SEVERAL)
def test_several_classes_share_the_probability(text: str) -> None:
    reading = READER.read(text)
    assert (names(reading), reading.shares) == ("World Sports", (0.5, 0.5))
    assert reading.rule == "several classes"


@pytest.mark.parametrize(
    ("reason", "text"), [(reason, text) for reason, texts in NO_LABEL.items() for text in texts]
)
def test_what_is_in_doubt_names_no_class(reason: str, text: str) -> None:
    reading = READER.read(text)
    assert (reading.classes, reading.rule) == ((), reason)


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ("Sports (90%)", 0.9),
        ("Sports, 90%", 0.9),
        ("Sports: 0.9", 0.9),
        ("Sports 0.9", 0.9),
        ("Sports (confidence: 0.9)", 0.9),
        ("Sports (90% confident)", 0.9),
        ("Category: Sports\nConfidence: 90%", 0.9),
        ("Category: Sports\n**Confidence:** 0.9", 0.9),
        ("I am 90% sure it is Sports", 0.9),
        ("Sports with a confidence of 90 / 100", 0.9),
        ("Sports. Confidence: 9/10", 0.9),
        ("Sports. Confidence: high", None),
        ("Sports (confidence: very high)", None),
        ("Sports (confidence: 8)", None),
        ("Sports (confidence: 90)", 0.9),
        ('{"label": "Sports", "confidence": 0.9}', 0.9),
        ('{"label": "Sports", "confidence": "90%"}', 0.9),
        ('{"label": "Sports", "confidence": "0.9"}', 0.9),
        ('{"label": "Sports", "confidence": 90}', 0.9),
        ('{"label": "Sports", "confidence": "high"}', None),
        ('{"label": "Sports", "confidence": 7}', None),
        ('{"label": "Sports", "confidence": true}', None),
        ('{"label": "Sports", "confidence_score": 0.9}', 0.9),
        ('{"Sports": 0.9}', 0.9),
        ("Sports", None),
    ],
)
def test_a_stated_confidence(text: str, confidence: float | None) -> None:
    reading = READER.read(text)
    assert names(reading) == "Sports"
    assert reading.confidence == (None if confidence is None else pytest.approx(confidence))


@pytest.mark.parametrize(
    "text",
    [
        "Sports: 0.75, World: 0.25",
        "Sports: 75%\nWorld: 25%",
        "- Sports: 0.75\n- World: 0.25",
        '{"Sports": 0.75, "World": 0.25}',
        '{"sports": 75, "world": 25}',
        '[{"label": "Sports", "score": 0.75}, {"label": "World", "score": 0.25}]',
        '{"probabilities": {"World": 0.25, "Sports": 0.75}}',
    ],
)
def test_a_number_for_each_class(text: str) -> None:
    reading = READER.read(text)
    assert reading.rule == "probabilities"
    assert (reading.classes, reading.shares) == ((0, 1), pytest.approx((0.25, 0.75)))


CHOICES = {
    "A": {
        "A": "World",
        "b": "Sports",
        "(B)": "Sports",
        "C.": "Business",
        "**D**": "Sci/Tech",
        "D)": "Sci/Tech",
        "Answer: B": "Sports",
        "Option C": "Business",
        "The correct answer is B.": "Sports",
        "The answer is (D)": "Sci/Tech",
        "B) Sports": "Sports",
        "B. Sports": "Sports",
        "Answer: B (Sports)": "Sports",
        '{"answer": "B"}': "Sports",
        "<think>A?</think>B": "Sports",
        "Sports": "Sports",
        "B) World": "",
        "E": "",
        "I": "",
        "2": "",
        "AB": "",
        "A or B": "",
        "Not B": "",
        "The answer is not B": "",
    },
    "1": {
        "1": "World",
        "(2)": "Sports",
        "3.": "Business",
        "Answer: 2": "Sports",
        "2. Sports": "Sports",
        "2: Sports": "Sports",
        '{"label": 2}': "Sports",
        '{"label": "2"}': "Sports",
        "0": "",
        "5": "",
        "2.5": "",
        "-1": "",
        "2. World": "",
        "B": "",
    },
    "0": {"0": "World", "1": "Sports", "4": ""},
}


@pytest.mark.parametrize(
    ("first", "text", "name"),
    [(first, text, name) for first, texts in CHOICES.items() for text, name in texts.items()],
)
def test_options_of_a_multiple_choice_prompt(first: str, text: str, name: str) -> None:
    reader = AnswerReader(parse_classes(",".join(NAMES)), first_choice=first)
    assert names(reader.read(text)) == name


def test_options_that_are_also_class_names_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"the choice 'A' stands for 'B', but it is also an answer of 'A'"
    ):
        AnswerReader(parse_classes("B,A"), first_choice="A")
    with pytest.raises(InputError, match=r"choices .--choices. must be A, 1 or 0, not 'x'"):
        AnswerReader(parse_classes("B,A"), first_choice="x")
    same = AnswerReader(parse_classes("A,B"), first_choice="A")
    assert same.read("(B)").classes == (1,)


def test_the_key_of_the_answer() -> None:
    reader = AnswerReader(parse_classes(",".join(NAMES)), answer_key="field_7")
    assert names(reader.read('{"label": "World", "field_7": "Sports"}')) == "Sports"
    assert names(reader.read('{"label": "World"}')) == ""
    assert names(READER.read('{"field_7": "Sports"}')) == ""


def test_names_that_begin_like_others_and_numbers_as_names() -> None:
    reader = AnswerReader(parse_classes("World,World News,1,2"))
    assert reader.read("It is World News.").classes == (1,)
    assert reader.read("world-news").classes == (1,)
    assert reader.read("It is World.").classes == (0,)
    assert reader.read("2").classes == (3,)
    assert reader.read("Answer: 2").classes == (3,)
    assert reader.read("There are 2 of them").classes == ()
    assert reader.read('{"label": 1}').classes == (2,)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("not spam", 1),
        ("It is not spam.", 1),
        ("This is spam", 0),
        ("Not-spam", 1),
        ("This is not a spam message", None),
        ("yes", None),
    ],
)
def test_a_class_whose_name_is_a_negation(text: str, label: int | None) -> None:
    reading = AnswerReader(parse_classes("spam,not spam")).read(text)
    assert reading.classes == (() if label is None else (label,))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("No", 1),
        ("Yes.", 0),
        ("Answer: no", 1),
        ('{"answer": "yes"}', 0),
        ("The answer is no.", 1),
        ("The answer is no longer clear", None),
        ("No idea.", None),
        ("Yes, it does.", 0),
        ("No. The text does not say so.", 1),
        ("No, I would say yes.", None),
        ("Yes or no?", None),
        ("There is no clear answer", None),
        ("Yes and no", None),
    ],
)
def test_yes_and_no_are_words_too(text: str, label: int | None) -> None:
    reading = AnswerReader(parse_classes("yes,no")).read(text)
    assert reading.classes == (() if label is None else (label,))


def test_other_is_a_class_too() -> None:
    reader = AnswerReader(parse_classes("Billing,Login,Other"))
    assert reader.read("Other").classes == (2,)
    assert reader.read("Other, because nothing fits.").classes == (2,)
    assert reader.read("Category: Other").classes == (2,)
    assert reader.read("Other (billing)").classes == ()
    assert reader.read("The ticket is about billing").classes == (0,)


def test_feelings_of_the_model_are_not_the_sentiment() -> None:
    reader = AnswerReader(parse_classes("positive,negative"))
    assert reader.read("The review expresses a positive sentiment.").classes == (0,)
    assert reader.read("Overall, the tone is negative.").classes == (1,)
    assert reader.read("I am positive this is negative").classes == ()
    assert reader.read("I am positive.").classes == ()


def test_synonyms_count_as_the_class() -> None:
    reader = AnswerReader(with_synonyms({"Sports": ("football", "soccer"), "World": ()}))
    assert reader.read("The topic is soccer.").classes == (0,)
    assert reader.read('{"label": "Football"}').classes == (0,)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    READER.read(text)
    READER.read(json.dumps({"label": text}))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_a_denied_class_is_never_the_label(denied: str, named: str) -> None:
    for text in (f"not {denied} but {named}", f"{named}, not {denied}", f"It isn't {denied}."):
        reading = READER.read(text)
        assert denied not in names(reading).split() or denied == named
        if denied == named:
            assert not reading.classes


@pytest.mark.parametrize(
    "text",
    [
        '{"World": NaN, "Sports": 0.5}',
        '{"World": 1' + "0" * 400 + ', "Sports": 0}',
        '{"World": ' + "9" * 5000 + ', "Sports": 1}',
        '{"label": 1' + "0" * 400 + "}",
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_numbers_and_lists_without_an_end_name_no_class(text: str) -> None:
    assert READER.read(text).classes == ()


@pytest.mark.parametrize("unit", ["[", " ", "- ", "{", '{"label": ', "<|channel|>final", "</"])
def test_an_answer_that_repeats_itself_takes_no_longer(unit: str) -> None:
    began = time.process_time()
    assert READER.read("x " + unit * (20_000 // len(unit)) + " y").classes == ()
    assert time.process_time() - began < 5  # some took minutes
