"""The words by which sentences are told apart that state, deny or only mention a class.

Some classes are called by such a word: "other", "none", "question", "irony" or "3". In a sentence
it names the class only where an answer stands, as in "This is other.", "other because ..." or
"**other**". Elsewhere it is a word like any other; but it is no longer one of those that a plain
statement may hold, or that cast doubt on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from noisyteacher.io.spelling import bare


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


NOUNS = word_set(
    """
    answer article attitude category class classification comment content document email emotion
    entry feeling headline intent intention item kind label message mood news one opinion option
    output paragraph passage piece post prediction query question report request review section
    sentence sentiment snippet stance statement story subject tag text theme thread ticket title
    tone topic type utterance verdict
    """
)
# What an answer is called; other nouns may be a part of a name, as in "World News".
KINDS = word_set("answer category class classification intent label section topic")
THINGS = NOUNS - KINDS
# Whose opinion a text tells.
_AUTHORS = word_set("author customer person poster reviewer speaker user writer")
FRAME = (
    NOUNS
    | _AUTHORS
    | {f"{word}'s" for word in (*_AUTHORS, *NOUNS)}
    | word_set(
        """
    a about absolutely according agree also an analysis appropriate are as assign assigned at
    based be being believe belong belongs best better can categorize categorized certainly choice
    choose chosen classified classify clear clearly closest conclude conclusion consider
    considered conveys correct correctly could decision definitely describe described does evident
    expressed expresses expressing extremely fairly fall falls final fit fits fitting following
    follows for generally given go goes guess has hence here highly i i'd i'll i've identify in
    indeed indicates input into is it it's its labeled labelled largely likely looks main mainly
    matches matching maybe me might most mostly my obvious obviously of ok okay on only overall
    overwhelmingly perhaps pick possibly predict predicted predominantly primarily primary
    probable probably provided put quite rated read reads really regarded related relates result
    right say seem seems select selected should shows simply single slightly somewhat sounds
    strongly suitable surely tagged that that's the then therefore these think this thus to
    under undoubtedly very we we'd we'll well will with within would yes
    """
    )
)
JOINING = frozenset(("or", "and", "both", "either", "also", "plus"))
NEGATIONS = word_set(
    """
    not no never neither nor none cannot without except excluding excluded unlike nothing hardly
    non barely rather instead ruled unlikely rejected exclude opposite besides beyond
    """
)
# Behind these a clause tells why, not what.
REASONS = word_set(
    """
    because since although though while whereas which where due despite given when regarding
    concerning considering
    """
)
# Behind these it does so only after "Sports article" or the like; behind "as" only before these.
LATE_REASONS = word_set("about that with for of on toward towards")
AFTER_AS = word_set("it its the this that there they he she")
CONDITIONS = frozenset(("if", "unless", "whether"))
BREAKS = word_set("but so therefore thus hence however yet")
PLAIN = FRAME | JOINING | BREAKS | NEGATIONS
IRONY = word_set("sarcastic sarcastically sarcasm ironic ironically irony")
RETRACTIONS = IRONY | word_set(
    """
    wrong wrongly incorrect incorrectly mistaken mistakenly mistake misclassified mislabeled
    mislabelled kidding wait scratch correction retract surface superficially supposedly
    """
)
# A clause of nothing but these speaks of the answer; others may tell what the text is about.
CONCESSIONS = frozenset(("although", "though", "while", "on"))
OF_ANSWERS = PLAIN | RETRACTIONS | CONCESSIONS | word_set("am first just made was were")
CONTRASTS = RETRACTIONS | word_set(
    """
    but however although though despite mention mentions mentioned mentioning word words appears
    only unless if whether or and versus vs than between example instance such like other
    another unclear unsure uncertain ambiguous unknown difficult hard impossible unable
    determine refuse refuses decline declines avoid avoids lacks fails stop ignore
    """
)
DENIALS = frozenset(("no", "nope", "nah", "none", "false", "never", "no way"))
# A class behind one of these is an option, not the answer.
LISTS = word_set("options choices categories classes labels candidates examples example input")

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*[+#]*")
CLAUSE_END = re.compile(r"[.!?\n,;:—–()\[\]{}|=→⇒>]|\s-+\s")
_COMMON = PLAIN | REASONS | CONTRASTS
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
        self.contrasts = CONTRASTS - alone
        self.statement = (FRAME - alone) | JOINING | BREAKS
        self.plain = self.statement | NEGATIONS
        ironic = any(word in IRONY for words in spelled for word in words)
        self.retractions = RETRACTIONS - (IRONY if ironic else frozenset())

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
