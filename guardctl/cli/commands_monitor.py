"""`monitor`: one tick for cron, or the daemon."""

import signal
from typing import TYPE_CHECKING, Annotated

import typer

from guardctl.cli.context import of, print_json

if TYPE_CHECKING:
    from guardctl.act.perform import World
    from guardctl.monitor import Tick


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(monitor)


def monitor(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="One tick, then end: for cron.")] = False,
    act: Annotated[bool | None, typer.Option("--act/--observe", help="Over the policy's act.mode.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="One tick; print the exact commands, do nothing.")] = False,
    period: Annotated[float, typer.Option(help="s from tick to tick.")] = 60.0,
    json_: Annotated[bool, typer.Option("--json", help="Each tick as JSON on stdout.")] = False,
) -> None:
    """Score the nodes, and act as far as the policy allows.

    Exit code of --once: 0 nothing to say, 1 suspects, 2 hard faults, 3 Slurm did not answer: nothing was done.

    Examples: `guardctl monitor --once --json`, `guardctl monitor --act --period 30`
    """
    from guardctl import monitor as room
    from guardctl.act.lock import held
    from guardctl.cluster.dryrun import DryRun

    context = of(ctx)
    world = context.world(act=act)
    if dry_run:
        for line in room.dry_run(world, DryRun(context.cluster)):
            typer.echo(line)
        return
    if not once:
        _run(world, period, json_)
        return
    with held(world.policy.state_dir / "monitor.lock", "monitor"):
        tick = room.tick(world)
    _show(tick, json_)
    raise typer.Exit(2 if any(each.hard for each in tick.verdicts) else 1 if tick.verdicts else 0)


def _run(world: "World", period_s: float, json_: bool) -> None:
    from guardctl import monitor as room

    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: stopping.append(received))
    room.run(world, period_s, lambda tick: _show(tick, json_), lambda: bool(stopping))


def _show(tick: "Tick", json_: bool) -> None:
    from guardctl.report.json import as_json

    if json_:
        keys = ("at", "verdicts", "actions", "events")
        print_json({"schema": "guardctl.tick/1", **{key: as_json(getattr(tick, key)) for key in keys}})
        return
    typer.echo(f"{tick.at:%Y-%m-%d %H:%M:%S} {len(tick.snapshot.nodes)} nodes, {len(tick.scores)} scores")
    for event in tick.events:
        typer.echo(f"  {event.node}: {event.kind.replace('_', ' ')}: {event.why}")
