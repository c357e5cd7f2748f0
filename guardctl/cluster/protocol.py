"""The one door to Slurm, as a protocol: it has two real implementations, the commands and pyslurm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from guardctl.cluster.records import Job, Node, Snapshot


@dataclass(frozen=True, slots=True)
class Submission:
    """One batch job to submit: `script` is the path of an .sbatch file, `arguments` what it gets.

    `nodes` are asked for with --nodelist and --nodes, so that the allocation is exactly these.
    """

    name: str
    script: Path
    nodes: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    reservation: str = ""
    partition: str = ""
    time_limit_s: float = 900.0
    output: Path | None = None
    comment: str = ""


class Cluster(Protocol):
    """What guardctl asks of Slurm and tells it.

    Every call has a deadline and raises `ClusterError` and its subclasses, or `InputError` before anything is run for
    a value that Slurm could misread (a reason with quotes or over 99 characters, a host list where one node belongs).

    Writes do not read back by themselves: guardctl.act.perform reads back with `node` after each and records what took.
    """

    def snapshot(self, now: datetime) -> Snapshot:
        """All nodes, jobs and reservations: one bulk query each; a partial answer is an error."""
        ...

    def node(self, name: str) -> Node | None:
        """One node as it is now; None if Slurm does not know it."""
        ...

    def drain(self, node: str, reason: str) -> None:
        """Set DRAIN with `reason` on one node."""
        ...

    def undrain(self, node: str) -> None:
        """Clear the DRAIN flag of one node; nothing else of its state is touched."""
        ...

    def set_reason(self, node: str, reason: str) -> None:
        """Put `reason` on a node that is DOWN or DRAIN, its state unchanged; on others 22.05 forgets it silently."""
        ...

    def reserve(self, name: str, nodes: Sequence[str], duration_s: float) -> None:
        """Create a reservation for our own user that leaves running jobs alone (IGNORE_JOBS), from now on."""
        ...

    def renew(self, name: str, duration_s: float) -> None:
        """Move the end of a reservation to `duration_s` from now."""
        ...

    def unreserve(self, name: str) -> None:
        """Delete a reservation; one that is gone already is no error."""
        ...

    def submit(self, job: Submission) -> str:
        """Submit a batch job and give its job id."""
        ...

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Cancel jobs; those that ended already are no error."""
        ...

    def job(self, job_id: str) -> Job | None:
        """One job as it is now; None if Slurm has forgotten it."""
        ...
