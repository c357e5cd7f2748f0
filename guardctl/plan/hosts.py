"""Which nodes the next job should have: those that are fit, the fastest first, and why each of the others is not."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from guardctl.cluster.records import Node, Snapshot
from guardctl.words.records import Standing, State


@dataclass(frozen=True, slots=True)
class HostChoice:
    """`nodes`: the chosen ones, in order; `spares`: fit but not needed; `out`: why each other node is not fit.

    Fewer than `wanted` nodes is no error here: `complete` is False, and `why` says it in one line.
    """

    nodes: tuple[str, ...]
    out: Mapping[str, str]
    spares: tuple[str, ...]
    wanted: int

    @property
    def complete(self) -> bool:
        """Whether there are as many as were asked for."""
        return len(self.nodes) == self.wanted

    @property
    def why(self) -> str:
        """What is missing, with the reasons for it; empty if nothing is."""
        if self.complete:
            return ""
        reasons = "; ".join(
            f"{node}: {why}" for node, why in sorted(self.out.items(), key=lambda item: natural(item[0]))
        )
        return f"{len(self.nodes)} of {self.wanted} nodes are fit" + (f" ({reasons})" if reasons else "")


def choose(
    snapshot: Snapshot,
    standings: Mapping[str, Standing],
    n: int,
    *,
    partition: str | None = None,
    protected: AbstractSet[str] = frozenset(),
    exclude: AbstractSet[str] = frozenset(),
    rates: Mapping[str, float] | None = None,
) -> HostChoice:
    """The best `n` nodes for a job: in full health before those on probation, then fast before slow, then by name.

    Fit: Slurm would use the node, its standing is HEALTHY or PROBATION, and no reservation names it. `rates`:
    straggling rate by node, 1 where nothing was measured. `partition`: nodes of others are not even mentioned in
    `out`. `protected` nodes are those that guardctl may not touch: a job may have them, after all others.
    """
    speed = rates or {}
    nodes = [node for node in snapshot.nodes.values() if partition is None or partition in node.partitions]
    reserved = {node: each.name for each in snapshot.reservations.values() for node in each.nodes}
    out = {node.name: why for node in nodes if (why := _unfit(node, standings.get(node.name), reserved, exclude))}

    def order(name: str) -> tuple[bool, bool, float, tuple[tuple[int, str], ...]]:
        standing = standings.get(name)
        on_probation = standing is not None and standing.state is State.PROBATION
        return (name in protected, on_probation, speed.get(name, 1.0), natural(name))

    fit = sorted((node.name for node in nodes if node.name not in out), key=order)
    return HostChoice(tuple(fit[:n]), out, tuple(fit[n:]), n)


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key in which n2 comes before n10."""
    parts: Sequence[str] = re.findall(r"\d+|\D+", name)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def _unfit(node: Node, standing: Standing | None, reserved: Mapping[str, str], exclude: AbstractSet[str]) -> str:
    """The first reason why a node is not fit; empty: it is."""
    if node.name in exclude:
        return "excluded by the caller"
    if standing is not None and standing.held:
        return f"held: {standing.why or 'no reason given'}"
    if standing is not None and standing.state not in {State.HEALTHY, State.PROBATION}:
        return f"{standing.state}: {standing.why or 'no reason given'}"
    if node.name in reserved:
        return f"in reservation {reserved[node.name]}"
    if not node.usable:
        state = "+".join((node.base, *sorted(node.flags)))
        return f"Slurm: {state}" + (f" ({node.reason})" if node.reason else "")
    return ""
