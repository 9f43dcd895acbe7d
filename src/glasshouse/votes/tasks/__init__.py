"""Tasks: a question, its answers, and its rule for "leaked"; one file each."""

from glasshouse.votes.tasks.base import Task, tasks

create = tasks.create

__all__ = ["Task", "create", "tasks"]
