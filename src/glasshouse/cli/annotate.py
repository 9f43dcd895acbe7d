"""``glasshouse annotate``: ask people what they see, and make something of their votes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glasshouse.cli.annotate_serve import serve

if TYPE_CHECKING:
    from glasshouse.store import Kind, Votes

annotate = typer.Typer(help="Ask people what they see.", no_args_is_help=True, rich_markup_mode=None)
annotate.command()(serve)

Study = Annotated[Path, typer.Argument(help="study directory")]
Database = Annotated[str | None, typer.Option(help="URL of the database [default: the study's own]")]
AsJson = Annotated[bool, typer.Option("--json", help="print what was found as JSON")]
Kinds = Annotated[str, typer.Option("--kind", help="whose votes: human, classifier, model, or all of them together")]


@contextmanager
def open_votes(study: Path, database: str | None, *, new: bool = False) -> Iterator[Votes]:
    """The votes of a study, in its own database unless a URL is given."""
    from glasshouse.errors import StudyError
    from glasshouse.store import Location, Votes

    if new:
        study.mkdir(parents=True, exist_ok=True)
    location = Location.of(study)
    if not study.is_dir() or (database is None and not new and not location.exists()):
        raise StudyError(f"{study} holds no study: run 'glasshouse audit --out {study}' or 'annotate import' first.")
    votes = Votes(database or location.database)
    try:
        yield votes
    finally:
        votes.close()


@annotate.command()
def invite(
    study: Study,
    annotators: Annotated[int, typer.Option(help="how many people to invite")] = 5,
    name: Annotated[list[str] | None, typer.Option(help="name of somebody to invite instead; repeatable")] = None,
    task: Annotated[str, typer.Option(help="SPEC of what is asked: classification, pair, counting")] = "classification",
    shuffled: Annotated[bool, typer.Option("--shuffled", help="ask about shuffled originals as well")] = False,
    votes_per_item: Annotated[int | None, typer.Option(help="how many people answer each item [default: 5]")] = None,
    owner: Annotated[bool, typer.Option("--owner", help="make a new link to the owner's overview")] = False,
    public_url: Annotated[
        str, typer.Option("--public-url", "--base", help="what links begin with: where people find the page")
    ] = "http://127.0.0.1:8000",
    data_root: Annotated[Path | None, typer.Option(help="where data sets lie, for candidate classes")] = None,
    database: Database = None,
) -> None:
    """Print a personal link for each annotator; links are shown once and only their hashes are kept."""
    from dataclasses import replace

    from glasshouse.votes import invitations
    from glasshouse.votes.items import Questions, prepare
    from glasshouse.votes.status import status

    base = invitations.public_origin(public_url)
    with open_votes(study, database) as votes:
        if votes_per_item is not None:
            votes.set_rules(replace(votes.rules(), votes_per_item=votes_per_item))
        added = prepare(study, votes, Questions(task=task, shuffled=shuffled), root=data_root)
        if added:
            print(f"{added} items to answer.")
        for one in invitations.invite(votes, name or invitations.free_names(votes, annotators)):
            print(f"{one.annotator.name}: {base}/join/{one.token}")
        if owner or votes.owner_hash() is None:
            print(f"owner: {base}/owner/{invitations.new_owner_token(votes)}")
        missing = status(votes, time.time()).missing
    if missing:
        print(f"Nobody sees two versions of one original, so all items need {missing} more annotators.")


@annotate.command()
def revoke(study: Study, name: Annotated[str, typer.Argument(help="who")], database: Database = None) -> None:
    """End an annotator's access; the votes stay."""
    from glasshouse.errors import UnknownNameError

    with open_votes(study, database) as votes:
        people = {one.name: one.id for one in votes.annotators() if one.kind == "human"}
        if name not in people:
            raise UnknownNameError("annotator", name, people)
        votes.revoke(people[name])
    print(f"{name} can no longer vote; the votes stay.")


@annotate.command()
def status(study: Study, as_json: AsJson = False, database: Database = None) -> None:
    """Show how far the votes are."""
    from glasshouse.cli.annotate_tables import show_status
    from glasshouse.votes.status import status as look

    with open_votes(study, database) as votes:
        found = look(votes, time.time())
    if as_json:
        print(json.dumps(found.to_json(), allow_nan=False))
    else:
        show_status(found)


@annotate.command()
def export(
    study: Study,
    file: Annotated[Path, typer.Argument(help="FILE.csv, .json or .parquet")],
    kind: Kinds = "human",
    database: Database = None,
) -> None:
    """Write the votes as a table."""
    from glasshouse.votes.exporters import export as write
    from glasshouse.votes.lines import lines

    with open_votes(study, database) as votes:
        table = lines(votes, _kind(kind))
    write(table, file)
    print(f"{sum(line.annotator is not None for line in table)} votes: {file}")
    if not table:
        print(f"Nothing is asked yet: 'glasshouse annotate invite {study}' makes the items.")


@annotate.command("import")
def import_votes(
    study: Study, file: Annotated[Path, typer.Argument(help="file or folder of votes")], database: Database = None
) -> None:
    """Read votes that were given elsewhere; the study is made where there is none."""
    from glasshouse.votes.bundle import load
    from glasshouse.votes.importers import read_bundle

    bundle = read_bundle(file, study)
    with open_votes(study, database, new=True) as votes:
        before = len(votes.items())
        added = load(bundle, votes)
    print(f"{len(bundle.items)} items and {len(bundle.votes)} votes of {len(bundle.voters)}: {bundle.format}")
    known = len(bundle.items) - added.items, len(bundle.votes) - added.votes
    if any(known):
        print(f"{known[0]} of these items and {known[1]} of these votes were there already, and stay as they were.")
    if before and added.items:
        print(f"{added.items} of these items were new to this study, which asked about {before} before.")


@annotate.command()
def agreement(study: Study, kind: Kinds = "human", as_json: AsJson = False, database: Database = None) -> None:
    """Show how far annotators agree, and what each of them is like."""
    from glasshouse.cli.annotate_tables import show_agreement
    from glasshouse.votes.agreement import agreement as compute

    with open_votes(study, database) as votes:
        reports = compute(votes, _kind(kind))
    if as_json:
        print(json.dumps([report.to_json() for report in reports], allow_nan=False))
    else:
        show_agreement(reports)


@annotate.command()
def release(
    study: Study,
    directory: Annotated[Path, typer.Argument(help="directory to write, which must not be there")],
    kind: Kinds = "human",
    database: Database = None,
) -> None:
    """Write pictures, votes and a data card as a data set that others can use."""
    from glasshouse.votes.release import release as write

    with open_votes(study, database) as votes:
        write(study, votes, directory, _kind(kind))
    print(f"Data set: {directory}")


@annotate.callback()
def _group() -> None:
    """Ask people what they see, and make something of their votes."""


def _kind(word: str) -> Kind | None:
    """The kind that a word asks for; all kinds together only where that is asked for."""
    from typing import cast, get_args

    from glasshouse import checks
    from glasshouse.store import Kind

    if word == "all":
        return None
    checks.one_of("kind", word, (*get_args(Kind), "all"))
    return cast(Kind, word)
