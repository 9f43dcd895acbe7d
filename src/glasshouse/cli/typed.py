"""What was typed on the command line."""

from __future__ import annotations

import shlex
import sys

import click
from click.core import ParameterSource

from glasshouse.urls import without_password


def typed_options() -> list[str]:
    """The options that were typed, by their long names."""
    context = click.get_current_context()
    return [
        one.opts[0]
        for one in context.command.params
        if one.name and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE
    ]


def same_command() -> str:
    """The whole command, to be typed again; a password is not shown, and no time at all is no way to go on."""
    typed = [*sys.argv[1:]]
    for place, word in enumerate(typed):
        if word == "--minutes" and _is_nothing("".join(typed[place + 1 : place + 2])):
            del typed[place : place + 2]
            break
    return shlex.join(["glasshouse", *map(without_password, typed)])


def _is_nothing(number: str) -> bool:
    try:
        return float(number) == 0
    except ValueError:
        return False
