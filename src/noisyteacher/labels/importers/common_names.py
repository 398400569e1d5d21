"""Classes that are called by a common word: "other", "none", "question", "irony" or "3".

In a sentence such a word names the class only where an answer stands, as in "This is other.",
"other because ..." or "**other**". Elsewhere it is a word like any other; but it is no longer one
of those that a plain statement may hold, or that cast doubt on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from noisyteacher.io.spelling import bare
from noisyteacher.labels.importers import lexicon

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*[+#]*")
CLAUSE_END = re.compile(r"[.!?\n,;:—–()\[\]{}|=→⇒>]|\s-+\s")
_COMMON = lexicon.PLAIN | lexicon.REASONS | lexicon.CONTRASTS
_MARKED = re.compile(r"[*_`\"“]\Z"), re.compile(r"[*_`\"”]")
_THE = re.compile(r"\b[Tt]he\s+\Z")  # "the Other category", but not "the other category"
_KIND = re.compile(r"\s+(?:category|class|intent|label|section|topic)\b")
# "-3", "v.3" and "non-irony" are other names.
_WORD_BEGINS = re.compile(r"(?:\A|[\s(\[{>])[*_`\"'“‘]*\Z")
_ANSWER_BEGINS = re.compile(
    r"""(?:^(?:(?:or|and|but|so|then|therefore|thus|hence)\s+)*
    |\b(?:is|be|as|it's|that's|say|choose|pick|select|go\ with|belongs\ to|into|under
        |answer|category|class|intent|label|option|sentiment|topic)\s+)
    (?:(?:not|a|an|clearly|certainly|definitely|obviously|surely|simply|indeed|very|most
        |likely|probably|possibly|mostly|mainly|primarily|therefore|thus|best)\s+)*\Z""",
    re.VERBOSE,
)
_ANSWER_ENDS = re.compile(
    r"""[*_`"'”’]*(?:\s*\Z|\s*\n|[.,!?;:—–)\]}](?!\w)|\s+[-–—]+\s
    |\s+(?:because|since|as|due|given|although|though|but|so|rather|instead|not|and\ not)\b)""",
    re.VERBOSE,
)


class CommonNames:
    """The words of these names, and what the lists of common words are without them.

    Attributes:
        words: those of the names that consist of common words only.
        statement: the words of a plain statement; ``plain``: those and negations.
        contrasts: those that cast doubt on it.
        retractions: those that take it back; where irony is a class, "it is sarcastic" does not.
    """

    def __init__(self, answers: Iterable[str]) -> None:
        spelled = [WORD.findall(bare(answer)) for answer in answers]
        # Letters are read as choices only.
        names = [w for w in spelled if are_common(" ".join(w)) and "".join(w) not in "ai"]
        alone = {words[0] for words in names if len(words) == 1}
        self.words = frozenset(word for words in names for word in words)
        self.contrasts = lexicon.CONTRASTS - alone
        self.statement = (lexicon.FRAME - alone) | lexicon.JOINING | lexicon.BREAKS
        self.plain = self.statement | lexicon.NEGATIONS
        ironic = any(word in lexicon.IRONY for words in spelled for word in words)
        self.retractions = lexicon.RETRACTIONS - (lexicon.IRONY if ironic else frozenset())

    def holds(self, text: str) -> bool:
        """Whether the text may be one of these names."""
        return self.words.issuperset(bare(text).split())


def are_common(text: str) -> bool:
    """Whether the words say too little in a sentence to be read as a class anywhere."""
    words = bare(text).split()
    return all(word in _COMMON for word in words) or (len(words) == 1 and words[0].isdigit())


def stands_as_answer(text: str, start: int, end: int) -> bool:
    """Whether the words from ``start`` to ``end`` stand where a sentence has its answer."""
    before, after = text[:start], text[end:]
    if _MARKED[0].search(before) and _MARKED[1].match(after):
        return True
    if text[start].isupper() and _THE.search(before) and _KIND.match(after):
        return True
    if not _WORD_BEGINS.search(before) or not _ANSWER_ENDS.match(after):
        return False
    clause = CLAUSE_END.split(before)[-1].rstrip("*_`\"'“‘").lstrip()
    return _ANSWER_BEGINS.search(clause.lower()) is not None
