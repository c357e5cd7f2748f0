"""From results to one outcome per node: who is the culprit, and how sure that is. Pure.

What is missing is never a pass and never a conviction. A pair blames neither side alone.
"""

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from guardctl.sweep.baseline import Reference, References
from guardctl.sweep.pairing import CONVICTING, Tried, num_acquitted
from guardctl.sweep.results import GemmResult, PairResult
from guardctl.words.policy import Policy
from guardctl.words.records import Level

SILENT = "node stopped answering during the sweep"
MIN_SIBLINGS = 4  # GPUs of one node that can be a measure for each other
DRIFT = 0.95  # of its first third in the last: worth a line


class Result(StrEnum):
    """How a sweep ended for one node."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the sweep says about one node. `culprit`: in words; `level`: how finely it could be named.

    `numbers`: the ones behind it, for the ledger (units in their names). `evidence`: lines for a person. `next_step`:
    for INCONCLUSIVE, what would decide it.
    """

    node: str
    result: Result
    culprit: str = ""
    level: Level = Level.NODE
    numbers: Mapping[str, float] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    next_step: str = ""
    gpu: int | None = None
    uuid: str | None = None


def combine(first: Outcome, second: Outcome) -> Outcome:
    """Two outcomes of one node as one: a failure outweighs an open question, which outweighs a pass."""
    weight = [Result.PASSED, Result.INCONCLUSIVE, Result.FAILED]
    lead, other = sorted((first, second), key=lambda each: weight.index(each.result), reverse=True)
    return replace(
        lead,
        numbers={**other.numbers, **lead.numbers},
        evidence=tuple(dict.fromkeys((*first.evidence, *second.evidence))),
    )


# --- one node alone -------------------------------------------------------------------------------------------------


def best(results: Iterable[GemmResult]) -> list[GemmResult]:
    """The faster attempt of each GPU; a fault stays, whatever the other attempt says."""
    kept: dict[tuple[str, int | None, str], GemmResult] = {}
    for each in results:
        key = (each.node, each.gpu, each.test)
        if key not in kept or _weight(each) > _weight(kept[key]):
            kept[key] = each
    return list(kept.values())


def _weight(result: GemmResult) -> tuple[bool, float]:
    return bool(result.fault), result.value if result.ok and result.value is not None else -1.0


def gemm(
    nodes: Iterable[str],
    results: Iterable[GemmResult],
    references: References,
    policy: Policy,
    ended: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """An outcome per node of `nodes`. `ended`: in words, how the job of a node ended if not well ("timed out")."""
    by_node: dict[str, list[GemmResult]] = defaultdict(list)
    for each in results:
        by_node[each.node].append(each)
    return [_gemm_node(node, by_node[node], references, policy, (ended or {}).get(node, "")) for node in nodes]


def _gemm_node(node: str, results: Sequence[GemmResult], references: References, policy: Policy, ended: str) -> Outcome:
    measured = [each for each in results if each.ok]
    evidence = tuple(_gemm_line(each, references.get(each.key)) for each in results)
    numbers = _gemm_numbers(measured, references)
    outcome = _faulty(node, results) or _slow(node, measured, references, policy)
    if outcome is None:
        outcome = _unfinished(node, results, references, ended) or Outcome(node, Result.PASSED)
    return replace(outcome, numbers=numbers, evidence=evidence)


def _faulty(node: str, results: Sequence[GemmResult]) -> Outcome | None:
    """A GPU that is gone, hangs, or gave other bits for the same input."""
    for each in results:
        if each.fault and each.gpu is not None:
            culprit = f"GPU {each.gpu}: {each.fault.replace('_', ' ')}"
            return Outcome(node, Result.FAILED, culprit, Level.GPU, gpu=each.gpu, uuid=each.uuid)
        if each.fault:
            return Outcome(node, Result.FAILED, each.fault.replace("_", " "), Level.NODE)
    return None


def _slow(node: str, measured: Sequence[GemmResult], references: References, policy: Policy) -> Outcome | None:
    """GPUs below the policy's share of their reference; without one, below that of at least three siblings."""
    ratios = {each: ratio for each in measured if (ratio := _ratio(each, references, measured)) is not None}
    slow = [each for each, ratio in ratios.items() if ratio < policy.sweep.min_ratio]
    if not slow:
        return None
    if len(slow) == len(measured):  # all of them: the one that says it was held back is the culprit, else the node
        throttled = [each for each in slow if each.throttled]
        slow = throttled if len(throttled) < len(slow) else []
    worst = min(slow or ratios, key=lambda each: ratios[each])
    words = f"{ratios[worst]:.2f} of the reference in {worst.test}"
    if not slow:
        return Outcome(node, Result.FAILED, f"the node: every GPU slow, the slowest at {words}", Level.NODE)
    names = ", ".join(str(each.gpu) for each in slow)
    culprit = f"GPU {names}: {words}" + (f", {_held_back(worst)}" if worst.throttled else "")
    return Outcome(node, Result.FAILED, culprit, Level.GPU, gpu=worst.gpu, uuid=worst.uuid)


def _ratio(result: GemmResult, references: References, siblings: Sequence[GemmResult]) -> float | None:
    reference = references.get(result.key)
    if result.value is None:
        return None
    if reference is not None:
        return result.value / reference.value
    values = [each.value for each in siblings if each.key == result.key and each.value is not None]
    return result.value / statistics.median(values) if len(values) >= MIN_SIBLINGS else None


def _held_back(result: GemmResult) -> str:
    reasons = " and ".join(reason.replace("_", " ") for reason in result.event_reasons)
    heat = f" at {result.temperature_c:g} C" if result.temperature_c is not None else ""
    return f"{reasons}{heat}"


def _unfinished(node: str, results: Sequence[GemmResult], references: References, ended: str) -> Outcome | None:
    """What keeps a node without a fault from passing: nothing measured, not all of it, or nothing to compare with."""
    measured = [each for each in results if each.ok]
    errors = [each.message for each in results if not each.ok]
    expected = max((each.num_gpus or 0 for each in results), default=0)
    if not results or (ended and not errors):
        words = f"{SILENT}: the job {ended}" if ended else SILENT
    elif errors or len(measured) < expected:
        words = f"{len(measured)} of {max(expected, len(results))} GPUs measured" + "".join(
            f"; {each}" for each in errors[:1]
        )
    elif any(each.key not in references for each in measured):
        words = "measured, but nothing to compare with"
        step = "sweep it again beside a healthy node of its kind"
        return Outcome(node, Result.INCONCLUSIVE, words, next_step=step)
    else:
        return None
    return Outcome(
        node, Result.INCONCLUSIVE, words, next_step="look at the node and at the job's log, then sweep it again"
    )


def _gemm_line(result: GemmResult, reference: Reference | None) -> str:
    name = f"{result.test} on GPU {result.gpu}" if result.gpu is not None else result.test
    if not result.ok and result.value is None:
        return f"{name}: {result.message}"
    against = f", {result.value / reference.value:.2f} of {reference.value:.1f} ({reference.source})" if (
        reference and result.value is not None) else ", nothing to compare with"  # fmt: skip
    held = f"; {_held_back(result)}" if result.throttled else ""
    return f"{name}: {result.value:.1f} {result.unit}{against}{held}{_drift(result.samples)}{_note(result)}"


def _note(result: GemmResult) -> str:
    return f"; {result.message}" if result.message else ""


def _drift(samples: Sequence[float]) -> str:
    third = len(samples) // 3
    if third < 2:  # noqa: PLR2004 - fewer samples say nothing about a drift
        return ""
    first, last = statistics.median(samples[:third]), statistics.median(samples[-third:])
    return f"; fell from {first:.1f} to {last:.1f} during the test" if last < first * DRIFT else ""


def _gemm_numbers(measured: Sequence[GemmResult], references: References) -> dict[str, float]:
    """The slowest GPU's value, reference and ratio."""
    known = [
        (each.value / references[each.key].value, each) for each in measured if each.value and each.key in references
    ]
    if not known:
        return {}
    ratio, worst = min(known, key=lambda pair: pair[0])
    unit = worst.unit or "gflops"
    return {"gemm_ratio": ratio, f"gemm_{unit}": ratio * references[worst.key].value,
            f"gemm_reference_{unit}": references[worst.key].value}  # fmt: skip


# --- two nodes together ---------------------------------------------------------------------------------------------


def tried(results: Iterable[PairResult], references: References, policy: Policy) -> list[Tried]:
    """Every pair as good, bad (slow, or failed with an error), or nothing said (no reference to compare with)."""
    return [Tried(each.nodes, _is_good(each, references, policy)) for each in results]


def _is_good(result: PairResult, references: References, policy: Policy) -> bool | None:
    if not result.ok or result.busbw_gbps is None:
        return False
    reference = references.get(result.key)
    return None if reference is None else result.busbw_gbps >= policy.sweep.pair_min_ratio * reference.value


def pairs(nodes: Iterable[str], results: Iterable[PairResult], references: References, policy: Policy) -> list[Outcome]:
    """An outcome per node of `nodes`, from all rounds together."""
    known = list(results)
    tests = tried(known, references, policy)
    convicted = {node for test in tests for node in test.nodes if _is_convicted(node, tests)}
    lines = {node: tuple(_pair_line(each, references) for each in known if node in each.nodes) for node in nodes}
    numbers = {node: _pair_numbers(node, known, references) for node in lines}
    return [replace(_pair_node(node, tests, convicted), evidence=lines[node], numbers=numbers[node]) for node in lines]


def _is_convicted(node: str, tests: Sequence[Tried]) -> bool:
    """None of its pairs good, and bad ones with at least two partners that are good with somebody else."""
    spoken_for = any(test.good for test in tests if node in test.nodes)
    return not spoken_for and num_acquitted(node, tests) >= CONVICTING


def _is_good_elsewhere(node: str, without: str, tests: Iterable[Tried]) -> bool:
    return any(test.good for test in tests if node in test.nodes and without not in test.nodes)


def _pair_node(node: str, tests: Sequence[Tried], convicted: Collection[str]) -> Outcome:
    mine = [test for test in tests if node in test.nodes]
    bad = sorted(other for test in mine if test.good is False for other in test.nodes if other != node)
    good = [test for test in mine if test.good]
    if node in convicted:
        return Outcome(node, Result.FAILED, f"the node's link: slow or failing with {' and '.join(bad)}", Level.NODE)
    open_bad = [other for other in bad if other not in convicted]
    if good and not open_bad:
        return Outcome(node, Result.PASSED)
    if good:
        return _link(node, open_bad, tests)
    return _open_question(node, bad, mine)


def _link(node: str, others: Sequence[str], tests: Iterable[Tried]) -> Outcome:
    """Good with somebody, bad with `others`: if these are good elsewhere too, what lies between them is left."""
    names = " and ".join(others)
    if not all(_is_good_elsewhere(other, node, tests) for other in others):
        words, step = f"good with others, slow or failing with {names}", f"sweep {names} with two healthy partners"
    else:
        words, step = f"the link between {node} and {names}", "look at the cables and switch ports between them"
    return Outcome(node, Result.INCONCLUSIVE, words, Level.LINK, next_step=step)


def _open_question(node: str, bad: Sequence[str], mine: Sequence[Tried]) -> Outcome:
    if bad:
        words = f"slow or failing with {' and '.join(bad)}: either side"
    elif mine:
        words = "measured in a pair, but nothing to compare with"
    else:
        words = "no pair gave a result"
    return Outcome(node, Result.INCONCLUSIVE, words, Level.LINK if bad else Level.NODE,
                   next_step="sweep it again with two more healthy partners")  # fmt: skip


def _pair_line(result: PairResult, references: References) -> str:
    name = f"{result.test} {result.node_a}+{result.node_b}"
    if result.busbw_gbps is None:
        return f"{name}: {result.message or 'no result'}"
    reference = references.get(result.key)
    against = f", {result.busbw_gbps / reference.value:.2f} of {reference.value:.3f}" if reference else ""
    return f"{name}: {result.busbw_gbps:.3f} GB/s{against}"


def _pair_numbers(node: str, results: Iterable[PairResult], references: References) -> dict[str, float]:
    """The best pair of the node: what its own link can do."""
    mine = [each for each in results if node in each.nodes and each.busbw_gbps is not None]
    if not mine:
        return {}
    best = max(mine, key=lambda each: each.busbw_gbps or 0.0)
    numbers = {"busbw_gbps": best.busbw_gbps or 0.0}
    if best.key in references:
        reference = references[best.key].value
        numbers |= {"busbw_reference_gbps": reference, "busbw_ratio": numbers["busbw_gbps"] / reference}
    return numbers
