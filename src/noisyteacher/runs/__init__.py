"""A run on disk: its folder, its results rows, and the data of its page."""

from noisyteacher.runs.folder import RunFolder, record_command
from noisyteacher.runs.rows import Row, append_row, merge, named_method, read_rows

__all__ = ["Row", "RunFolder", "append_row", "merge", "named_method", "read_rows", "record_command"]
