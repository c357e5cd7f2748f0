"""The `Cluster` protocol that reads and never writes: what would be run is kept, to be printed."""

import shlex
from collections.abc import Sequence
from datetime import datetime

from guardctl.cluster import argv
from guardctl.cluster.protocol import Submission
from guardctl.cluster.records import Job, Node, Snapshot
from guardctl.cluster.slurm import SlurmCommands, own_user


class DryRun:
    """Questions go through to `cluster`; each write only adds its exact command line to `commands`."""

    def __init__(self, cluster: SlurmCommands) -> None:
        self.cluster = cluster
        self.commands: tuple[str, ...] = ()

    def snapshot(self, now: datetime) -> Snapshot:
        """All nodes, jobs and reservations."""
        return self.cluster.snapshot(now)

    def node(self, name: str) -> Node | None:
        """One node as it is now."""
        return self.cluster.node(name)

    def job(self, job_id: str) -> Job | None:
        """One job as it is now."""
        return self.cluster.job(job_id)

    def drain(self, node: str, reason: str) -> None:
        """What would drain it."""
        self._note(argv.drain(node, reason))

    def undrain(self, node: str) -> None:
        """What would undrain it."""
        self._note(argv.undrain(node))

    def set_reason(self, node: str, reason: str) -> None:
        """What would put the reason on it."""
        self._note(argv.set_reason(node, reason))

    def reserve(self, name: str, nodes: Sequence[str], duration_s: float) -> None:
        """What would reserve them."""
        self._note(argv.reserve(name, nodes, duration_s, self.cluster.user or own_user()))

    def renew(self, name: str, duration_s: float) -> None:
        """What would move the end."""
        self._note(argv.renew(name, duration_s))

    def unreserve(self, name: str) -> None:
        """What would delete it."""
        self._note(argv.unreserve(name))

    def submit(self, job: Submission) -> str:
        """What would submit it; the id is 0, which Slurm never gives."""
        settings = [f"{name}={value}" for name, value in sorted(job.environment.items())]
        self._note((*(("env", *settings) if settings else ()), *argv.submit(job)))
        return "0"

    def cancel(self, job_ids: Sequence[str]) -> None:
        """What would cancel them."""
        if job_ids:
            self._note(argv.cancel(job_ids))

    def _note(self, line: argv.Argv) -> None:
        self.commands += (shlex.join(line),)
