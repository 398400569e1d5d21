"""Class names in the spellings that people and models use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyteacher.io.spelling import NO_CLASS, Spellings

NEWS = ("World", "Sports", "Business", "Sci/Tech")
NUMBERS = ("1", "2", "12", "15", "-1", "COVID-19")
SIGNS = ("C", "C++", "C#", "👍", "👎", "a-b", "ab", "A+")


def found(names: tuple[str, ...], text: str) -> str | None:
    spellings = Spellings({name: (name,) for name in names})
    number = spellings.find(text)
    return None if number == NO_CLASS else names[number]


@pytest.mark.parametrize(
    ("names", "text", "name"),
    [
        (NEWS, "sports", "Sports"),
        (NEWS, " **SPORTS**. ", "Sports"),
        (NEWS, "“World”", "World"),
        (NEWS, "## World", "World"),
        (NEWS, "Ｓｐｏｒｔｓ", "Sports"),
        (NEWS, "Spo\u00adrts\u200b", "Sports"),
        (NEWS, "sci_tech", "Sci/Tech"),
        (NEWS, "SciTech", "Sci/Tech"),
        (NEWS, "sci-tech!", "Sci/Tech"),
        (NEWS, "Sci & Tech", "Sci/Tech"),
        (NEWS, "sci tech", "Sci/Tech"),
        (NEWS, "World News", None),
        (NEWS, "Non-World", None),
        (NEWS, "Sport", None),
        (NEWS, "", None),
        (NEWS, "...", None),
        (("World", "World News"), "world news", "World News"),
        (("World", "World News"), "World-News", "World News"),
        (("World", "World News"), "world", "World"),
        (("Science & Technology", "Arts"), "science and technology", "Science & Technology"),
        (("SciTech", "Arts"), "Sci/Tech", "SciTech"),
        (("SciTech", "Arts"), "sci tech", "SciTech"),
        (("Atypical", "Other"), "a typical", None),
        (("Straße", "Weg"), "STRASSE", "Straße"),
        (("猫", "犬"), "「猫」", "猫"),
        (("猫", "犬"), "犬。", "犬"),
        (NUMBERS, "1", "1"),
        (NUMBERS, "(2)", "2"),
        (NUMBERS, "12.", "12"),
        (NUMBERS, "-1", "-1"),
        (NUMBERS, "−1", "-1"),
        (NUMBERS, "1.5", None),
        (NUMBERS, "1/5", None),
        (NUMBERS, "1,5", None),
        (NUMBERS, "1 2", None),
        (NUMBERS, "<1", None),
        (NUMBERS, "1%", None),
        (NUMBERS, "-2", None),
        (NUMBERS, ".2", None),
        (NUMBERS, "covid 19", "COVID-19"),
        (SIGNS, "c", "C"),
        (SIGNS, "c++", "C++"),
        (SIGNS, "C#", "C#"),
        (SIGNS, "👎", "👎"),
        (SIGNS, "a-b", "a-b"),
        (SIGNS, "ab", "ab"),
        (SIGNS, "a/b", None),
        (SIGNS, "C-", None),
        (SIGNS, "a+", "A+"),
    ],
)
def test_a_spelling_fits_one_class_or_none(
    names: tuple[str, ...], text: str, name: str | None
) -> None:
    assert found(names, text) == name


def test_synonyms_name_their_class() -> None:
    spellings = Spellings({"positive": ("positive", "thumbs up"), "negative": ("negative", "bad")})
    assert spellings.find("Thumbs-Up!") == 0
    assert spellings.find("BAD") == 1


def test_the_same_answer_of_two_classes_names_neither() -> None:
    spellings = Spellings({"a": ("a", "same"), "b": ("b", "Same.")})
    assert spellings.find("same") == NO_CLASS
    assert spellings.find("a") == 0


@given(st.sampled_from(NEWS), st.sampled_from(["", " ", "*", "**", "`", '"', "'", "(", "- ", "\n"]))
def test_wrapping_and_case_change_nothing(name: str, mark: str) -> None:
    for text in (name, name.upper(), name.lower(), name.swapcase()):
        assert found(NEWS, f"{mark}{text}{mark[::-1].replace('(', ')')}.") == name


@given(st.text(max_size=20))
def test_any_text_is_read_without_an_error(text: str) -> None:
    found(NEWS, text)
    found(NUMBERS, text)
