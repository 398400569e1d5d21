"""The HTML page of a run."""

from noisyteacher.report.run_page import write_run_page

__all__ = ["write_run_page"]
