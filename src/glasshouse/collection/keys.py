"""Secret keys in files that only their owner may read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from glasshouse.errors import SettingError

HEAD = "glasshouse key 1"
BYTES = 32


def new_key(path: Path) -> None:
    """Write a fresh 256-bit key to a new file that only its owner may read."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SettingError(f"{path} is there already: choose another name; a lost key cannot be made again.") from None
    except OSError as error:
        raise SettingError(f"Cannot write {path} ({error.strerror}): choose another place.") from error
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{HEAD}\n{secrets.token_hex(BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise SettingError(f"Cannot write {path} ({error.strerror}): free some space and try again.") from error


def read_key(path: Path) -> bytes:
    """Read a key; refuse a file that others may read, or that is no key."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii")
    except UnicodeDecodeError:
        raise SettingError(f"{path} is not a key: make one with 'glasshouse key new FILE'.") from None
    except OSError as error:
        raise SettingError(
            f"Cannot read the key {path} ({error.strerror}): make one with 'glasshouse key new FILE'."
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingError(f"{path} can be read by others: take their rights away with 'chmod 600 {path}'.")
    head, _, digits = text.strip().partition("\n")
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if head != HEAD or len(key) != BYTES:
        raise SettingError(f"{path} is not a key: make one with 'glasshouse key new FILE'.")
    return key
