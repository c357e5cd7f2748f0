"""`agent`: what runs on every node."""

from pathlib import Path
from typing import Annotated

import typer

from guardctl.cli.context import of


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(agent)


def agent(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="One sample, then end.")] = False,
    node: Annotated[str, typer.Option(help="Name of this node in Slurm.", show_default="its own")] = "",
    period: Annotated[float | None, typer.Option(help="s between samples; over the policy's.")] = None,
    cgroup: Annotated[str | None, typer.Option(help="Folder with the jobs' cpu.stat; over the policy's.")] = None,
    kmsg: Annotated[Path | None, typer.Option(help="Kernel log; over the policy's.")] = None,
    sysfs: Annotated[Path | None, typer.Option(help="Where sysfs is mounted; over the policy's.")] = None,
) -> None:
    """Sample this node, and keep the hook's verdict fresh.

    Reads GPUs, network, cgroup and kernel log, and appends what it sees to the spool.

    Example: `guardctl agent --once`, or as a service: slurm/guardctl-agent.service
    """
    from guardctl.judge import checks
    from guardctl.observe import agent as room
    from guardctl.observe.identity import node_name

    policy = of(ctx).policy
    given = {"period_s": period, "cgroup": cgroup, "kmsg": kmsg, "sysfs": sysfs}
    observe = policy.observe.model_copy(update={key: value for key, value in given.items() if value is not None})
    policy = policy.model_copy(update={"observe": observe})
    room.run(policy, node or node_name(), lambda readings: checks.run(readings, policy), once=once)
