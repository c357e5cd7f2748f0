"""What a healthy GPU or pair reaches: the reference that a result is divided by. Pure.

From the ledger where there are enough values of nodes that passed before; else from the sweep itself, the partners
first, because nothing speaks against them. A handful of slow nodes must not pull the reference down to themselves, so
it is the median of what lies near the top: values more than 5 % below it are left out until nothing changes
(SuperBench, USENIX ATC 2024: baselines by iterated outlier removal with a 5 % rule).
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from guardctl.sweep.results import GemmResult, PairResult
from guardctl.words.records import Event, EventKind

Baselines = Mapping[str, tuple[float, ...]]  # key of a result -> values of nodes that passed
MIN_LEDGER_VALUES = 5
OUTLIER = 0.05
MAX_LEDGER_VALUES = 200  # per key: the newest; an old driver's numbers fade out


@dataclass(frozen=True, slots=True)
class Reference:
    """`value`: what is normal; `num`: from how many values; `source`: whose."""

    value: float
    num: int
    source: str


References = Mapping[str, Reference]


@dataclass(frozen=True, slots=True)
class _Sample:
    key: str
    value: float
    nodes: frozenset[str]
    round: int = 0


def gemm_references(results: Iterable[GemmResult], partners: Collection[str], baselines: Baselines) -> References:
    """The reference of every test and SKU that has one. One node alone gives none: it cannot be its own measure."""
    samples = [_Sample(each.key, each.value, frozenset({each.node})) for each in results if each.value and each.ok]
    return _references(samples, frozenset(partners), baselines)


def pair_references(results: Iterable[PairResult], partners: Collection[str], baselines: Baselines) -> References:
    """The reference of every kind of pair that has one. None while one single node is part of every pair."""
    samples = [
        _Sample(each.key, each.busbw_gbps, each.nodes, each.round) for each in results if each.busbw_gbps and each.ok
    ]
    return _references(samples, frozenset(partners), baselines)


def _references(samples: Sequence[_Sample], partners: frozenset[str], baselines: Baselines) -> References:
    groups: dict[str, list[_Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.key].append(sample)
    found = {key: _reference(group, partners, baselines.get(key, ())) for key, group in groups.items()}
    return {key: reference for key, reference in found.items() if reference is not None}


def _reference(samples: Sequence[_Sample], partners: frozenset[str], before: Sequence[float]) -> Reference | None:
    """From the ledger, or from the earliest rounds that say enough: later ones ask mostly bad nodes, over and over."""
    if len(before) >= MIN_LEDGER_VALUES:
        return _described(before, "nodes that passed before")
    for number in sorted({sample.round for sample in samples}):
        found = _of_sweep([sample for sample in samples if sample.round <= number], partners)
        if found is not None:
            return found
    return None


def _of_sweep(samples: Sequence[_Sample], partners: frozenset[str]) -> Reference | None:
    """The partners' reference, or everybody's where that is higher; None if one node could have spoiled every value."""
    controls = [sample.value for sample in samples if sample.nodes <= partners]
    found = [_described(controls, "the partners of this sweep")] if controls else []
    if not frozenset.intersection(*(sample.nodes for sample in samples)):
        found.append(_described([sample.value for sample in samples], "this sweep"))
    return max(found, key=lambda reference: reference.value, default=None)


def _described(values: Sequence[float], source: str) -> Reference:
    value, num = upper(values)
    return Reference(value, num, f"{num} of {len(values)} values of {source}")


def upper(values: Sequence[float]) -> tuple[float, int]:
    """The robust upper reference of at least one value, and how many values are left to carry it."""
    ordered = sorted(values, reverse=True)
    middle = statistics.median_high(ordered[: math.ceil(len(ordered) / 2)])
    kept = ordered
    while left := [value for value in kept if value < middle * (1 - OUTLIER)]:
        kept = [value for value in kept if value not in left]
        middle = statistics.median(kept)
    return middle, len(kept)


# --- to the ledger and back -----------------------------------------------------------------------------------------


def details(results: Iterable[GemmResult | PairResult], passed: Collection[str]) -> list[tuple[str, dict[str, object]]]:
    """Node and `detail` of a BASELINE event for each good value of nodes that all passed."""
    found: list[tuple[str, dict[str, object]]] = []
    for each in results:
        if isinstance(each, GemmResult) and each.ok and each.node in passed:
            detail: dict[str, object] = {
                "key": each.key,
                "value": each.value,
                "unit": each.unit,
                "gpu": each.gpu,
                "uuid": each.uuid,
            }
            found.append((each.node, detail))
        elif isinstance(each, PairResult) and each.ok and each.nodes <= set(passed):
            detail = {"key": each.key, "value": each.busbw_gbps, "unit": "GB/s", "with": each.node_b}
            found.append((each.node_a, detail))
    return found


def from_events(events: Iterable[Event]) -> dict[str, tuple[float, ...]]:
    """The values of BASELINE events by key, the newest `MAX_LEDGER_VALUES` of each; events in order of time."""
    groups: dict[str, list[float]] = defaultdict(list)
    for event in events:
        key, value = event.detail.get("key"), event.detail.get("value")
        if event.kind is EventKind.BASELINE and isinstance(key, str) and isinstance(value, int | float) and value > 0:
            groups[key].append(float(value))
    return {key: tuple(values[-MAX_LEDGER_VALUES:]) for key, values in groups.items()}
