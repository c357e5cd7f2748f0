from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.sweep import blame
from guardctl.sweep.baseline import (
    Reference,
    details,
    from_events,
    gemm_references,
    pair_references,
    upper,
)
from guardctl.sweep.blame import Outcome, Result
from guardctl.sweep.results import GemmResult, PairResult, parse
from guardctl.words.policy import Policy
from guardctl.words.records import Event, EventKind, Level
from tests.sweep.values import NOW, gpus, pair

POLICY = Policy()


def judged(nodes: list[str], results: list[GemmResult], partners: tuple[str, ...] = ()) -> dict[str, Outcome]:
    references = gemm_references(results, partners, {})
    return {each.node: each for each in blame.gemm(nodes, results, references, POLICY)}


def test_one_slow_gpu_of_several_is_named() -> None:
    outcome = judged(["n1", "n2"], [*gpus("n1", [100, 71, 100, 99]), *gpus("n2", [100, 100, 99, 101])])["n1"]
    assert (outcome.result, outcome.level, outcome.gpu, outcome.uuid) == (Result.FAILED, Level.GPU, 1, "GPU-n1-1")
    assert outcome.culprit.startswith("GPU 1: 0.71 of the reference")
    assert outcome.numbers["gemm_ratio"] == pytest.approx(0.71)


def test_a_node_is_named_when_all_its_gpus_are_slow() -> None:
    outcome = judged(["n1", "n2"], [*gpus("n1", [50, 51]), *gpus("n2", [100, 100])], ("n2",))["n1"]
    assert (outcome.result, outcome.level, outcome.gpu) == (Result.FAILED, Level.NODE, None)


def test_the_one_gpu_that_says_it_is_throttled_is_named_when_all_are_slow() -> None:
    slow = gpus("n1", [50, 51])
    slow[1] = replace(slow[1], event_reasons=("hw_slowdown", "hw_thermal_slowdown"), temperature_c=88.0)
    outcome = judged(["n1", "n2"], [*slow, *gpus("n2", [100, 100])], ("n2",))["n1"]
    assert (outcome.level, outcome.gpu) == (Level.GPU, 1)
    assert "hw thermal slowdown at 88 C" in outcome.culprit


def test_a_software_power_cap_is_no_throttling() -> None:
    assert not replace(gpus("n1", [1])[0], event_reasons=("sw_power_cap",)).throttled


def test_other_bits_for_the_same_input_convict_at_full_speed() -> None:
    wrong = gpus("n1", [100, 100])
    wrong[0] = replace(wrong[0], ok=False, fault="gemm_mismatch", message="3 of 10 samples: same input, other bits")
    outcome = judged(["n1", "n2"], [*wrong, *gpus("n2", [100, 100])])["n1"]
    assert (outcome.result, outcome.gpu, outcome.culprit) == (Result.FAILED, 0, "GPU 0: gemm mismatch")


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([], blame.SILENT),
        ([GemmResult("n1", "gemm_fp32", ok=False, message="MemoryError: 4 GB")], "MemoryError"),
        ([replace(each, num_gpus=8) for each in gpus("n1", [100, 100])], "2 of 8 GPUs measured"),
    ],
)
def test_what_is_missing_is_inconclusive(results: list[GemmResult], words: str) -> None:
    outcome = judged(["n1"], [*results, *gpus("n2", [100, 100])])["n1"]
    assert outcome.result is Result.INCONCLUSIVE
    assert words in outcome.culprit
    assert outcome.next_step


def test_one_node_is_not_its_own_measure() -> None:
    assert judged(["n1"], gpus("n1", [100, 100]))["n1"].result is Result.INCONCLUSIVE


def test_four_siblings_are_a_measure_for_one_slow_gpu() -> None:
    outcome = judged(["n1"], gpus("n1", [100, 100, 60, 100]))["n1"]
    assert (outcome.result, outcome.gpu) == (Result.FAILED, 2)


def test_a_falling_row_of_samples_is_said() -> None:
    falling = [replace(each, samples=(100.0, 99.0, 95.0, 90.0, 85.0, 84.0)) for each in gpus("n1", [95])]
    outcome = judged(["n1", "n2"], [*falling, *gpus("n2", [97])])["n1"]
    assert "fell from 99.5 to 84.5" in outcome.evidence[0]


@given(st.data())
def test_nobody_is_blamed_or_passed_without_a_result(data: st.DataObject) -> None:
    nodes = [f"n{number}" for number in range(6)]
    silent = data.draw(st.sets(st.sampled_from(nodes)))
    results = [each for node in nodes if node not in silent for each in gpus(node, [100, 50 if node == "n0" else 100])]
    outcomes = judged(nodes, results)
    assert all(outcomes[node].result is Result.INCONCLUSIVE for node in silent)
    tested = [pair(a, b, 1.0) for a, b in zip(nodes[::2], nodes[1::2], strict=True) if not {a, b} & silent]
    paired = blame.pairs(nodes, tested, pair_references(tested, (), {}), POLICY)
    heard = {node for each in tested for node in each.nodes}
    assert all(each.result is Result.INCONCLUSIVE for each in paired if each.node not in heard)
    assert not any(each.result is Result.FAILED for each in paired)


def outcomes_of(pairs: list[PairResult], partners: tuple[str, ...] = ()) -> dict[str, Outcome]:
    nodes = sorted({node for each in pairs for node in each.nodes})
    found = blame.pairs(nodes, pairs, pair_references(pairs, partners, {}), POLICY)
    return {each.node: each for each in found}


def test_a_pair_that_fails_blames_neither_side() -> None:
    outcomes = outcomes_of(
        [PairResult("a", "b", ok=False, message="timed out"), pair("c", "d", 1.0), pair("e", "f", 1.0)]
    )
    assert {outcomes[node].result for node in "ab"} == {Result.INCONCLUSIVE}
    assert {outcomes[node].result for node in "cdef"} == {Result.PASSED}


def test_both_good_with_others_leaves_the_link_between_them() -> None:
    pairs = [pair("a", "b", 0.1), pair("c", "d", 1.0), pair("a", "c", 1.0, 2), pair("b", "d", 1.0, 2)]
    outcome = outcomes_of(pairs)["a"]
    assert (outcome.result, outcome.level) == (Result.INCONCLUSIVE, Level.LINK)
    assert outcome.culprit == "the link between a and b"


def test_errors_with_two_good_nodes_convict() -> None:
    bad = [PairResult("a", "b", ok=False, message="timed out"), PairResult("a", "c", ok=False, round=2)]
    good = [pair("c", "d", 1.0), pair("e", "f", 1.0), pair("b", "d", 1.0, 2)]
    assert outcomes_of([*bad, *good])["a"].result is Result.FAILED


def test_the_reference_holds_against_a_third_of_slow_nodes() -> None:
    assert upper([1.0, 0.99, 0.5, 0.51, 1.01, 0.98])[0] == pytest.approx(0.995)
    assert upper([0.7])[0] == pytest.approx(0.7)


def test_the_ledger_is_the_reference_where_it_has_enough() -> None:
    result = gpus("n1", [50])[0]
    assert gemm_references([result], (), {result.key: (100.0,) * 5})[result.key] == Reference(
        100.0, 5, "5 of 5 values of nodes that passed before"
    )
    assert gemm_references([result], (), {result.key: (100.0,) * 4}) == {}


def test_baselines_go_to_the_ledger_and_come_back() -> None:
    alone = [*gpus("n1", [100, 101]), *gpus("n2", [50])]
    together = [pair("n1", "n3", 1.0), pair("n1", "n2", 1.0)]
    events = [
        Event(node, NOW, EventKind.BASELINE, detail=detail)
        for node, detail in details([*alone, *together], {"n1", "n3"})
    ]
    assert from_events(events) == {alone[0].key: (100.0, 101.0), together[0].key: (1.0,)}


def test_lines_that_cannot_be_read_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    good = '{"schema": "guardctl.pairs/1", "node_a": "a", "node_b": "b", "ok": true, "busbw_gbps": 1.5}'
    nan = '{"schema": "guardctl.sweep/1", "node": "a", "test": "gemm_fp32", "ok": true, "value": NaN}'
    lines = [good, nan, good[:40], '{"schema": "other/1"}', "[]", "7"]
    found = parse(lines, name="x.jsonl")
    assert found[0] == PairResult("a", "b", ok=True, busbw_gbps=1.5)
    assert not found[1].ok
    assert len(found) == 2
    assert "x.jsonl:3" in caplog.text
