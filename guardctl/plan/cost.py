"""The cost and memory model of Malleus, and lower bounds on the step time of any plan. Pure arithmetic.

Source of the formulas: arXiv 2410.13333. Times are in the model's unit: one layer of one micro-batch
on a full healthy group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from guardctl.plan.model import Model

EPSILON = 1e-9


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """All that the cost of a TP group depends on: `slowness` y (1 = full and healthy) and its number of GPUs."""

    slowness: float
    size: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A step time that no plan can be under, and the argument that it rests on."""

    step_time: float
    kind: str


def slowness(rates: Sequence[float], model: Model) -> float:
    """Time per layer and micro-batch of a TP group, y = rho(n) * max x: it runs at the pace of its slowest GPU."""
    return model.slowdown[len(rates)] * max(rates)


def pipeline_time(slownesses: Sequence[float], layers: Sequence[int], num_micro_batches: int) -> float:
    """1F1B: (m - 1) * max_j(y_j l_j) + sum_j(y_j l_j)."""
    stages = [y * num for y, num in zip(slownesses, layers, strict=True)]
    return (num_micro_batches - 1) * max(stages) + sum(stages)


def caps(sizes: Sequence[int], model: Model) -> tuple[int, ...]:
    """The most layers that each stage of a pipeline has memory for; `sizes`: GPUs of each stage, first to last.

    (k_j * l_j + embedding) * (TP / n) + extra <= bound - gap, k counted from the last stage.
    """
    memory, num = model.memory, len(sizes)
    free_mb = memory.bound_mb - memory.gap_mb - memory.extra_mb
    per_layer_mb = memory.per_layer_mb[len(memory.per_layer_mb) - num :]
    embedding_mb = [memory.embedding_mb if stage in {0, num - 1} else 0.0 for stage in range(num)]
    return tuple(
        min(model.num_layers, max(0, int((free_mb * size / model.tensor - extra) / layer_mb + EPSILON)))
        for size, layer_mb, extra in zip(sizes, per_layer_mb, embedding_mb, strict=True)
    )


def min_gpus(model: Model) -> int | None:
    """The fewest GPUs that hold one pipeline; None if no pipeline of the known lengths holds the model."""
    found = [num for stages in range(1, model.max_stages + 1) if (num := _min_gpus(stages, model)) is not None]
    return min(found, default=None)


def _min_gpus(num_stages: int, model: Model) -> int | None:
    """By stages: the fewest GPUs for at least so many layers (a cap depends on the stage's own size only)."""
    fewest: dict[int, int] = {0: 0}
    by_size = {size: caps([size] * num_stages, model) for size in model.slowdown}
    for stage in range(num_stages):
        reached: dict[int, int] = {}
        for layers, gpus in fewest.items():
            for size, cap in by_size.items():
                total = min(model.num_layers, layers + cap[stage])
                if cap[stage] and gpus + size < reached.get(total, gpus + size + 1):
                    reached[total] = gpus + size
        fewest = reached
    return fewest.get(model.num_layers)


def bound(rates: Sequence[float], model: Model) -> Bound | None:
    """The larger of two lower bounds on the step time of any valid plan on these GPUs; None: the model does not fit.

    Both measure GPUs by capacity, C = sum of 1/x: a group of n GPUs with slowest rate x uses at least n/x of it, and a
    layer on it costs rho(n) * n per unit of capacity and lasts rho(n) * x.

    - `work`: T >= L M / S, S = C / min_n(n rho(n)).
    - `pipeline`: a pipeline with m micro-batches and capacity c has T >= L * min_n((m - 1)/c * n rho(n) + rho(n) x_n),
      x_n = the slowest GPU of the best group of n on any node; the mean of (m - 1)/c over D pipelines is (M - D)/C, one
      is not under it, and D is at most what memory allows. It is never under L y_min + (M - D) L / S, Malleus' own.
    """
    fewest = min_gpus(model)
    if fewest is None or fewest > len(rates):
        return None
    capacity = sum(1 / rate for rate in rates)
    costs = {size: size * rho for size, rho in model.slowdown.items()}
    best = _best_rates(rates, model)
    most = min(len(rates) // fewest, model.num_micro_batches)
    load = (model.num_micro_batches - most) / capacity
    work = model.num_layers * model.num_micro_batches * min(costs[size] for size in best) / capacity
    pipeline = model.num_layers * min(load * costs[size] + model.slowdown[size] * x for size, x in best.items())
    return max(Bound(work, "work"), Bound(pipeline, "pipeline"), key=lambda each: each.step_time)


def _best_rates(rates: Sequence[float], model: Model) -> Mapping[int, float]:
    """By group size: the slowest rate in the best possible group of that size on one node."""
    step = model.gpus_per_node
    nodes = [sorted(rates[start : start + step]) for start in range(0, len(rates), step)]
    return {
        size: min(node[size - 1] for node in nodes if len(node) >= size)
        for size in model.slowdown
        if any(len(node) >= size for node in nodes)
    }
