"""Slurm by its commands: the `Cluster` protocol with scontrol, sinfo, squeue, sbatch and scancel.

JSON where the release prints it (nodes and jobs since 21.08, reservations and single records since 23.02), text
elsewhere. Every answer is checked to be whole before anything is concluded from it.
"""

import os
import pwd
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from guardctl.cluster import argv, commands
from guardctl.cluster.parse_jobs import columns, parse_job_text, parse_jobs, parse_reservations
from guardctl.cluster.parse_nodes import parse_nodes
from guardctl.cluster.parse_text import parse_node_text, parse_reservation_text
from guardctl.cluster.protocol import Submission
from guardctl.cluster.records import Job, Node, Reservation, Snapshot
from guardctl.words.errors import ClusterError, CommandError

RELEASE = re.compile(r"(\d+)\.(\d+)")
FIRST_JSON, SCONTROL_JSON = (21, 8), (23, 2)
NO_JSON = re.compile(r"serializer/json|unrecognized option|invalid option|unable to find plugin", re.IGNORECASE)
NO_SUCH_NODE = re.compile(r"not found|invalid node name", re.IGNORECASE)
NO_SUCH_JOB = re.compile(r"invalid job id", re.IGNORECASE)
NO_SUCH_RESERVATION = re.compile(r"reservation is invalid|reservation .*not found", re.IGNORECASE)
JOB_OVER = re.compile(r"invalid job id|already complet", re.IGNORECASE)


T = TypeVar("T", Node, Job)


@dataclass
class SlurmCommands:
    """The cluster that `env` points to (`os.environ` if None), asked by commands that each end within `deadline_s`.

    `user`: who the reservations are for; our own login name if empty.
    """

    deadline_s: float = 20.0
    env: Mapping[str, str] | None = None
    user: str = ""

    @cached_property
    def version(self) -> str:
        """Slurm's release, the last word of `slurm-wlm 22.05.8`. Needs no controller."""
        words = self._run(argv.VERSION).split()
        if not words or not RELEASE.match(words[-1]):
            raise ClusterError(f"`{' '.join(argv.VERSION)}` names no release: {' '.join(words)!r}")
        return words[-1]

    # --- questions --------------------------------------------------------------------------------------------------

    def snapshot(self, now: datetime) -> Snapshot:
        """All nodes, jobs and reservations: three queries. Jobs first, so that no job is on a node not yet asked for.

        Raises ClusterError when an answer is missing, empty of nodes, or not whole.
        """
        jobs = self._jobs()
        nodes = self._nodes()
        check_whole(nodes, jobs)
        return Snapshot(now, nodes, jobs, self._reservations(), self.version)

    def node(self, name: str) -> Node | None:
        """One node as it is now; None if Slurm does not know it."""
        if self._speaks_json and not self._scontrol_json:
            return self._nodes().get(name)  # 21.08 and 22.05 print JSON for all nodes only
        line = argv.show_node(name, json=self._speaks_json)
        parse = parse_nodes if self._speaks_json else parse_node_text
        text = self._run_known(line, NO_SUCH_NODE)
        return None if text is None else parse(text, " ".join(line)).get(name)

    def job(self, job_id: str) -> Job | None:
        """One job as it is now; None if Slurm has forgotten it (MinJobAge after its end)."""
        if self._scontrol_json:
            line = argv.show_job(job_id)
            text = self._run_known(line, NO_SUCH_JOB)
            return None if text is None else parse_jobs(text, " ".join(line)).get(job_id)
        if self._speaks_json:
            return self._jobs().get(job_id)  # 21.08 and 22.05 ignore the filters of squeue beside --json
        return self._jobs_in_text(job_id).get(job_id)

    # --- writes -----------------------------------------------------------------------------------------------------

    def drain(self, node: str, reason: str) -> None:
        """Set DRAIN with `reason` on one node."""
        self._run(argv.drain(node, reason))

    def undrain(self, node: str) -> None:
        """Clear the DRAIN flag of one node. On a node without it, 22.05 marks NOT_RESPONDING until the next ping."""
        self._run(argv.undrain(node))

    def set_reason(self, node: str, reason: str) -> None:
        """Put `reason` on a node. 22.05 says yes and forgets it where the node is neither DOWN nor DRAIN."""
        self._run(argv.set_reason(node, reason))

    def reserve(self, name: str, nodes: Sequence[str], duration_s: float) -> None:
        """Create a reservation for our own user that leaves running jobs alone, from now on."""
        self._run(argv.reserve(name, nodes, duration_s, self.user or own_user()))

    def renew(self, name: str, duration_s: float) -> None:
        """Move the end of a reservation to `duration_s` from now."""
        self._run(argv.renew(name, duration_s))

    def unreserve(self, name: str) -> None:
        """Delete a reservation; one that is gone already is no error."""
        self._run_known(argv.unreserve(name), NO_SUCH_RESERVATION)

    def submit(self, job: Submission) -> str:
        """Submit a batch job and give its job id."""
        printed = self._run(argv.submit(job), job.environment).strip()
        job_id = printed.split(";")[0]  # `123;cluster` in a federation
        if not argv.JOB_ID.fullmatch(job_id):
            raise ClusterError(f"sbatch gave no job id: {printed!r}", hint="`squeue` shows whether it was submitted")
        return job_id

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Cancel jobs; those that ended already are no error."""
        if job_ids:  # scancel without ids is not "none"
            self._run_known(argv.cancel(job_ids), JOB_OVER)

    # --- how --------------------------------------------------------------------------------------------------------

    def _run(self, line: argv.Argv, extra: Mapping[str, str] | None = None) -> str:
        return commands.run(line, deadline_s=self.deadline_s, env=self.env, extra=extra).stdout

    def _parsed(self, line: argv.Argv, parse: Callable[[str, str], dict[str, T]]) -> dict[str, T]:
        """What `parse` makes of the answer. 22.05 ends with 0 in its errors, and says why on stderr only."""
        result = commands.run(line, deadline_s=self.deadline_s, env=self.env)
        try:
            return parse(result.stdout, " ".join(line))
        except ClusterError as error:
            said = result.stderr.strip().splitlines()
            if not said:
                raise
            raise ClusterError(f"{error}: {said[-1]}", hint=commands.hint_for(result.stderr) or error.hint) from error

    def _run_known(self, line: argv.Argv, expected: re.Pattern[str]) -> str | None:
        """What the command printed, or None where it failed for the expected reason."""
        try:
            return self._run(line)
        except CommandError as error:
            if expected.search(error.stderr):
                return None
            raise

    @cached_property
    def _release(self) -> tuple[int, int]:
        major, minor = RELEASE.findall(self.version)[0]
        return int(major), int(minor)

    @cached_property
    def _speaks_json(self) -> bool:
        """Whether this Slurm prints JSON: new enough, and built with it, which only a query tells. Asked once."""
        if self._release < FIRST_JSON:
            return False
        return self._run_known(argv.SQUEUE_JSON, NO_JSON) is not None

    @cached_property
    def _scontrol_json(self) -> bool:
        return self._speaks_json and self._release >= SCONTROL_JSON

    def _nodes(self) -> dict[str, Node]:
        if not self._speaks_json:
            return parse_node_text(self._run(argv.SHOW_NODES))
        line = argv.SHOW_NODES_JSON if self._scontrol_json else argv.SINFO_JSON
        return self._parsed(line, parse_nodes)

    def _jobs(self) -> dict[str, Job]:
        if not self._speaks_json:
            return self._jobs_in_text()
        return self._parsed(argv.SQUEUE_JSON, parse_jobs)

    def _jobs_in_text(self, job_id: str = "") -> dict[str, Job]:
        mark = f"<{secrets.token_hex(8)}>"
        text = self._run_known(argv.squeue_text(columns(mark), job_id), NO_SUCH_JOB)
        return {} if text is None else parse_job_text(text, mark)

    def _reservations(self) -> dict[str, Reservation]:
        if self._scontrol_json:
            return parse_reservations(self._run(argv.SHOW_RESERVATIONS_JSON))
        return parse_reservation_text(self._run(argv.SHOW_RESERVATIONS))


def check_whole(nodes: Mapping[str, Node], jobs: Mapping[str, Job]) -> None:
    """Raises ClusterError where the answers cannot be all there is: no node, or a job on a node that is not listed."""
    if not nodes:
        raise ClusterError("Slurm lists no node at all: unknown is not empty", hint="`scontrol ping`; `sinfo --all`")
    for job in jobs.values():
        missing = [name for name in job.nodes if name not in nodes] if job.running else []
        if missing:
            raise ClusterError(
                f"job {job.job_id} runs on {missing[0]!r}, which Slurm does not list: the answer is not whole",
                hint="PrivateData in slurm.conf may hide nodes from this user",
            )


def own_user() -> str:
    """The login name of whoever runs this, as Slurm will write it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
