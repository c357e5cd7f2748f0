"""`ledger ...`: the history itself."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from guardctl.cli.context import of

app = typer.Typer(help="Read, move and upgrade the ledger.", no_args_is_help=True)


@app.command()
def history(
    ctx: typer.Context,
    node: Annotated[str | None, typer.Option(help="Only this node.")] = None,
    limit: Annotated[int, typer.Option(help="The newest that many.")] = 50,
) -> None:
    """List events, the newest last.

    Example: `guardctl ledger history --node n7`
    """
    for event in of(ctx).ledger.events(node=node, limit=limit):
        tag = f"[{event.incident}] " if event.incident else ""
        typer.echo(f"{event.at:%Y-%m-%d %H:%M:%S} {event.node} {event.kind.replace('_', ' ')} {tag}{event.why}")


@app.command()
def export(ctx: typer.Context) -> None:
    """Write all events as JSON Lines to stdout.

    Example: `guardctl ledger export > ledger.jsonl`
    """
    from guardctl.ledger import lines

    lines.export(of(ctx).ledger, sys.stdout)


@app.command("import")
def import_(ctx: typer.Context, file: Annotated[Path, typer.Argument(help="What `export` wrote.")]) -> None:
    """Add the events of an export; those that are here already are left out.

    Example: `guardctl ledger import x.jsonl`
    """
    from guardctl.ledger import lines
    from guardctl.words.errors import InputError

    try:
        with file.open(encoding="utf-8") as stream:
            typer.echo(f"{lines.load(of(ctx).ledger, stream, str(file))} events added")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error


@app.command()
def upgrade(ctx: typer.Context) -> None:
    """Bring the ledger to this release's tables. Every command does so by itself; this one only says it.

    Example: `guardctl ledger upgrade`
    """
    context = of(ctx)
    context.ledger.events(limit=1)
    typer.echo(f"{context.policy.ledger_url}: up to date")
