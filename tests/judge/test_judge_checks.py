from typing import Any

import pandas as pd
import pytest

from guardctl.judge import checks
from guardctl.judge.tables import after
from guardctl.words.policy import Policy
from guardctl.words.records import Finding, Reading, Source

from .worlds import NOW, POLICY, telemetry


def look(source: Source, device: str = "", policy: Policy = POLICY, **values: Any) -> list[Finding]:
    return checks.run([Reading("n1", NOW, source, device, "GPU-1", values=values)], policy)


def test_a_busy_healthy_gpu_has_no_findings() -> None:
    assert not look(
        Source.GPU, "3", lost=False, hang=False, remapped_failed=False, remapped_pending=False, power_w=698.0,
        power_limit_w=700.0, event_reasons=4, utilization_percent=99, ecc_uncorrected_volatile=0, recovery_action=0,
    )  # fmt: skip


def test_nothing_known_is_no_finding() -> None:
    for source in Source:
        assert not look(source)
        assert not look(source, "0", lost=None, hang=None, xid=None, num_gpus=None, event_reasons=None)


@pytest.mark.parametrize(
    ("values", "check", "hard"),
    [
        ({"lost": True, "why": "GPU is lost"}, "gpu_lost", True),
        ({"hang": True, "why": "no answer within 5 s"}, "gpu_hang", True),
        ({"remapped_failed": True, "ecc_uncorrected_volatile": 3}, "ecc_uncorrectable", True),
        ({"remapped_pending": True}, "remap_pending", False),
        ({"retired_pages_pending": True}, "remap_pending", False),
        ({"event_reasons": 0x80, "power_w": 210.0, "power_limit_w": 700.0}, "power_brake", False),
        ({"event_reasons": 0x08, "power_w": 210.0, "power_limit_w": 700.0}, "hw_slowdown", False),
        ({"recovery_action": 2}, "recovery_action", False),
    ],
)
def test_what_a_gpu_says_of_itself(values: dict[str, Any], check: str, hard: bool) -> None:
    (finding,) = look(Source.GPU, "3", **values)
    assert (finding.check, finding.hard, finding.gpu, finding.uuid) == (check, hard, 3, "GPU-1")


@pytest.mark.parametrize(
    "values",
    [
        {"ecc_uncorrected_volatile": 4},  # recovered
        {"event_reasons": 0x04, "power_w": 700.0, "power_limit_w": 700.0},  # at its power cap
        {"event_reasons": 0x01, "power_w": 70.0, "power_limit_w": 700.0},  # idle
        {"event_reasons": 0x08, "power_w": 690.0, "power_limit_w": 700.0},
        {"event_reasons": 0x08, "power_w": 70.0, "power_limit_w": 700.0, "utilization_percent": 0},
    ],
)
def test_what_is_no_fault(values: dict[str, Any]) -> None:
    assert not look(Source.GPU, "3", **values)


@pytest.mark.parametrize(("xid", "hard"), [(79, True), (64, True), (95, True), (63, False), (48, False), (777, False)])
def test_xids_of_hardware(xid: int, hard: bool) -> None:
    (finding,) = look(Source.LOG, "0000:18:00", event="xid", xid=xid, pci="0000:18:00", gpu=2)
    assert (finding.check, finding.hard, finding.gpu) == ("xid", hard, 2)
    assert f"Xid {xid} " in finding.detail


@pytest.mark.parametrize("xid", [13, 31, 43, 45])
def test_xids_of_applications_are_never_evidence(xid: int) -> None:
    assert not look(Source.LOG, event="xid", xid=xid)


@pytest.mark.parametrize(("fatal", "hard"), [(True, [True]), (False, []), (None, [False])])
def test_nvlink_xids_say_themselves_how_bad_it_is(fatal: bool | None, hard: list[bool]) -> None:
    assert [each.hard for each in look(Source.LOG, event="xid", xid=149, fatal=fatal)] == hard


def test_a_gpu_that_fell_off_the_bus_without_an_xid() -> None:
    (finding,) = look(Source.LOG, event="fell_off_bus", pci="0000:b3:00")
    assert finding.hard
    assert "0000:b3:00" in finding.detail


def test_gpus_are_counted_against_the_policy_before_the_node() -> None:
    (finding,) = look(Source.HOST, num_gpus=7, expected_gpus=8)
    assert (finding.check, finding.hard, finding.detail) == ("gpu_missing", True, "7 GPUs found, 8 expected")
    seven = POLICY.model_copy(update={"observe": POLICY.observe.model_copy(update={"expected_gpus": 7})})
    assert not look(Source.HOST, policy=seven, num_gpus=7, expected_gpus=8)


def test_a_flood_of_the_same_line_is_one_finding() -> None:
    line = Reading("n1", NOW, Source.LOG, values={"event": "xid", "xid": 48, "pci": "0000:18:00"})
    assert len(checks.run([line] * 50, POLICY)) == 1


# --- from the table -------------------------------------------------------------------------------------------------


def test_only_the_newest_reading_of_a_device_counts() -> None:
    table = telemetry("gpu", {"n1": lambda i: {"lost": i < 5}}, device="3")
    assert not checks.latest(table, POLICY)
    (finding,) = checks.latest(telemetry("gpu", {"n1": lambda i: {"lost": i >= 5}}, device="3"), POLICY)
    assert (finding.node, finding.gpu) == ("n1", 3)


def test_a_driver_that_was_slow_once_does_not_hang() -> None:
    num_samples = len(telemetry("gpu", {"n1": lambda _: {"hang": False}}, device="3"))
    once = telemetry("gpu", {"n1": lambda i: {"hang": i == num_samples - 1}}, device="3")
    twice = telemetry("gpu", {"n1": lambda i: {"hang": i >= num_samples - 2}}, device="3")
    assert not checks.latest(once, POLICY)
    assert [each.check for each in checks.latest(twice, POLICY)] == ["gpu_hang"]


def test_mixed_sources_and_missing_columns() -> None:
    table = pd.concat([
        telemetry("host", {"n1": lambda _: {"num_gpus": 7, "expected_gpus": 8}}),
        telemetry("log", {"n2": lambda _: {"event": "xid", "xid": 79, "pci": "0000:18:00"}}),
        telemetry("net", {"n3": lambda i: {"tcp_retransmits": i}}, device="eth0"),
    ])  # fmt: skip
    assert {(each.node, each.check) for each in checks.latest(table, POLICY)} == {("n1", "gpu_missing"), ("n2", "xid")}
    assert not checks.latest(pd.DataFrame(), POLICY)


def test_evidence_from_before_its_node_was_settled_is_spent() -> None:
    table = telemetry("log", {"n1": lambda _: {"xid": 79}, "n2": lambda _: {"xid": 79}})
    assert {each.node for each in checks.latest(after(table, {"n1": NOW.replace(hour=13)}), POLICY)} == {"n2"}
    assert len(after(table, {"n1": NOW})) == len(table) // 2 + 1
    assert after(table, {}) is table


def test_times_with_nanoseconds_and_repeated_row_numbers() -> None:
    whole = telemetry("gpu", {"n1": lambda _: {"hang": True}}, device="3")
    table = pd.concat([whole, telemetry("gpu", {"n2": lambda _: {"hang": True}}, device="3")])
    table["at"] = pd.to_datetime(table["at"], utc=True).astype("datetime64[ns, UTC]") + pd.Timedelta(7, unit="ns")
    assert {each.node for each in checks.latest(table, POLICY)} == {"n1", "n2"}
