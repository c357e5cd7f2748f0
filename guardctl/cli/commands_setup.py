"""`init` and `doctor`: from nothing to a policy that fits the cluster, and what is missing on the way."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardctl.cli.context import of, print_json, utc_now

if TYPE_CHECKING:
    from guardctl.cluster.records import Snapshot
    from guardctl.words.policy import Policy


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(init)
    app.command()(doctor)


def init(
    ctx: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write; `-` is stdout.")] = Path(
        "/etc/guardctl/guardctl.toml"
    ),
    state_dir: Annotated[Path, typer.Option(help="Folder that all nodes share.")] = Path("/var/lib/guardctl"),
    force: Annotated[bool, typer.Option("--force", help="Write over an existing policy.")] = False,
) -> None:
    """Write a commented policy from the live cluster.

    It only observes until you set `act.mode = "act"`. Example: `guardctl init -o guardctl.toml`
    """
    from guardctl.words.errors import InputError
    from guardctl.words.policy_text import render

    to_stdout = str(output) == "-"
    if not to_stdout and output.exists() and not force:
        raise InputError(f"{output} exists", hint="--force writes over it, --output writes elsewhere")
    text = render(*fit(of(ctx).cluster.snapshot(utc_now()), state_dir))
    if to_stdout:
        typer.echo(text, nl=False)
        return
    _prepare(output, text, state_dir)
    of(ctx).err.print(f"wrote {output}; next: `guardctl --config {output} doctor`")


def fit(snapshot: "Snapshot", state_dir: Path) -> tuple["Policy", tuple[str, ...]]:
    """A policy for the cluster in `snapshot`, and what it was made from."""
    from guardctl.words.policy import Act, Observe, Policy

    gpu_nodes = [node for node in snapshot.nodes.values() if node.num_gpus]
    sizes = Counter(node.num_gpus for node in gpu_nodes)
    expected = next(iter(sizes)) if len(sizes) == 1 else None
    policy = Policy(
        state_dir=state_dir,
        observe=Observe(expected_gpus=expected),
        act=Act(max_out=max(1, len(gpu_nodes) // 10)),
    )
    kinds = ", ".join(f"{count} nodes with {size} GPUs" for size, count in sorted(sizes.items())) or "no GPU nodes"
    partitions = ", ".join(sorted({name for node in snapshot.nodes.values() for name in node.partitions}))
    return policy, (f"Made from a live Slurm {snapshot.version}: {kinds}; partitions {partitions}.",)


def _prepare(output: Path, text: str, state_dir: Path) -> None:
    from guardctl.words.errors import GuardError

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
        state_dir.mkdir(parents=True, exist_ok=True)
        steps = state_dir / "steps"
        steps.mkdir(exist_ok=True)
        steps.chmod(0o1777)
    except OSError as error:
        raise GuardError(
            f"{error.filename}: {error.strerror}", hint="run it as the user that the monitor runs as"
        ) from error


def doctor(
    ctx: typer.Context, json_: Annotated[bool, typer.Option("--json", help="As JSON on stdout.")] = False
) -> None:
    """Say what works here, what is missing, and how to get it.

    Exit code 0: all is well; 1: warnings; 2: something that guardctl cannot do without.

    Examples: `guardctl doctor`, `guardctl --config guardctl.toml doctor --json`
    """
    from dataclasses import asdict

    from rich.table import Table
    from rich.text import Text

    from guardctl.cli.doctor import Mark, examine

    checks = list(examine(of(ctx)))
    if json_:
        print_json({"schema": "guardctl.doctor/1", "checks": [asdict(check) for check in checks]})
    else:
        colours = {Mark.OK: "green", Mark.ABSENT: "dim", Mark.WARN: "yellow", Mark.BAD: "bold red"}
        table = Table("part", "", "found", "how to get it", title="guardctl doctor", title_justify="left", expand=False)
        for check in checks:
            table.add_row(check.name, Text(check.mark, colours[check.mark]), Text(check.found), Text(check.fix))
        of(ctx).out.print(table)
    marks = {check.mark for check in checks}
    raise typer.Exit(2 if Mark.BAD in marks else 1 if Mark.WARN in marks else 0)
