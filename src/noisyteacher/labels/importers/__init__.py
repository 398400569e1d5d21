"""Importers of teacher outputs: arrays, tables, and answers of LLMs."""

from noisyteacher.io.classes import ClassAnswers, parse_classes, with_synonyms
from noisyteacher.io.ids import read_ids
from noisyteacher.labels.importers.answer_text import AnswerReader
from noisyteacher.labels.importers.llm import LlmImport, import_llm
from noisyteacher.labels.importers.llm_rows import rejected_path
from noisyteacher.labels.importers.probability_files import (
    ImportSettings,
    import_array,
    import_table,
)
from noisyteacher.labels.importers.reading import Reading

__all__ = [
    "AnswerReader",
    "ClassAnswers",
    "ImportSettings",
    "LlmImport",
    "Reading",
    "import_array",
    "import_llm",
    "import_table",
    "parse_classes",
    "read_ids",
    "rejected_path",
    "with_synonyms",
]
