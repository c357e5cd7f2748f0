"""Straggling rates per GPU of the next job's hosts, from what was measured last. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from guardctl.words.records import Kind, Score

BUSY = Kind.STEPS  # only busy time is a speed of the work itself; clocks and counters are signs


def by_gpu(hosts: Sequence[str], scores: Iterable[Score], gpus_per_node: int) -> dict[int, float]:
    """Rate of GPU g on host g // gpus_per_node, where something slower than its peers was measured.

    A score without a GPU is the node's and goes to all of its GPUs. Faster than the peers counts as 1.0: the median
    is what plans are made for. Of several scores the slowest counts.
    """
    rates: dict[int, float] = {}
    for score in scores:
        rate = score.rate if score.kind is BUSY else None
        if rate is None or rate <= 1.0 or score.node not in hosts:
            continue
        first = hosts.index(score.node) * gpus_per_node
        gpus = range(first, first + gpus_per_node) if score.gpu is None else [first + score.gpu]
        rates.update({gpu: max(rate, rates.get(gpu, 1.0)) for gpu in gpus})
    return rates


def by_node(scores: Iterable[Score]) -> Mapping[str, float]:
    """The slowest rate of each node, for the choice of hosts."""
    rates: dict[str, float] = {}
    for score in scores:
        if score.kind is BUSY and score.rate is not None:
            rates[score.node] = max(score.rate, rates.get(score.node, 1.0))
    return rates
