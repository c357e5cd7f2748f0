"""What a decision may look at, in one value."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ClusterShell.NodeSet import NodeSet

from guardctl.cluster.records import Snapshot
from guardctl.words.policy import Policy
from guardctl.words.records import Standing, Verdict


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a decision may look at."""

    verdicts: tuple[Verdict, ...]
    standings: Mapping[str, Standing]
    snapshot: Snapshot
    policy: Policy
    now: datetime
    drains_at: tuple[datetime, ...] = ()

    def standing(self, node: str) -> Standing:
        """The standing of `node`; HEALTHY where the ledger has none."""
        return self.standings.get(node, Standing(node=node))

    def age_s(self, standing: Standing) -> float:
        """Seconds that a node has been in its state."""
        return (self.now - standing.since_at).total_seconds() if standing.since_at else 0.0


def protected(policy: Policy) -> frozenset[str]:
    """The nodes that the policy protects."""
    return frozenset(NodeSet(policy.act.protected)) if policy.act.protected else frozenset()
