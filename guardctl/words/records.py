"""The values that flow through the house, from a reading to an action. Frozen; units are part of the names.

    Reading, StepSample -> Score, Finding -> Verdict -> Action -> Event -> Standing

Times are UTC `datetime`s with a time zone and end in `_at`. A value that is not known is None, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

Value = float | int | str | bool | None
EMPTY: Mapping[str, Any] = MappingProxyType({})


class Source(StrEnum):
    """Where a reading comes from, which is also the kind of signal that it can carry."""

    GPU = "gpu"  # NVML
    HOST = "host"  # cgroup, /proc
    NET = "net"  # TCP and queue counters of the node
    IB = "ib"  # InfiniBand ports
    LOG = "log"  # kernel log: Xid, SXid


class Kind(StrEnum):
    """Kinds of signal. Soft evidence needs two different kinds that agree; STEPS is written by the job itself."""

    STEPS = "steps"
    GPU = "gpu"
    HOST = "host"
    TRANSPORT = "transport"  # TCP retransmits
    LINK = "link"  # drops in the queue of the network card, InfiniBand port errors
    LOG = "log"


class Health(StrEnum):
    """What a verdict says. UNKNOWN is a verdict: the data cannot tell."""

    HEALTHY = "HEALTHY"
    SUSPECT = "SUSPECT"
    FAULTY = "FAULTY"
    UNKNOWN = "UNKNOWN"


class Level(StrEnum):
    """How finely a verdict may name the culprit."""

    GPU = "gpu"
    NODE = "node"
    LINK = "link"
    STAGE = "stage"
    WORKLOAD = "workload"
    JOB = "job"
    FLEET = "fleet"


class State(StrEnum):
    """A node's life. Every state but HEALTHY has an age alarm."""

    HEALTHY = "HEALTHY"
    SUSPECT = "SUSPECT"
    DRAINING = "DRAINING"  # drained by us, its jobs still run
    QUARANTINED = "QUARANTINED"  # reserved for us, empty, waits for its sweep
    SWEEPING = "SWEEPING"
    PROBATION = "PROBATION"  # back in service, watched
    REPAIR = "REPAIR"  # a sweep or a hard fault convicted it: a person's turn
    HELD = "HELD"  # a person keeps it out, or no sweep could decide
    RETIRED = "RETIRED"  # three triages in seven days
    DISPUTED = "DISPUTED"  # a drain with our tag that is not as we left it: untouched


IN_SERVICE = frozenset({State.HEALTHY, State.SUSPECT, State.PROBATION})


@dataclass(frozen=True, slots=True)
class Reading:
    """One snapshot of one device of one node.

    `device` is the GPU's index ("0"), a port ("mlx5_0/1"), a network interface ("eth0"), or "" for the host.
    `values` maps a signal's name, unit included (`temperature_c`, `sm_clock_mhz`, `retransmits`), to its value;
    None: the device did not say. Counters are kept as counted; rates are made by the reader.
    """

    node: str
    at: datetime
    source: Source
    device: str = ""
    uuid: str | None = None
    serial: str | None = None
    boot_id: str | None = None
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepSample:
    """What one rank of a job did in one training step.

    `busy_s`: seconds outside collectives. `step_s`: the whole step on the wall clock, None if not recorded.
    `gpu` is the index on the node as the job saw it, or None on a CPU.
    """

    job_id: str
    rank: int
    node: str
    step: int
    busy_s: float
    at: datetime
    gpu: int | None = None
    step_s: float | None = None
    stage: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """Speed of one device or node against its peers by one signal.

    `relative`: 1.0 = as its peers, 0.5 = half as fast as its peers; the straggling rate is 1/relative.
    For a signal that is not a speed (retransmits, drops), `relative` is None and `value` stands beside `peers`,
    the median of its peers. `windows_slow` of `windows` time windows were past the policy's limit.
    """

    node: str
    kind: Kind
    signal: str
    gpu: int | None = None
    relative: float | None = None
    value: float | None = None
    peers: float | None = None
    unit: str = ""
    windows: int = 0
    windows_slow: int = 0
    num_peers: int = 0
    job_id: str | None = None
    uuid: str | None = None  # of the GPU, where the source says it

    @property
    def rate(self) -> float | None:
        """Straggling rate x of Malleus: 1.0 healthy, 2.0 takes twice as long."""
        return None if not self.relative else 1.0 / self.relative


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault that a device reports about itself, or that a deadline found. Hard ones may act at once."""

    node: str
    check: str  # "gpu_lost", "ecc_uncorrectable", "gpu_hang", "gpu_missing", "xid"
    detail: str  # plain words with the numbers
    hard: bool
    at: datetime
    gpu: int | None = None
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one node, with the evidence it rests on.

    `confirmed`: persistent, against equal peers, and by two kinds of signal of which one is the system's own (or a
    hard fault): may lead to a drain. Otherwise it is for watching. `relative`: as in `Score`, of the strongest signal.
    """

    node: str
    health: Health
    level: Level
    cause: str
    evidence: tuple[str, ...]
    at: datetime
    gpu: int | None = None
    uuid: str | None = None
    relative: float | None = None
    confirmed: bool = False
    hard: bool = False
    kinds: tuple[Kind, ...] = ()
    checks: tuple[str, ...] = ()  # the checks and signals that spoke, for common cause and per-check modes


class EventKind(StrEnum):
    """What the ledger remembers. The fold in guardctl.ledger gives each kind its meaning."""

    SUSPECTED = "suspected"
    CLEARED = "cleared"  # suspicion gone, or probation over
    DRAIN_INTENDED = "drain_intended"  # written before the call, so that a killed monitor finds its own drain
    DRAINED = "drained"
    DRAIN_FAILED = "drain_failed"
    QUARANTINED = "quarantined"
    SWEEP_STARTED = "sweep_started"
    SWEEP_PASSED = "sweep_passed"
    SWEEP_FAILED = "sweep_failed"
    SWEEP_INCONCLUSIVE = "sweep_inconclusive"
    RELEASED = "released"
    HELD = "held"
    UNHELD = "unheld"
    REPAIRED = "repaired"
    RETIRED = "retired"
    RESUMED_BY_OTHER = "resumed_by_other"
    DISPUTED = "disputed"
    HARDWARE = "hardware"  # identity seen: GPU UUIDs, serials, boot id
    BASELINE = "baseline"  # a healthy node's sweep result
    REFUSED = "refused"  # an action that a rule stopped, and which
    HOOK = "hook"  # a note that a prolog or epilog left
    MONITOR = "monitor"  # a tick that could not act, an alarm


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the ledger. `id` is 0 until stored.

    `incident` ties everything of one stay out of service together; it is the tag in the Slurm reason
    (`guardctl:4k2 ...`) and what `guardctl explain` takes. `detail` is JSON: the numbers.
    """

    node: str
    at: datetime
    kind: EventKind
    why: str = ""
    incident: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    gpu_uuid: str | None = None
    serial: str | None = None
    boot_id: str | None = None
    actor: str = ""  # user@host
    version: str = ""
    policy_hash: str = ""
    id: int = 0


@dataclass(frozen=True, slots=True)
class DrainMark:
    """What we wrote into Slurm and read back: the proof that a drain is ours."""

    reason: str
    user: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a node's events add up to.

    `since_at`: when it came into `state`. `triages_at`: failed sweeps and hard faults, for the lemon rule.
    `drain`: our own mark, if the node is out by us. `reservation`: ours, if it has one.
    `settled_at`: evidence older than this is spent (a person resumed the node, or a sweep passed it).
    """

    node: str
    state: State = State.HEALTHY
    since_at: datetime | None = None
    incident: str | None = None
    why: str = ""
    drain: DrainMark | None = None
    intent: DrainMark | None = None  # a drain that was about to be made: its reason, our user, when
    reservation: str | None = None
    sweep: str | None = None
    triages_at: tuple[datetime, ...] = ()
    triaged: str | None = None  # the incident of the last triage: one stay out of service counts once
    settled_at: datetime | None = None
    held: bool = False
    gpu_uuids: tuple[str, ...] = ()
    boot_id: str | None = None
    kinds: tuple[str, ...] = ()  # kinds of signal behind the open incident: they choose the sweep's tests
    outcome: EventKind | None = None  # SWEEP_PASSED, SWEEP_FAILED or SWEEP_INCONCLUSIVE of the open incident
    refused: str = ""  # why of the last REFUSED, so that a rule is recorded once and not at every tick


class ActionKind(StrEnum):
    """What `decide` may ask for. Everything else that happens is a consequence of these."""

    SUSPECT = "suspect"  # ledger only
    CLEAR = "clear"  # ledger only
    DRAIN = "drain"
    QUARANTINE = "quarantine"
    SWEEP = "sweep"
    RELEASE = "release"
    HOLD = "hold"
    RENEW = "renew"  # the end of our reservation moves on
    UNRESERVE = "unreserve"  # a reservation of ours that nothing needs any more
    RETIRE = "retire"
    REFUSE = "refuse"  # a rule stopped the action; recorded with the rule


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do to one node, or to a group of nodes that go together (QUARANTINE, SWEEP)."""

    kind: ActionKind
    nodes: tuple[str, ...]
    why: str
    incident: str | None = None
    verdict: Verdict | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
