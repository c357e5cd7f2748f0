"""The batch jobs of a sweep, as values. Pure: where the programs lie and which Python runs them is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from guardctl.cluster.protocol import Submission
from guardctl.sweep.pairing import Pair
from guardctl.words.policy import Policy

SMALLER = (64, 8)  # the sizes before the full one: a slow link is measured at one of them and ends in time


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sweep runs: the folder of the programs, the Python with torch, the sweep's folder, its reservation."""

    programs: Path
    python: str
    output: Path
    reservation: str = ""

    @property
    def environment(self) -> Mapping[str, str]:
        """What the .sbatch files read; sbatch copies them, so they cannot find their own folder."""
        return {"GUARDCTL_PYTHON": self.python, "GUARDCTL_SWEEPS": str(self.programs)}


def gemm_submission(name: str, node: str, attempt: int, place: Place, policy: Policy) -> Submission:
    """The test of one node alone."""
    path = place.output / f"gemm-{attempt}-{node}.jsonl"
    arguments = ("--seconds", f"{policy.sweep.seconds:g}", "--size", str(policy.sweep.size),
                 "--attempt", str(attempt), "--output", str(path))  # fmt: skip
    return _submission(name, (node,), ("gemm_burnin.sbatch", *arguments), place, policy)


def pair_submission(name: str, pair: Pair, round_number: int, place: Place, policy: Policy) -> Submission:
    """The test of two nodes together."""
    sizes = sorted({max(1024, policy.sweep.pair_bytes // part) for part in (*SMALLER, 1)})
    path = place.output / f"pair-{round_number}-{'-'.join(pair)}.jsonl"
    arguments = ("--seconds", f"{policy.sweep.pair_seconds:g}", "--bytes", ",".join(map(str, sizes)),
                 "--round", str(round_number), "--output", str(path))  # fmt: skip
    return _submission(name, pair, ("pair_allreduce.sbatch", *arguments), place, policy)


def _submission(name: str, nodes: tuple[str, ...], words: tuple[str, ...], place: Place, policy: Policy) -> Submission:
    script, *arguments = words
    return Submission(
        name=name,
        script=place.programs / script,
        nodes=nodes,
        arguments=tuple(arguments),
        environment=place.environment,
        reservation=place.reservation,
        partition=policy.sweep.partition,
        time_limit_s=policy.sweep.time_limit_s,
        output=place.output / f"{name}.log",
    )
