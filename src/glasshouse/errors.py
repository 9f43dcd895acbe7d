"""The error tree: every error a user can cause derives from GlasshouseError.

The text of an error says the value received, what was expected and what to do. The command line turns
these errors, and no others, into one line and exit code 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class GlasshouseError(Exception):
    """Root of everything Glasshouse raises on purpose."""

    #: The setting of a plan that the error speaks of, and the entry of its list or None, where ``about`` says so.
    setting: tuple[str, str | None] | None = None


@contextmanager
def about(setting: str, entry: str | None = None) -> Iterator[None]:
    """Let errors from within say which setting of a plan they speak of, where none nearer to them did."""
    try:
        yield
    except GlasshouseError as error:
        error.setting = error.setting or (setting, entry)
        raise


class SettingError(GlasshouseError, ValueError):
    """A setting, option or SPEC that cannot be used as given."""


class UnknownNameError(SettingError):
    """A name that no registry knows."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        words = {part: name for name in reversed(names) for part in name.split("_")} | {name: name for name in names}
        near = get_close_matches(name, words, n=1)
        hint = f" Did you mean '{words[near[0]]}'?" if near else ""
        super().__init__(f"Unknown {kind} '{name}'.{hint} Known: {', '.join(names) or 'none'}.")
        self.given = kind, name, tuple(names)

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[str, str, tuple[str, ...]]]:
        return type(self), self.given  # workers send errors home


class MissingExtraError(SettingError):
    """Something was asked for that comes with an extra of the installation."""

    def __init__(self, what: str, module: str, extra: str) -> None:
        super().__init__(f"{what} needs {module}, which is not installed: pip install 'glasshouse[{extra}]'.")
        self.given = what, module, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        return type(self), self.given  # workers send errors home


class DataError(GlasshouseError, ValueError):
    """Images, labels or a data set that cannot be used as given."""


class ModelError(GlasshouseError, ValueError):
    """A model that cannot be audited as given."""


class WeightsError(GlasshouseError):
    """A weights file that is missing, damaged, hostile or does not fit."""


class CapabilityError(GlasshouseError):
    """An attack needs something the attacker does not have here."""


class AttackError(GlasshouseError):
    """An attack that ran but produced nothing usable."""


class NotDefinedError(GlasshouseError):
    """A metric has no value for these images; the text is the reason that the table prints."""


class DeviceError(GlasshouseError, RuntimeError):
    """A device that is not there, or whose memory does not hold the work."""


class StudyError(GlasshouseError):
    """A study directory that cannot be read, written or continued."""


class PictureError(StudyError):
    """A picture of a study that is lost or was changed, so that it must be made again."""


class OutOfTimeError(StudyError):
    """The time that a run was given is over; what is finished is kept, and the same call goes on."""


class LeakError(GlasshouseError):
    """An update that shows too much of private images to be sent."""


class VoteError(GlasshouseError, ValueError):
    """A vote, an item or an annotator that cannot be taken as given."""
