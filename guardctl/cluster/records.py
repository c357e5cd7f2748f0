"""What Slurm knows, as values: nodes, jobs, reservations, and the one snapshot of a tick."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

UNUSABLE = frozenset({
    "DRAIN", "FAIL", "MAINT", "RESERVED", "NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN",
    "POWER_DRAIN", "REBOOT_REQUESTED", "REBOOT_ISSUED", "INVALID_REG",
})  # fmt: skip
# the states in which a job holds nodes; 22.05 prints some of them in place of RUNNING
HOLDING = frozenset({
    "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `base` is Slurm's base state (IDLE, ALLOCATED, MIXED, DOWN, UNKNOWN, ...); `flags` the rest.

    Words that this code does not know are kept in `flags` or `base`; `known` is False then: leave the node alone.
    `num_gpus`: from gres; 0 when it has none. `reason*` are None where there is no reason.
    """

    name: str
    base: str
    flags: frozenset[str] = frozenset()
    known: bool = True
    reason: str | None = None
    reason_user: str | None = None
    reason_at: datetime | None = None
    boot_at: datetime | None = None
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    num_gpus: int = 0
    cpus: int = 0
    cpus_allocated: int = 0
    address: str = ""

    @property
    def drained(self) -> bool:
        """It carries the DRAIN flag: no new job starts on it."""
        return "DRAIN" in self.flags

    @property
    def busy(self) -> bool:
        """A job runs, or still ends, on it."""
        return self.base in {"ALLOCATED", "MIXED"} or "COMPLETING" in self.flags

    @property
    def usable(self) -> bool:
        """Slurm would start a job on it now or when it is free."""
        return self.known and self.base in {"IDLE", "ALLOCATED", "MIXED"} and not (UNUSABLE & self.flags)


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `nodes` is empty and `start_at` None while it pends; `nodes` stay when it has ended.

    `uid` and `user` as Slurm says; `comment` is the user's words. `reason`: why it pends or how it ended.
    """

    job_id: str
    name: str
    state: str
    user: str
    uid: int | None
    nodes: tuple[str, ...] = ()
    partition: str = ""
    comment: str = ""
    reservation: str = ""
    start_at: datetime | None = None
    reason: str = ""

    @property
    def running(self) -> bool:
        """It holds nodes."""
        return self.state in HOLDING


@dataclass(frozen=True, slots=True)
class Reservation:
    """One reservation, ours or not."""

    name: str
    nodes: tuple[str, ...]
    start_at: datetime | None
    end_at: datetime | None
    users: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One bulk look at the cluster. Complete by construction: a partial answer is a `ClusterError` instead."""

    at: datetime
    nodes: Mapping[str, Node] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    version: str = ""

    def jobs_on(self, node: str) -> tuple[Job, ...]:
        """The jobs that hold `node` now."""
        return tuple(job for job in self.jobs.values() if job.running and node in job.nodes)

    def reservations_on(self, node: str) -> tuple[Reservation, ...]:
        """The reservations that name `node`, active or to come."""
        return tuple(each for each in self.reservations.values() if node in each.nodes)
