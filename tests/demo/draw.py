"""Which nodes are made faulty: a draw that a seed repeats."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

SLOW_CPU = "slow-cpu=0.5"
SLOW_LINK = "slow-link=50mbit"
PASSING = "gpu=throttle:1"  # a GPU that runs hot for a while: healthy again when it is tested


@dataclass(frozen=True, slots=True)
class Draw:
    """The nodes of the training job, and the three of them that something is wrong with."""

    seed: int
    job_nodes: tuple[str, ...]
    slow_cpu: str
    slow_link: str
    passing: str

    @property
    def faults(self) -> dict[str, str]:
        """Fault by node."""
        return {self.slow_cpu: SLOW_CPU, self.slow_link: SLOW_LINK, self.passing: PASSING}


def draw(nodes: Sequence[str], num_job_nodes: int, seed: int | None) -> Draw:
    """A draw among `nodes`; `seed` None: another one each time."""
    seed = random.SystemRandom().randrange(10_000) if seed is None else seed
    dice = random.Random(seed)  # noqa: S311 - a draw to be repeated, not a secret
    job_nodes = dice.sample(list(nodes), num_job_nodes)
    slow_cpu, slow_link, passing = dice.sample(job_nodes, 3)
    order = {node: number for number, node in enumerate(nodes)}
    return Draw(seed, tuple(sorted(job_nodes, key=order.__getitem__)), slow_cpu, slow_link, passing)
