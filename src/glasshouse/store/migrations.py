"""Numbered migrations: each runs once, in order, in one transaction with the number it leaves behind."""

from __future__ import annotations

from sqlalchemy import Connection, text

from glasshouse.errors import StudyError

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (  # 1: images, cases, reconstructions, scores
        """CREATE TABLE images (
            place INTEGER PRIMARY KEY,
            identity TEXT NOT NULL,
            label INTEGER NOT NULL,
            class_name TEXT NOT NULL,
            file TEXT NOT NULL,
            sha256 TEXT NOT NULL
        )""",
        """CREATE TABLE cases (
            key TEXT PRIMARY KEY,
            position INTEGER NOT NULL,
            described TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('pending', 'done', 'failed')),
            reason TEXT,
            outcome TEXT
        )""",
        """CREATE TABLE reconstructions (
            case_key TEXT NOT NULL REFERENCES cases (key),
            place INTEGER NOT NULL REFERENCES images (place),
            file TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            PRIMARY KEY (case_key, place)
        )""",
        """CREATE TABLE scores (
            case_key TEXT NOT NULL,
            place INTEGER NOT NULL,
            metric TEXT NOT NULL,
            value DOUBLE PRECISION,
            PRIMARY KEY (case_key, place, metric)
        )""",
    ),
)


def migrate(connection: Connection) -> None:
    """Bring a database to the newest schema; refuse one that a newer Glasshouse made."""
    connection.execute(text("CREATE TABLE IF NOT EXISTS schema_version (number INTEGER PRIMARY KEY)"))
    version = connection.execute(text("SELECT COALESCE(MAX(number), 0) FROM schema_version")).scalar_one()
    if version > len(MIGRATIONS):
        raise StudyError(
            f"The study's database has schema {version}, this Glasshouse knows {len(MIGRATIONS)}: "
            "use the newer Glasshouse that wrote it."
        )
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        for statement in statements:
            connection.execute(text(statement))
        connection.execute(text("INSERT INTO schema_version VALUES (:number)"), {"number": number})
