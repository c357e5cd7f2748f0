"""`hostlist` and `plan ...`: what the next job should use."""

import json as json_module
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardctl.cli.context import of, print_json, utc_now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from guardctl.cli.context import Context
    from guardctl.cluster.records import Snapshot
    from guardctl.plan.hosts import HostChoice
    from guardctl.report.rows import HostRow

app = typer.Typer(help="Parallel plans that stay fast on GPUs that are not all equal.", no_args_is_help=True)


class Format(StrEnum):
    """How a host list is printed."""

    NODELIST = "nodelist"
    EXCLUDE = "exclude"
    JSON = "json"
    TABLE = "table"


def register(app: typer.Typer) -> None:
    """Add the commands of this module that stand at the top."""
    app.command()(hostlist)


def hostlist(
    ctx: typer.Context,
    num_nodes: Annotated[int, typer.Option("--nodes", "-N", min=1, help="How many nodes.")],
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Only of this partition.")] = None,
    exclude: Annotated[str, typer.Option("--exclude", "-x", help="Host list to leave out.")] = "",
    form: Annotated[Format, typer.Option("--format", help="nodelist and exclude are for sbatch.")] = Format.NODELIST,
) -> None:
    """Print the best fit nodes for a job, in Slurm's form. Nothing is printed, and it fails, if there are too few.

    Examples: `guardctl hostlist -N 32`,
    `x=$(guardctl hostlist -N 32 --format exclude) && sbatch -N 32 --exclude="$x" job.sh`
    """
    from guardctl.cluster.nodesets import expand, fold
    from guardctl.report import json, tables

    context = of(ctx)
    snapshot = context.cluster.snapshot(utc_now())
    choice = _choose(context, snapshot, num_nodes, partition, frozenset(expand(exclude)) if exclude else frozenset())
    if form is Format.TABLE:
        context.out.print(tables.hosts(_rows(choice)))
    elif form is Format.JSON:
        print_json(json.document("hostlist", _rows(choice), utc_now(), complete=choice.complete))
    elif choice.complete:
        typer.echo(fold(choice.nodes if form is Format.NODELIST else choice.out))
    if not choice.complete:
        context.err.print(f"guardctl: {choice.why}", markup=False, soft_wrap=True)
        raise typer.Exit(1)


def _choose(
    context: "Context", snapshot: "Snapshot", num_nodes: int, partition: str | None, exclude: frozenset[str]
) -> "HostChoice":
    from guardctl import monitor
    from guardctl.act.view import protected
    from guardctl.plan import hosts, rates
    from guardctl.words.errors import InputError

    standings = context.ledger.standings(utc_now())
    known = {name for node in snapshot.nodes.values() for name in node.partitions}
    if partition is not None and partition not in known:
        raise InputError(f"Slurm knows no partition {partition!r}", hint=f"there are: {', '.join(sorted(known))}")
    speeds = rates.by_node(monitor.last_scores(context.policy, standings))
    kept = protected(context.policy)
    return hosts.choose(
        snapshot, standings, num_nodes, partition=partition, exclude=exclude, protected=kept, rates=speeds
    )


def _rows(choice: "HostChoice") -> "list[HostRow]":
    from guardctl.report.rows import HostRow

    chosen = [HostRow(node, chosen=True, why="fit") for node in choice.nodes]
    spares = [HostRow(node, chosen=False, why="fit, not needed") for node in choice.spares]
    return [*chosen, *spares, *(HostRow(node, chosen=False, why=why) for node, why in choice.out.items())]


@app.command()
def make(
    ctx: typer.Context,
    model: Annotated[Path, typer.Option("--model", "-m", help="Model constants, TOML.")],
    hosts: Annotated[str, typer.Option(help="Host list to plan for, with the measured rates.")] = "",
    rates: Annotated[Path | None, typer.Option(help="Rates by GPU, JSON, instead of hosts.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="As JSON on stdout.")] = False,
) -> None:
    """Plan groups, layers and micro-batches for uneven GPUs. With --rates it needs no Slurm and no ledger.

    Examples: `guardctl plan make --model 110b.toml --rates rates.json --json`,
    `guardctl plan make --model 110b.toml --hosts "$(guardctl hostlist -N 8)"`
    """
    from guardctl.plan import greedy
    from guardctl.plan import model as models
    from guardctl.report import plans
    from guardctl.words.errors import InputError

    constants = models.load(model)
    if bool(hosts) == (rates is not None):
        raise InputError("give either --hosts or --rates", hint="`guardctl plan make --help` has examples")
    if rates is not None:
        num_gpus, speeds = _from_file(rates)
        try:
            plan = greedy.make(num_gpus, speeds, constants)
        except InputError as error:
            raise InputError(f"{rates} with {model}: {error}", hint=error.hint) from error
    else:
        names, speeds = _measured(of(ctx), hosts, constants.gpus_per_node)
        plan = greedy.make(names, speeds, constants)
    if json_:
        print_json(plan.to_json())
    else:
        of(ctx).out.print(plans.plan(plan, speeds))


def _from_file(path: Path) -> "tuple[int, Mapping[int, float]]":
    from guardctl.words.errors import InputError

    try:
        data = json_module.loads(path.read_text(encoding="utf-8"))
        return int(data["gpus"]), {int(gpu): float(rate) for gpu, rate in data["rates"].items()}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f'{path}: not {{"gpus": N, "rates": {{"GPU": RATE}}}}: {error}') from error


def _measured(context: "Context", hosts: str, gpus_per_node: int) -> "tuple[tuple[str, ...], Mapping[int, float]]":
    from guardctl import monitor
    from guardctl.cluster.nodesets import expand
    from guardctl.plan import rates

    names = expand(hosts)
    scores = monitor.last_scores(context.policy, context.ledger.standings(utc_now()))
    return names, rates.by_gpu(names, scores, gpus_per_node)
