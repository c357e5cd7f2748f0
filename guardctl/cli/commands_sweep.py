"""`sweep ...`: test nodes now, and look at what tests found."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from guardctl.cli.context import of, print_json, utc_now

if TYPE_CHECKING:
    from guardctl.act.perform import World
    from guardctl.cli.context import Context
    from guardctl.sweep.state import Sweep

app = typer.Typer(help="Test nodes with batch jobs, and look at what the tests found.", no_args_is_help=True)
POLL_S = 1.0
AsJson = Annotated[bool, typer.Option("--json", help="As JSON on stdout.")]


@app.command()
def run(
    ctx: typer.Context,
    nodes: Annotated[str, typer.Argument(help="Host list, such as n[1-4].")],
    partners: Annotated[
        str | None, typer.Option(help="Healthy nodes to compare with.", show_default="idle ones")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the exact commands of the first round.")] = False,
    json_: AsJson = False,
) -> None:
    """Sweep nodes: each alone (GEMM), then in pairs (all-reduce), and name the culprit. Ctrl-C cancels the jobs.

    A node that fails is marked in the ledger; a monitor that may act drains it. Exit code: 0 all passed, 1 some are
    inconclusive, 2 some failed.

    Examples: `guardctl sweep run n7`, `guardctl sweep run n[1-8] --partners n[9-10] --json`
    """
    from guardctl.sweep import by_hand

    context = of(ctx)
    world = context.world()
    suspects, others = by_hand.choose(nodes, partners, world.policy, world.cluster.snapshot(utc_now()),
                                      world.ledger.standings(utc_now()))  # fmt: skip
    if dry_run:
        for line in by_hand.commands(suspects, others, world.policy, utc_now()):
            typer.echo(line)
        return
    context.refuse_if_stopped()
    sweep = _watched(context, by_hand.start(suspects, others, world.policy, world.ledger, utc_now()), world)
    _show(context, sweep, json_)
    raise typer.Exit(_exit_code(sweep))


def _watched(context: "Context", sweep: "Sweep", world: "World") -> "Sweep":
    """The sweep when it is done, with a progress bar for the person who waits."""
    from guardctl import monitor
    from guardctl.sweep import run as sweep_run

    world.record(*monitor.sweep_started(sweep, world))
    with sweep_run.locked(sweep, world.policy), _progress(context) as tell:
        try:
            while not sweep.done:
                sweep = sweep_run.step(sweep, world.cluster, world.policy, utc_now())
                tell(*sweep_run.progress(sweep, utc_now()))
                if not sweep.done:
                    time.sleep(POLL_S)
        except KeyboardInterrupt:
            sweep_run.collect(sweep_run.cancel(sweep, world.cluster, world.policy, utc_now()), world.policy)
            context.err.print("\ncancelled: its jobs are gone, no node was judged")
            raise typer.Exit(130) from None
        monitor.sweep_ended(sweep, world)
    return sweep


@contextmanager
def _progress(context: "Context") -> "Iterator[Tell]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=context.err) as progress:
        bar = progress.add_task("waiting for the nodes")

        def tell(done: int, total: int, words: str) -> None:
            progress.update(bar, completed=done, total=total, description=words)

        yield tell


if TYPE_CHECKING:
    from collections.abc import Callable

    Tell = Callable[[int, int, str], None]


@app.command()
def show(
    ctx: typer.Context,
    sweep_id: Annotated[str, typer.Argument(help="Id of a sweep.", show_default="all of them")] = "",
    json_: AsJson = False,
) -> None:
    """Show one sweep with its measurements, or list them all.

    Examples: `guardctl sweep show`, `guardctl sweep show 5d0a2bk7`
    """
    from guardctl.sweep import state

    context = of(ctx)
    if sweep_id:
        _show(context, state.load(context.policy.state_dir, sweep_id), json_)
        return
    for each in state.ids(context.policy.state_dir):
        sweep = state.load(context.policy.state_dir, each)
        said = ", ".join(f"{out.node} {out.result}" for out in sweep.outcomes) or sweep.stage
        typer.echo(f"{sweep.id}  {sweep.started_at:%Y-%m-%d %H:%M}  {said}")


@app.command()
def cancel(ctx: typer.Context, sweep_id: Annotated[str, typer.Argument(help="Id of a sweep.")]) -> None:
    """Cancel a sweep and its jobs; what it had not answered is inconclusive.

    Example: `guardctl sweep cancel 5d0a2bk7`
    """
    from guardctl.sweep import run as sweep_run
    from guardctl.sweep import state

    context = of(ctx)
    sweep = state.load(context.policy.state_dir, sweep_id)
    with sweep_run.locked(sweep, context.policy):
        sweep_run.cancel(sweep, context.cluster, context.policy, utc_now())
    typer.echo(f"sweep {sweep_id} is cancelled")


def _show(context: "Context", sweep: "Sweep", json_: bool) -> None:
    from guardctl.report import json, rows, tables
    from guardctl.sweep import run as sweep_run

    results = sweep_run.results_of(sweep, context.policy)
    alone, pairs = sweep_run.references(sweep, results)
    gemm_rows = rows.gemm(sweep_run.gemm_results(results), alone, context.policy.sweep)
    pair_rows = rows.pairs(sweep_run.pair_results(results), pairs, context.policy.sweep)
    if json_:
        print_json(json.document("sweep", gemm_rows, utc_now(), pairs=pair_rows, sweep=sweep))
        return
    context.out.print(tables.sweep(gemm_rows, pair_rows))
    for outcome in (*sweep.outcomes, *sweep.partner_outcomes):
        context.out.print(f"{outcome.node}: {outcome.result.lower()} {outcome.culprit}".rstrip(), markup=False)


def _exit_code(sweep: "Sweep") -> int:
    from guardctl.sweep.blame import Result

    results = {outcome.result for outcome in (*sweep.outcomes, *sweep.partner_outcomes)}
    return 2 if Result.FAILED in results else 1 if Result.INCONCLUSIVE in results else 0
