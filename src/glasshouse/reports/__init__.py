"""Reports: one self-contained page from what a study holds."""

from glasshouse.reports.page import write_report

__all__ = ["write_report"]
