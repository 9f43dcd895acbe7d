"""URLs as people may see them and files may keep them: without passwords."""

from __future__ import annotations

import re

#: Up to the last @, for a password that nobody quoted may hold one itself.
LOGIN = re.compile(r"(://[^:@/?\s]*):\S*@")
QUERY = re.compile(r"(?<=[?&])(?:ssl)?password=[^&\s]*&?", re.IGNORECASE)


def without_password(text: str) -> str:
    """A URL, or a text with one in it, less the password that it may hold."""
    bare = LOGIN.sub(r"\1@", text)
    return QUERY.sub("", bare).rstrip("?&") if QUERY.search(bare) else bare


def has_password(text: str) -> bool:
    """Whether a URL holds a password."""
    return without_password(text) != text
