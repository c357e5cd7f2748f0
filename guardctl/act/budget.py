"""How many more nodes may leave service, and whether many findings at once have one common cause. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from guardctl.cluster.records import Node, Snapshot
from guardctl.words.policy import Act
from guardctl.words.records import IN_SERVICE, Standing, State, Verdict

POWERED_DOWN = frozenset({"POWERED_DOWN", "POWERING_DOWN", "CLOUD"})


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left: `num_left` drains now, and `rule`, which of the rules is the tightest, in words."""

    num_left: int
    rule: str

    def refusal(self, num_taken: int) -> str:
        """Why there is no further drain after `num_taken` of this tick; empty while there is."""
        if num_taken < self.num_left:
            return ""
        return f"{self.rule}, and this tick takes {num_taken}" if num_taken else self.rule


def gpu_nodes(snapshot: Snapshot) -> tuple[Node, ...]:
    """The denominator: nodes with GPUs that are not powered down."""
    return tuple(node for node in snapshot.nodes.values() if node.num_gpus and not (node.flags & POWERED_DOWN))


def is_out(node: Node, standings: Mapping[str, Standing]) -> bool:
    """Whether a node is out of service, by whomever: drained, down, or in our quarantine."""
    standing = standings.get(node.name)
    quarantined = standing is not None and standing.state in {State.QUARANTINED, State.SWEEPING}
    return node.drained or node.base in {"DOWN", "ERROR", "FUTURE"} or quarantined


def left(
    snapshot: Snapshot, standings: Mapping[str, Standing], drains_at: Sequence[datetime], act: Act, now: datetime
) -> Budget:
    """The drains that the policy still allows; `drains_at`: when we made our own."""
    nodes = gpu_nodes(snapshot)
    num_out = sum(is_out(node, standings) for node in nodes)
    by_percent = max(1, int(len(nodes) * act.max_out_percent / 100)) if act.max_out_percent else 0
    recent = sum(at > now - timedelta(seconds=act.window_s) for at in drains_at)
    rules = (
        Budget(act.max_out - num_out, f"{num_out} nodes are out, act.max_out is {act.max_out}"),
        Budget(by_percent - num_out, f"{num_out} of {len(nodes)} nodes are out, the cap is {act.max_out_percent:g}%"),
        Budget(act.max_drains_per_window - recent, f"{recent} drains in the last {act.window_s:g} s, the cap"),
    )
    tightest = min(rules, key=lambda rule: rule.num_left)
    return Budget(max(0, tightest.num_left), tightest.rule)


def free_left(snapshot: Snapshot, standings: Mapping[str, Standing], partition: str) -> int:
    """Nodes of a partition that Slurm would use and that stand in service."""
    return sum(
        partition in node.partitions
        and node.usable
        and standings.get(node.name, Standing(node.name)).state in IN_SERVICE
        for node in snapshot.nodes.values()
    )


def common_causes(verdicts: Iterable[Verdict], num_nodes: int, act: Act) -> dict[str, int]:
    """Checks that spoke on so many nodes at once that the check itself, the driver or the fabric is to blame."""
    counts = Counter(check for verdict in verdicts for check in set(verdict.checks))
    limit = max(act.common_cause, num_nodes * act.common_cause_percent / 100)
    return {check: count for check, count in counts.items() if count >= limit}
