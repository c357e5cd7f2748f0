"""What the tables show, as values: one row each. Pure. The same rows are printed as tables and as JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from guardctl.cluster.records import Node, Snapshot
from guardctl.sweep.baseline import References
from guardctl.sweep.results import GemmResult, PairResult
from guardctl.words.policy import Sweep
from guardctl.words.records import IN_SERVICE, EventKind, Score, Standing, State

ORDER = (
    State.DISPUTED,
    State.REPAIR,
    State.HELD,
    State.RETIRED,
    State.SWEEPING,
    State.QUARANTINED,
    State.DRAINING,
    State.SUSPECT,
    State.PROBATION,
    State.HEALTHY,
)


@dataclass(frozen=True, slots=True)
class StatusRow:
    """One node now. `owner`: who keeps it out of service, "" if nobody. `score`: the lowest of the last ones."""

    node: str
    slurm: str
    state: State
    since_at: datetime | None
    age_s: float | None
    why: str
    owner: str
    incident: str | None
    num_gpus: int
    score: float | None


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One measurement of one device in a sweep. `ok`: None where the sweep could not tell."""

    node: str
    gpu: int | None
    test: str
    value: float | None
    reference: float | None
    unit: str
    ok: bool | None

    @property
    def ratio(self) -> float | None:
        """1.0: as fast as the reference."""
        return self.value / self.reference if self.value is not None and self.reference else None


@dataclass(frozen=True, slots=True)
class PairRow:
    """One pair of nodes in a sweep, its bus bandwidth beside that of the reference."""

    first: str
    second: str
    busbw_gbps: float | None
    reference_gbps: float | None
    ok: bool | None

    @property
    def ratio(self) -> float | None:
        """1.0: as fast as the reference."""
        return self.busbw_gbps / self.reference_gbps if self.busbw_gbps is not None and self.reference_gbps else None


@dataclass(frozen=True, slots=True)
class HostRow:
    """One node in the choice of hosts: in or out, and why. `rate`: straggling rate, 1.0 = healthy."""

    node: str
    chosen: bool
    why: str
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step time before and after, such as of two plans."""

    label: str
    before_s: float
    after_s: float


@dataclass(frozen=True, slots=True)
class EventRow:
    """One line of a story. `evidence`: the numbers, one sentence each."""

    id: int
    at: datetime
    node: str
    kind: EventKind
    why: str
    incident: str | None
    evidence: tuple[str, ...]
    actor: str
    version: str
    policy_hash: str


def status(
    snapshot: Snapshot, standings: Mapping[str, Standing], scores: Iterable[Score], now: datetime
) -> list[StatusRow]:
    """A row per node that Slurm or the ledger knows, those out of service first."""
    lowest: dict[str, float] = {}
    for score in scores:
        if score.relative is not None:
            lowest[score.node] = min(score.relative, lowest.get(score.node, score.relative))
    names = {*snapshot.nodes, *(name for name, each in standings.items() if each.state is not State.HEALTHY)}
    rows = [
        _row(snapshot.nodes.get(name), standings.get(name, Standing(name)), lowest.get(name), now) for name in names
    ]
    return sorted(rows, key=lambda row: (not row.owner, ORDER.index(row.state), row.node))


def _row(node: Node | None, standing: Standing, score: float | None, now: datetime) -> StatusRow:
    ours = standing.state not in IN_SERVICE
    foreign = node is not None and not ours and not node.usable
    reason = (node.reason or "") if node else "Slurm does not know it"
    since_at = node.reason_at if node and foreign else standing.since_at
    return StatusRow(
        node=standing.node,
        slurm="+".join((node.base, *sorted(node.flags))) if node else "unknown to Slurm",
        state=standing.state,
        since_at=since_at,
        age_s=None if since_at is None else max(0.0, (now - since_at).total_seconds()),
        why=standing.why if standing.state is not State.HEALTHY and not foreign else reason,
        owner="guardctl" if ours else ((node.reason_user or "Slurm") if node and foreign else ""),
        incident=standing.incident,
        num_gpus=node.num_gpus if node else 0,
        score=score,
    )


def gemm(results: Iterable[GemmResult], references: References, policy: Sweep) -> list[SweepRow]:
    """A row per measured GPU, beside what a healthy one reaches. No value or no reference: cannot tell."""
    return [_gemm_row(each, references, policy) for each in results]


def _gemm_row(result: GemmResult, references: References, policy: Sweep) -> SweepRow:
    known = references.get(result.key)
    reference = known.value if known else None
    row = SweepRow(result.node, result.gpu, result.test, result.value, reference, result.unit, ok=None)
    if result.fault is not None:
        return replace(row, ok=False)
    return row if row.ratio is None else replace(row, ok=row.ratio >= policy.min_ratio)


def pairs(results: Iterable[PairResult], references: References, policy: Sweep) -> list[PairRow]:
    """A row per pair of nodes, beside what a healthy pair reaches; a pair that did not finish blames nobody."""
    rows = []
    for each in results:
        known = references.get(each.key)
        reference = known.value if known else None
        row = PairRow(each.node_a, each.node_b, each.busbw_gbps, reference, ok=None)
        rows.append(row if row.ratio is None else replace(row, ok=row.ratio >= policy.pair_min_ratio))
    return rows
