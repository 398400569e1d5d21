"""The words by which sentences are told apart that state, deny or only mention a class."""

from __future__ import annotations


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
