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
    (  # 2: what people are asked, who they are, what is held for them, what they answered
        """CREATE TABLE annotation (
            number INTEGER PRIMARY KEY CHECK (number = 1),
            votes_per_item INTEGER NOT NULL,
            hold_seconds DOUBLE PRECISION NOT NULL,
            seed INTEGER NOT NULL,
            items_version INTEGER NOT NULL,
            owner_hash TEXT
        )""",
        "INSERT INTO annotation VALUES (1, 5, 900, 0, 0, NULL)",
        """CREATE TABLE items (
            id TEXT PRIMARY KEY,
            task TEXT NOT NULL,
            role TEXT NOT NULL CHECK (role IN ('original', 'reconstruction', 'shuffled', 'decoy')),
            original TEXT NOT NULL,
            other TEXT,
            condition TEXT NOT NULL,
            case_key TEXT NOT NULL,
            place INTEGER NOT NULL,
            image TEXT,
            beside TEXT,
            answers TEXT NOT NULL,
            truth TEXT,
            UNIQUE (task, role, case_key, place)
        )""",
        """CREATE TABLE annotators (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('human', 'classifier', 'model')),
            seat INTEGER NOT NULL,
            token_hash TEXT UNIQUE,
            revoked INTEGER NOT NULL,
            UNIQUE (kind, name),
            UNIQUE (kind, seat)
        )""",
        """CREATE TABLE reservations (
            item TEXT NOT NULL REFERENCES items (id),
            annotator TEXT NOT NULL REFERENCES annotators (id),
            turn INTEGER NOT NULL,
            expires DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (item, annotator)
        )""",
        "CREATE INDEX reservations_by_annotator ON reservations (annotator, turn)",
        "CREATE INDEX reservations_by_expiry ON reservations (expires)",
        """CREATE TABLE votes (
            item TEXT NOT NULL REFERENCES items (id),
            annotator TEXT NOT NULL REFERENCES annotators (id),
            answer TEXT,
            forced TEXT,
            confidence TEXT CHECK (confidence IN ('certain', 'likely', 'guess')),
            seconds DOUBLE PRECISION,
            voted_at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (item, annotator)
        )""",
        "CREATE INDEX votes_by_annotator ON votes (annotator, voted_at)",
        "CREATE INDEX votes_by_time ON votes (voted_at)",
    ),
    (  # 3: what is held was on the screen, or is only fetched ahead; of what is held already nobody knows
        "ALTER TABLE reservations ADD COLUMN shown INTEGER NOT NULL DEFAULT 1",
    ),
    (  # 4: networks that a study trains before it attacks them
        """CREATE TABLE targets (
            key TEXT PRIMARY KEY,
            position INTEGER NOT NULL,
            described TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('pending', 'done', 'failed')),
            reason TEXT,
            outcome TEXT
        )""",
    ),
    (  # 5: how surely a classifier sees the original, which people are not asked
        "ALTER TABLE votes ADD COLUMN grade DOUBLE PRECISION CHECK (grade BETWEEN 0 AND 1)",
    ),
    (  # 6: what a study measures of networks and defenses beside attacking gradients
        """CREATE TABLE probes (
            key TEXT PRIMARY KEY,
            position INTEGER NOT NULL,
            described TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('pending', 'done', 'failed')),
            reason TEXT,
            outcome TEXT
        )""",
    ),
    (  # 7: checksums, by which damage is found; what was written before has none
        "ALTER TABLE images ADD COLUMN seal BIGINT",
        "ALTER TABLE cases ADD COLUMN seal BIGINT",
        "ALTER TABLE targets ADD COLUMN seal BIGINT",
        "ALTER TABLE probes ADD COLUMN seal BIGINT",
        "ALTER TABLE scores ADD COLUMN seal BIGINT",
    ),
    (  # 8: whose all this is
        """CREATE TABLE study (
            number INTEGER PRIMARY KEY CHECK (number = 1),
            name TEXT NOT NULL,
            seal BIGINT
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
