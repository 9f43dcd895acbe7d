"""Words of the command line that several commands read alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from glasshouse.store import Kind


def listed(text: str | None) -> tuple[str, ...]:
    """The names in ``a, b,c``; none where nothing was given."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def kind(word: str | None) -> Kind | None:
    """Whose judgements a word asks for; kinds are never mixed."""
    from glasshouse import checks

    if word is not None:
        checks.one_of("judges", word, ("human", "classifier"))
    return cast("Kind | None", word)
