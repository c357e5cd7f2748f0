from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardctl.judge import score
from guardctl.words.records import Kind, Score

from .worlds import NOW, POLICY, Signals, steps, telemetry

NODES = tuple(f"n{i}" for i in range(6))
GROUPS = dict.fromkeys(NODES, "7")


def rate(table: pd.DataFrame) -> dict[str, Score]:
    return {each.node: each for each in score.rate(table, POLICY, NOW)}


def signals(table: pd.DataFrame, groups: dict[str, str] = GROUPS) -> dict[tuple[str, str], Score]:
    return {(each.node, each.signal): each for each in score.signals(table, groups, POLICY, NOW)}


# --- steps ----------------------------------------------------------------------------------------------------------


def test_a_rank_that_takes_twice_as_long() -> None:
    found = rate(steps(6, lambda rank, _: 2.0 if rank == 2 else 1.0))
    slow = found.pop("n2")
    assert slow.relative == pytest.approx(0.5)
    assert (slow.value, slow.peers, slow.num_peers, slow.job_id) == (2.0, 1.0, 5, "7")
    assert (slow.windows, slow.windows_slow) == (5, 5)
    assert slow.rate == pytest.approx(2.0)
    assert all(each.windows_slow == 0 and each.relative == pytest.approx(1.0) for each in found.values())


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_noise_of_five_percent_is_never_enough(seed: int) -> None:
    found = score.rate(steps(8, lambda *_: 1.0, noise=0.05, seed=seed), POLICY, NOW)
    assert max(each.windows_slow for each in found) < POLICY.judge.windows_slow


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 7), st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_twice_as_slow_is_always_seen_at_any_scale(bad: int, seed: int, scale: float) -> None:
    table = steps(8, lambda rank, _: scale * (2.0 if rank == bad else 1.0), noise=0.05, seed=seed)
    assert [each.node for each in score.rate(table, POLICY, NOW) if each.windows_slow >= 4] == [f"n{bad}"]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 2**32 - 1))
def test_order_of_rows_and_numbers_of_ranks_do_not_matter(order: list[int], seed: int) -> None:
    table = steps(6, lambda rank, _: 1.5 if rank == 1 else 1.0, noise=0.03, seed=seed)
    shuffled = table.sample(frac=1.0, random_state=seed % 1000).assign(
        rank=lambda rows: rows["rank"].map(dict(enumerate(order)))
    )
    assert rate(shuffled) == rate(table)


def test_missing_windows_are_unknown_not_slow_and_not_sound() -> None:
    table = steps(6, lambda rank, _: 2.0 if rank == 2 else 1.0)
    known = table[(table["rank"] != 2) | (table["step"] >= 18)]
    assert (rate(known)["n2"].windows, rate(known)["n2"].windows_slow) == (2, 2)
    assert rate(known)["n1"].windows == 5


def test_a_single_step_in_a_window_says_nothing() -> None:
    table = steps(6, lambda rank, _: 2.0 if rank == 2 else 1.0)
    assert "n2" not in rate(table[(table["rank"] != 2) | (table["step"] % 6 == 0)])


def test_too_few_peers_give_no_score() -> None:
    assert not rate(steps(3, lambda rank, _: 2.0 if rank == 2 else 1.0))
    assert not rate(pd.DataFrame())


def test_only_ranks_of_the_same_stage_are_peers() -> None:
    table = steps(8, lambda rank, _: 1.4 if rank >= 4 else 1.0).assign(stage=lambda rows: rows["rank"] // 4)
    assert all(each.windows_slow == 0 and each.num_peers == 3 for each in rate(table).values())


def test_most_ranks_slow_alike_is_nobody() -> None:
    found = rate(steps(8, lambda rank, window: 3.0 if rank < 6 and window > 2 else 1.0))
    assert all(each.windows_slow == 0 for each in found.values())


def test_longer_sequences_are_work_not_slowness() -> None:
    table = steps(6, lambda rank, _: 1.5 if rank == 2 else 1.0)
    assert rate(table.assign(tokens=lambda rows: rows["busy_s"] * 4096))["n2"].windows_slow == 0
    assert rate(table.assign(tokens=4096))["n2"].windows_slow == 5
    unknown = table.assign(tokens=lambda rows: (rows["busy_s"] * 4096).where(rows["step"] > 0))
    assert rate(unknown)["n2"].windows_slow == 5


def test_slowness_that_moves_stays_with_nobody() -> None:
    found = rate(steps(8, lambda rank, window: 2.0 if rank == window else 1.0))
    assert [found[f"n{i}"].windows_slow for i in range(8)] == [1, 1, 1, 1, 1, 0, 0, 0]


# --- the nodes' own signals -----------------------------------------------------------------------------------------


def counter(name: str, per_s: dict[str, float], source: str, device: str = "") -> pd.DataFrame:
    return telemetry(source, {n: _growing(name, per_s.get(n, per_s[""])) for n in NODES}, device)


def _steady(name: str, value: float) -> Signals:
    return lambda _: {name: value}


def _growing(name: str, per_s: float) -> Signals:
    return lambda i: {name: 100 + 30 * i * per_s}


def test_a_node_whose_quota_holds_it_back_longer() -> None:
    found = signals(counter("throttled_s", {"": 0.41, "n4": 0.88}, "host"))
    slow = found.pop(("n4", "throttled_share"))
    assert (slow.kind, slow.windows, slow.windows_slow) == (Kind.HOST, 5, 5)
    assert slow.value == pytest.approx(0.88)
    assert slow.peers == pytest.approx(0.41)
    assert all(each.windows_slow == 0 for each in found.values())


def test_a_reboot_and_a_reset_are_no_rates() -> None:
    table = counter("throttled_s", {"": 0.4}, "host")
    rebooted = table.assign(boot_id=table["boot_id"].where((table["node"] != "n1") | (table["at"] < NOW), "c"))
    rebooted.loc[(rebooted["node"] == "n1") & (rebooted["at"] == NOW), "throttled_s"] = 1e6
    assert signals(rebooted)["n1", "throttled_share"].value == pytest.approx(0.4)
    fallen = table.assign(throttled_s=table["throttled_s"].where((table["node"] != "n1") | (table["at"] < NOW), 0.0))
    assert signals(fallen)["n1", "throttled_share"].value == pytest.approx(0.4)


def test_retransmits_and_drops_are_two_kinds() -> None:
    table = pd.concat([
        counter("tcp_retransmits", {"": 0.2, "n4": 40.0}, "net", "eth0"),
        counter("qdisc_drops", {"": 0.0, "n4": 25.0}, "net", "eth0"),
    ])  # fmt: skip
    found = signals(table)
    spoke = {each.kind for each in found.values() if each.windows_slow == 5}
    assert spoke == {Kind.TRANSPORT, Kind.LINK}
    assert {node for (node, _), each in found.items() if each.windows_slow} == {"n4"}
    assert found["n4", "queue_drops_per_s"].value == pytest.approx(25.0)
    assert found["n4", "queue_drops_per_s"].relative is None


def test_a_busy_network_is_nobodys_fault() -> None:
    assert all(
        not each.windows_slow for each in signals(counter("tcp_retransmits", {"": 30.0, "n4": 60.0}, "net")).values()
    )


def test_idle_nodes_and_small_groups_have_no_peers() -> None:
    table = counter("throttled_s", {"": 0.4, "n4": 0.9}, "host")
    assert not signals(table, {**GROUPS, "n4": ""}).keys() & {("n4", "throttled_share")}
    assert not signals(table, dict.fromkeys(NODES[:3], "7"))
    assert not signals(table, {})


def _constant(values: Mapping[str, Any]) -> Signals:
    return lambda _: values


def gpus(slow_node: str = "n4", **changes: float) -> pd.DataFrame:
    busy = {"sm_clock_mhz": 1980, "max_sm_clock_mhz": 1980, "event_reasons": 0, "utilization_percent": 99,
            "temperature_c": 62, "power_w": 640}  # fmt: skip
    sick = busy | changes

    def one(gpu: int) -> pd.DataFrame:
        return telemetry("gpu", {n: _constant(sick if (n, gpu) == (slow_node, 3) else busy) for n in NODES}, str(gpu))

    tables = [one(gpu) for gpu in range(4)]
    return pd.concat(tables).assign(uuid=lambda rows: "GPU-" + rows["node"] + rows["device"])


def test_a_gpu_that_is_throttled_by_heat() -> None:
    found = score.signals(gpus(sm_clock_mhz=990, event_reasons=0x48, temperature_c=91), GROUPS, POLICY, NOW)
    slow = {each.signal: each for each in found if each.windows_slow}
    assert set(slow) == {"sm_clock_mhz", "thermal_share", "hw_slowdown_share", "temperature_c"}
    assert slow["sm_clock_mhz"].relative == pytest.approx(0.5)
    assert {(each.node, each.gpu, each.uuid) for each in slow.values()} == {("n4", 3, "GPU-n43")}
    assert slow["thermal_share"].value == 1.0


def test_a_gpu_at_its_power_cap_that_draws_as_much_as_others_is_ordinary() -> None:
    silicon = gpus(sm_clock_mhz=1700, event_reasons=0x04, power_w=640)
    assert not any(each.windows_slow for each in score.signals(silicon, GROUPS, POLICY, NOW))
    capped_lower = gpus(sm_clock_mhz=1700, event_reasons=0x04, power_w=400)
    assert [each.node for each in score.signals(capped_lower, GROUPS, POLICY, NOW) if each.windows_slow] == ["n4"]


def test_low_clocks_without_load_are_normal() -> None:
    for idle in (gpus(sm_clock_mhz=345, utilization_percent=0), gpus(sm_clock_mhz=345, event_reasons=1)):
        found = score.signals(idle, GROUPS, POLICY, NOW)
        assert not any(each.windows_slow for each in found)


def test_gpus_of_another_model_are_no_peers() -> None:
    found = score.signals(gpus(sm_clock_mhz=1400, max_sm_clock_mhz=1410), GROUPS, POLICY, NOW)
    assert not any(each.windows_slow for each in found)


def test_columns_that_are_missing_are_unknown() -> None:
    table = gpus()[["node", "source", "device", "at"]]
    assert not score.signals(table, GROUPS, POLICY, NOW)
    assert not score.signals(pd.DataFrame(), GROUPS, POLICY, NOW)


def test_a_slow_link_is_told_from_the_neighbour_that_sends_into_it() -> None:
    """As measured on a 50 Mbit/s link in a ring: queue and round trip on its own node, retransmits at the sender."""
    rtt_ms = {"n0": 1.5, "n1": 26.0, "n2": 18.6, "n3": 20.9, "n4": 6.9, "n5": 1.0}
    gauge = telemetry("net", {node: _steady("tcp_rtt_ms", value) for node, value in rtt_ms.items()})
    found = signals(
        pd.concat([
            gauge,
            counter("qdisc_overlimits", {"": 0.0, "n2": 3500.0}, "net", "eth0"),
            counter("tcp_retransmits", {"": 0.1, "n3": 14.6}, "net", "eth0"),
        ])
    )  # fmt: skip
    slow = {key for key, each in found.items() if each.windows_slow == each.windows}
    assert ("n2", "queue_delays_per_s") in slow
    assert ("n2", "tcp_rtt_ms") in slow
    assert {found[key].kind for key in slow if key[0] == "n3"} == {Kind.TRANSPORT}
    assert not [node for node, _ in slow if node in {"n0", "n5"}]


def test_round_trips_that_are_long_everywhere_are_nobodys_fault() -> None:
    gauge = telemetry("net", {node: _steady("tcp_rtt_ms", 30.0) for node in NODES})
    assert all(each.windows_slow == 0 for each in signals(gauge).values())
