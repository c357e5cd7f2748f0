"""Exact inner solutions: the layers of a pipeline's stages, and the micro-batches of all pipelines.

A split of the layers matters by two numbers only, its longest stage and its sum. The splits that no other beats in
both are kept, so that layers and micro-batches are solved together: at a step time T a pipeline takes
(T - sum) / longest + 1 micro-batches by its best split.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

EPSILON = 1e-9
STEPS = 60  # halvings of T at most


@dataclass(frozen=True, slots=True)
class Split:
    """Layers of each stage; `longest` = max_j(y_j l_j), `total` = sum_j(y_j l_j)."""

    layers: tuple[int, ...]
    longest: float
    total: float


@dataclass(frozen=True, slots=True)
class Solution:
    """The least step time of given pipelines, with each one's micro-batches and split."""

    step_time: float
    micro_batches: tuple[int, ...]
    splits: tuple[Split, ...]


def shortest(slownesses: Sequence[float], caps: Sequence[int], num_layers: int) -> tuple[int, ...] | None:
    """The layers with the shortest longest stage: the next one goes where y_j (l_j + 1) is least. None: no room.

    Every stage gets one at least: a stage without layers is a standby.
    """
    if min(caps) < 1 or not len(caps) <= num_layers <= sum(caps):
        return None
    layers = [1] * len(caps)
    heap = [(2 * y, stage) for stage, y in enumerate(slownesses) if caps[stage] > 1]
    heapq.heapify(heap)
    for _ in range(num_layers - len(caps)):
        _, stage = heap[0]
        layers[stage] += 1
        after = slownesses[stage] * (layers[stage] + 1)
        _ = heapq.heapreplace(heap, (after, stage)) if layers[stage] < caps[stage] else heapq.heappop(heap)
    return tuple(layers)


def splits(slownesses: Sequence[float], caps: Sequence[int], num_layers: int) -> tuple[Split, ...]:
    """All splits worth having for a pipeline of this many stages, by rising `longest` and falling `total`.

    Every micro-batch but the first costs `longest`, and there are at least as many as stages: a longer stage must save
    that much of the sum.
    """
    least = shortest(slownesses, caps, num_layers)
    if least is None:
        return ()
    found: list[Split] = []
    floor_total = _split(slownesses, _fill(slownesses, caps, num_layers)).total
    start = max(y * num for y, num in zip(slownesses, least, strict=True))
    for longest in _longest(slownesses, caps, start):
        limited = [min(cap, int(longest / y + EPSILON)) for y, cap in zip(slownesses, caps, strict=True)]
        split = _split(slownesses, _fill(slownesses, limited, num_layers))
        if not found or split.total < found[-1].total - EPSILON:
            found.append(split)
        if found[-1].total <= floor_total + EPSILON or _hopeless(found[0], longest, floor_total, len(caps)):
            break
    return tuple(found)


def _longest(slownesses: Sequence[float], caps: Sequence[int], start: float) -> Iterator[float]:
    """All lengths of a longest stage from `start` on, rising."""
    lengths = {y * num for y, cap in zip(slownesses, caps, strict=True) for num in range(1, cap + 1)}
    yield from sorted(length for length in lengths if length >= start - EPSILON)


def _hopeless(first: Split, longest: float, floor_total: float, num_stages: int) -> bool:
    return (num_stages - 1) * (longest - first.longest) > first.total - floor_total


def _fill(slownesses: Sequence[float], caps: Sequence[int], num_layers: int) -> list[int]:
    """The fastest stages full, one after the other, and one layer on the rest: the least sum under these caps."""
    layers, left = [1] * len(caps), num_layers - len(caps)
    for stage in sorted(range(len(caps)), key=slownesses.__getitem__):
        layers[stage] += min(caps[stage] - 1, left)
        left -= layers[stage] - 1
    return layers


def _split(slownesses: Sequence[float], layers: Sequence[int]) -> Split:
    times = [y * num for y, num in zip(slownesses, layers, strict=True)]
    return Split(tuple(layers), max(times), sum(times))


# --- micro-batches --------------------------------------------------------------------------------------------------


def least_time(pipelines: Mapping[tuple[Split, ...], int], num_stages: Sequence[int], num_micro_batches: int) -> float:
    """The least T at which pipelines (splits -> how many such there are) take all micro-batches, by bisection.

    `num_stages`: of each kind of pipeline; it takes at least so many micro-batches. inf: too few for the stages.
    """
    kinds = [(options, count, stages) for (options, count), stages in zip(pipelines.items(), num_stages, strict=True)]
    if not kinds or sum(count * stages for _, count, stages in kinds) > num_micro_batches:
        return float("inf")
    low = max(min((stages - 1) * each.longest + each.total for each in options) for options, _, stages in kinds)
    high = low + num_micro_batches * max(options[0].longest for options, _, _ in kinds)
    if _taken(kinds, low) >= num_micro_batches:
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _taken(kinds, middle) >= num_micro_batches:
            high = middle
        else:
            low = middle
        if high - low <= EPSILON:
            break
    return high


def _taken(kinds: Sequence[tuple[tuple[Split, ...], int, int]], step_time: float) -> int:
    return sum(count * most_micro_batches(options, step_time)[0] for options, count, _ in kinds)


def most_micro_batches(options: Sequence[Split], step_time: float) -> tuple[int, Split]:
    """The micro-batches that a pipeline finishes in `step_time` at most, and the split that does it."""
    return max(
        ((int((step_time - each.total) / each.longest + 1 + EPSILON), each) for each in options),
        key=lambda pair: pair[0],
    )


def assign(options: Sequence[tuple[Split, ...]], num_micro_batches: int) -> Solution | None:
    """The best micro-batches and splits of pipelines, in their order; None if there is no way."""
    if not options or not all(options):
        return None
    num_stages = [len(each[0].layers) for each in options]
    counted: dict[tuple[Split, ...], int] = {}
    for each in options:
        counted[each] = counted.get(each, 0) + 1
    step_time = least_time(counted, [len(each[0].layers) for each in counted], num_micro_batches)
    if step_time == float("inf"):
        return None
    counts = [most_micro_batches(each, step_time)[0] for each in options]
    _give_back(counts, num_stages, sum(counts) - num_micro_batches)
    chosen = [min(each, key=lambda s, m=m: _time(s, m)) for each, m in zip(options, counts, strict=True)]  # type: ignore[misc]
    times = [_time(split, m) for split, m in zip(chosen, counts, strict=True)]
    return Solution(max(times), tuple(counts), tuple(chosen))


def _give_back(counts: list[int], least: Sequence[int], surplus: int) -> None:
    """Take `surplus` micro-batches away, in place, from pipelines that may have fewer."""
    for i in range(len(counts)):
        taken = min(surplus, counts[i] - least[i])
        counts[i] -= taken
        surplus -= taken


def _time(split: Split, num_micro_batches: int) -> float:
    return (num_micro_batches - 1) * split.longest + split.total
