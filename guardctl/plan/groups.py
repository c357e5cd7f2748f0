"""Which GPUs of a node share a TP group. Slow ones share one: a group runs at the pace of its slowest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from guardctl.plan.cost import Kind, slowness
from guardctl.plan.model import Model


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs that share the tensors of a stage."""

    gpus: tuple[int, ...]
    kind: Kind


Grouping = tuple[Group, ...]


def nodes_of(num_gpus: int, model: Model) -> list[range]:
    """The GPUs of each node; the last one may be smaller."""
    step = model.gpus_per_node
    return [range(start, min(start + step, num_gpus)) for start in range(0, num_gpus, step)]


def groupings(gpus: Sequence[int], rates: Mapping[int, float], model: Model) -> list[Grouping]:
    """All groupings of one node that differ in cost, the largest groups first.

    GPUs in order of their rate are cut into runs: exchanging two GPUs of two groups never makes both faster, so other
    sets cannot do better. Sizes are those of the model; what a plan does not use is on standby.
    """
    ordered = sorted(gpus, key=lambda gpu: (rates.get(gpu, 1.0), gpu))
    found: dict[tuple[Kind, ...], Grouping] = {}
    for sizes in _runs(len(ordered), tuple(sorted(model.slowdown, reverse=True))):
        grouping = tuple(_cut(ordered, sizes, rates, model))
        found.setdefault(tuple(sorted(group.kind for group in grouping)), grouping)
    return list(found.values())


def _runs(num: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to cut `num` into runs of these sizes, in order; a rest smaller than every size is left over."""
    fitting = [size for size in sizes if size <= num]
    if not fitting:
        yield ()
    for size in fitting:
        for rest in _runs(num - size, sizes):
            yield (size, *rest)


def _cut(ordered: Sequence[int], sizes: Sequence[int], rates: Mapping[int, float], model: Model) -> Iterator[Group]:
    start = 0
    for size in sizes:
        gpus = ordered[start : start + size]
        yield Group(tuple(sorted(gpus)), Kind(slowness([rates.get(gpu, 1.0) for gpu in gpus], model), size))
        start += size
