"""What people do by hand: `drain`, `release`, `hold`, `unhold`, `repaired`. The ledger keeps their name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from guardctl.cli.context import of

if TYPE_CHECKING:
    from guardctl.words.records import Event

Nodes = Annotated[str, typer.Argument(help="Host list, such as n[1-4].")]
Why = Annotated[str, typer.Option("--why", "-m", help="Why, in plain words.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the exact commands, do nothing.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (drain, release, hold, unhold, repaired):
        app.command()(command)


def drain(ctx: typer.Context, nodes: Nodes, why: Why, dry_run: DryRun = False) -> None:
    """Drain nodes under our own tag.

    When they are empty the monitor sweeps them.

    Example: `guardctl drain n7 --why "fan is loud"`
    """
    _by_hand(ctx, "drain", nodes, why, dry_run=dry_run)


def release(ctx: typer.Context, nodes: Nodes, why: Why = "by hand", dry_run: DryRun = False) -> None:
    """Undo our own drain without a sweep. Somebody else's drain is never touched.

    Example: `guardctl release n7`
    """
    _by_hand(ctx, "release", nodes, why, dry_run=dry_run)


def hold(ctx: typer.Context, nodes: Nodes, why: Why, dry_run: DryRun = False) -> None:
    """Keep nodes out of service until `unhold`.

    Also after somebody resumes everything: the monitor drains them again.

    Example: `guardctl hold n7 --why "vendor comes on Monday"`
    """
    _by_hand(ctx, "hold", nodes, why, dry_run=dry_run)


def unhold(ctx: typer.Context, nodes: Nodes, why: Why = "by hand", dry_run: DryRun = False) -> None:
    """End a hold.

    The monitor then sweeps the nodes before they come back.

    Example: `guardctl unhold n7`
    """
    _by_hand(ctx, "unhold", nodes, why, dry_run=dry_run)


def repaired(ctx: typer.Context, nodes: Nodes, why: Why = "repaired", dry_run: DryRun = False) -> None:
    """Say that nodes were repaired.

    The monitor sweeps them before they come back.

    Example: `guardctl repaired n7 --why "GPU 3 swapped"`
    """
    _by_hand(ctx, "repaired", nodes, why, dry_run=dry_run)


def _by_hand(ctx: typer.Context, what: str, nodes: str, why: str, *, dry_run: bool) -> None:
    from guardctl.act import people
    from guardctl.cluster.dryrun import DryRun
    from guardctl.cluster.nodesets import expand

    world = of(ctx).world()
    names = expand(nodes)
    if dry_run:
        for line in people.dry_run(what, names, why, world, DryRun(of(ctx).cluster)):
            typer.echo(line)
        return
    of(ctx).refuse_if_stopped()
    _show(people.COMMANDS[what](names, why, world))


def _show(events: "Sequence[Event]") -> None:
    from guardctl.words.records import EventKind

    for event in events:
        if event.kind is not EventKind.DRAIN_INTENDED:
            tag = f" [{event.incident}]" if event.incident else ""
            typer.echo(f"{event.node}: {event.kind.replace('_', ' ')}{tag}: {event.why}")
    if any(event.kind in {EventKind.REFUSED, EventKind.DRAIN_FAILED} for event in events):
        raise typer.Exit(1)
