"""Answers about classes that are called by common words: none of these classes may be lost."""

from __future__ import annotations

import pytest

from noisyteacher.labels.importers import AnswerReader, parse_classes, with_synonyms

COMMON = (
    *("other", "none", "unknown", "unclear", "clear", "question", "statement", "request", "irony"),
    *("sarcasm", "sarcastic", "impossible", "example", "maybe", "yes", "no", *"012345"),
    "reverted_card_payment?",
)
NAMING = (
    "This is {}.",
    "I would classify this ticket as **{}**.",
    "{} because it says so.",
    "The answer is {}",
    "{}, because it fits neither billing nor shipping.",
    "I think it is clearly {}, not billing.",
    'This falls under the "{}" category.',
    "This is not billing or shipping, so it is {}.",
    "The customer writes about a lamp.\n\n{}",
)
NOT_NAMING = (
    "It is not {}.",
    "It is not {}",
    "Is it {}?",
    "This is billing, or {}.",
    "It is {} or billing",
    "This is a {} sort of lamp.",
    "This is {}. Wait, it is billing.",
    "I am not sure whether it is {}.",
    "If it is not billing, it is {}.",
)
# Classes, an answer, and the class that it names.
OTHERS = """
    billing,other | No other class fits, so it is billing. | billing
    billing,other | It is billing, as it mentions a bill and other charges. | billing
    billing,other | The answer is not other but billing. | billing
    billing,other | This is other than billing. |
    billing,other | billing, other |
    billing,other | Other is wrong. |
    billing,other | This falls under the other category. |
    billing,Other | This falls under the Other category. | Other
    billing,none | none of the above |
    billing,none | This is none of them. |
    yes,no,maybe | There is no doubt, yes. |
    yes,no,maybe | Maybe, it's yes. |
    yes,no,maybe | It is no answer. |
    yes,no,maybe | I would say no. | no
    irony,non_irony | This is irony, not non_irony. | irony
    irony,non_irony | This is non irony. | non_irony
    irony,non_irony | This is non_irony. There is no irony here. | non_irony
    irony,non_irony | This is not irony. |
    irony,non_irony | This is non_irony, but it's ironic. |
    irony,non_irony | The irony is clear. |
    irony,non_irony | Irony: no |
    irony,non_irony | Irony: absent |
    irony,non_irony | irony: 0 |
    irony,non_irony | Irony, because the author is sarcastic. | irony
    irony,non_irony | The tweet is sarcastic, so the label is irony. | irony
    irony,non_irony | non_irony, because it is sincere and not sarcastic. | non_irony
    irony,non_irony | {"label": "irony"} The author is sarcastic. | irony
    yes,no | Yes, please provide the text. |
    yes,no | Yes, I can help with that! |
    yes,no | No, I cannot answer that. |
    hate,offensive,neither | I hate this. |
    question,statement,billing | This is a statement, not a question. | statement
    question,statement,billing | This is a question about billing. |
    question,statement,billing | The statement is a question. |
    0,1,2,3,4,5 | This is 3, not 4. | 3
    0,1,2,3,4,5 | This is 3.5. |
    0,1,2,3,4,5 | This is -3. |
    0,1,2,3,4,5 | It is version v.3 |
    0,1,2,3,4,5 | There are several issues, 5. |
    0,1,2,3,4,5 | The rating is 4 out of 5. |
    card_arrival,top_up? | card_arrival or top_up? |
    card_arrival,top_up? | Why is this top_up? |
    card_arrival,top_up? | top_up? No, card_arrival. |
    wrong_amount,refund | The intent is wrong_amount because the amount is wrong. | wrong_amount
    wrong_amount,refund | The intent is refund, but that is wrong. |
    wrong_amount,refund | Intent: refund - no, that is wrong. |
    wrong_amount,other | Other. That is wrong. |
    wrong_amount,other | Other: the address is wrong. | other
    Class 1,Class 2 | Class 1 is the best fit. | Class 1
"""


def named(classes: str, answer: str) -> str:
    names = classes.split(",")
    return "+".join(names[n] for n in AnswerReader(parse_classes(classes)).read(answer).classes)


@pytest.mark.parametrize("name", COMMON)
def test_a_class_called_by_a_common_word_is_read(name: str) -> None:
    classes = f"billing,shipping,{name}"
    lost = [text for text in NAMING if named(classes, text.format(name)) != name]
    assert lost == []
    lost = [text for text in NAMING if named(f"{name},rose,lamp", text.format(name)) != name]
    assert lost == []


@pytest.mark.parametrize("name", COMMON)
def test_doubtful_answers_do_not_name_it(name: str) -> None:
    classes = f"billing,shipping,{name}"
    wrong = [text for text in NOT_NAMING if named(classes, text.format(name)) in (name, "billing")]
    assert wrong == []


@pytest.mark.parametrize("row", [row for row in OTHERS.splitlines() if row.strip()])
def test_common_words_beside_other_classes(row: str) -> None:
    classes, answer, expected = (part.strip() for part in row.split("|"))
    assert named(classes, answer) == expected


def test_a_synonym_may_be_a_common_word() -> None:
    reader = AnswerReader(with_synonyms({"billing": (), "rest": ("other", "none")}))
    assert reader.read("This is other.").classes == (1,)
    assert reader.read("I would classify this ticket as **none**.").classes == (1,)
    assert reader.read("It is not other.").classes == ()
