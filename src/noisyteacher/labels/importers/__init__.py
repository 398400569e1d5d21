"""Teacher outputs as people have them, to teacher labels."""

from noisyteacher.labels.importers.arrays import import_array
from noisyteacher.labels.importers.classes import ClassAnswers, parse_classes, with_synonyms
from noisyteacher.labels.importers.ids_file import read_ids
from noisyteacher.labels.importers.llm import LlmImport, import_llm
from noisyteacher.labels.importers.rejected import rejected_path
from noisyteacher.labels.importers.settings import ImportSettings
from noisyteacher.labels.importers.tables import import_table

__all__ = [
    "ClassAnswers",
    "ImportSettings",
    "LlmImport",
    "import_array",
    "import_llm",
    "import_table",
    "parse_classes",
    "read_ids",
    "rejected_path",
    "with_synonyms",
]
