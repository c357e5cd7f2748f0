"""A sweep that a person asks for, of nodes in service: its jobs queue like anybody's, and nothing is reserved."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from guardctl.cluster import argv
from guardctl.cluster.nodesets import expand
from guardctl.cluster.records import Node, Snapshot
from guardctl.ledger.store import Ledger
from guardctl.sweep import baseline, files, run, steps
from guardctl.sweep.state import Sweep
from guardctl.sweep.submit import Place
from guardctl.words.errors import InputError
from guardctl.words.policy import Policy
from guardctl.words.records import EventKind, Standing, State


def choose(
    nodes: str, partners: str | None, policy: Policy, snapshot: Snapshot, standings: Mapping[str, Standing]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes to test and the ones to compare them with; `partners` None: idle healthy nodes of the same kind.

    Raises InputError for a node that Slurm does not know or would start no job on, and says what to do instead.
    """
    suspects = expand(nodes)
    for name in suspects:
        _check(name, snapshot.nodes.get(name))
    if partners is not None:
        return suspects, tuple(name for name in expand(partners) if name not in suspects) if partners else ()
    like = snapshot.nodes[suspects[0]]
    idle = [node.name for node in snapshot.nodes.values()
            if _is_partner(node, like, snapshot, standings) and node.name not in suspects]  # fmt: skip
    return suspects, tuple(idle[: policy.sweep.partners])


def _check(name: str, node: Node | None) -> None:
    if node is None:
        raise InputError(f"Slurm knows no node {name}", hint="`sinfo -N` lists the names")
    if node.drained or not node.usable:
        state = "+".join((node.base, *sorted(node.flags)))
        reason = f" ({node.reason_user}: {node.reason})" if node.reason else ""
        hint = "a node that guardctl drained is swept by the monitor; `guardctl status` shows how far it is"
        raise InputError(f"{name} is {state}{reason}: Slurm would start no sweep on it", hint=hint)


def _is_partner(node: Node, like: Node, snapshot: Snapshot, standings: Mapping[str, Standing]) -> bool:
    same = node.num_gpus == like.num_gpus and bool(set(node.partitions) & set(like.partitions))
    idle = node.usable and node.base == "IDLE" and not snapshot.reservations_on(node.name)
    return same and idle and standings.get(node.name, Standing(node.name)).state is State.HEALTHY


def start(suspects: Sequence[str], partners: Sequence[str], policy: Policy, ledger: Ledger, now: datetime) -> Sweep:
    """The new sweep, written to its folder."""
    baselines = baseline.from_events(ledger.events(kinds=[EventKind.BASELINE]))
    return run.start(policy, suspects=suspects, partners=partners, now=now, baselines=baselines)


def commands(suspects: Sequence[str], partners: Sequence[str], policy: Policy, now: datetime) -> list[str]:
    """The exact commands of the first round, which tests every node alone; later rounds follow from its results."""
    sweep = steps.first(run.new(policy, suspects=suspects, partners=partners, now=now))
    place = Place(files.folder(), policy.sweep.python, Path(policy.state_dir / "sweeps" / sweep.id), "")
    _, submissions = run.advance(sweep, {}, [], policy, now, place=place)
    return [" ".join(argv.submit(submission)) for submission in submissions]
