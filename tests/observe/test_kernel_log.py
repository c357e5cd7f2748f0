"""Lines of the driver in the kernel log, recorded ones first."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.observe import kernel_log
from guardctl.observe.kernel_log import LogEvent, Tail, located, parse_xid, readings
from guardctl.words.records import Reading, Source

BOOT = datetime(2026, 1, 2, tzinfo=UTC)
NOW = BOOT + timedelta(hours=9)
XID_79 = "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def test_every_recorded_xid_line_with_a_number_is_found(data_dir: Path) -> None:
    lines = (data_dir / "nvidia/dmesg/gpud_xid_lines_unique.txt").read_text(encoding="utf-8").splitlines()
    events = parse_xid(lines)
    assert len(lines) - len(events) == 4  # those whose number or address is a placeholder
    assert {event.event for event in events} == {"xid"}
    assert {13, 31, 63, 64, 79, 119, 144, 149} <= {event.code for event in events}
    by_text = {event.text: event.fatal for event in events if event.code == 144}
    assert {fatal for text, fatal in by_text.items() if "Nonfatal" in text} == {False}
    assert {fatal for text, fatal in by_text.items() if " Fatal " in text} == {True}


def test_recorded_sxid_lines_say_whether_they_are_fatal(data_dir: Path) -> None:
    lines = (data_dir / "nvidia/dmesg/gpud_sxid_lines_unique.txt").read_text(encoding="utf-8").splitlines()
    events = [event for event in parse_xid(lines) if event.event == "sxid"]
    assert len(events) == 16
    assert {(event.code, event.fatal) for event in events} >= {(12028, False), (20034, True), (11111, None)}
    assert {event.values["xid"] for event in events} == {None}


def test_other_recorded_forms(data_dir: Path) -> None:
    text = (data_dir / "nvidia/dmesg/collected_other.txt").read_text(encoding="utf-8")
    events = [(event.event, event.code, event.pci, event.since_boot_s) for event in parse_xid(text.splitlines())]
    assert events == [
        ("fell_off_bus", None, "0000:b3:00", 1843.308145), ("init_failed", None, None, 38.773115),
        ("xid", 45, "0000:61:00", None), ("xid", 14, "0000:03:00", None), ("xid", 63, "0000:10:1c", None),
        ("xid", 43, "0009:01:00", 1231741.378609), ("xid", 145, "0018:01:00", None),
    ]  # fmt: skip


def test_a_kmsg_record_gives_sequence_process_and_time() -> None:
    line = "3,1234,5000000,-;NVRM: Xid (PCI:0000:2A:00): 31, pid=4242, name=python3, Ch 00000008"
    (event,) = parse_xid([line])
    assert event == LogEvent("xid", "0000:2a:00", "pid=4242, name=python3, Ch 00000008", 31, 5.0, 1234)
    assert (event.values["pid"], event.values["process"], event.fatal) == (4242, "python3", None)
    (reading,) = readings([event], "n1", "boot", BOOT, NOW)
    assert (reading.at, reading.source, reading.device) == (BOOT + timedelta(seconds=5), Source.LOG, "0000:2a:00")


def test_a_time_that_is_not_said_or_lies_ahead_is_now() -> None:
    events = [LogEvent("xid", None, "", 79), LogEvent("xid", None, "", 79, since_boot_s=1e6)]
    assert [each.at for each in readings(events, "n1", "boot", BOOT, NOW)] == [NOW, NOW]


def test_a_gpu_off_the_bus_in_one_record_and_in_three() -> None:
    text = ["NVRM: The NVIDIA GPU 0000:b3:00.0", "NVRM: (PCI ID: 10de:26b5) installed in this system has",
            "NVRM: fallen off the bus and is not responding to commands."]  # fmt: skip
    one = parse_xid(["4,9,1000000,-;" + "\\x0a".join(text)])
    three = parse_xid([f"4,{9 + i},1000000,-;{line}" for i, line in enumerate(text)])
    assert one == three
    assert (one[0].event, one[0].pci, one[0].sequence) == ("fell_off_bus", "0000:b3:00", 9)


def test_the_end_alone_or_far_from_the_beginning_is_nothing() -> None:
    begin, end = "NVRM: The NVIDIA GPU 0000:b3:00.0", "NVRM: fallen off the bus and is not responding to commands."
    assert parse_xid([end]) == parse_xid([begin, "x", "y", end]) == []


def test_what_a_program_wrote_to_the_log_is_not_the_driver() -> None:
    assert parse_xid([f"12,1,2,-;{XID_79}"]) == []
    assert len(parse_xid([f"4,1,2,-;{XID_79}"])) == 1


@pytest.mark.parametrize(("text", "pci"), [
    ("0000:18:00", "0000:18:00"), ("00000000:18:00.0", "0000:18:00"), ("18:00.0", "0000:18:00"),
    ("00000009:01:00.0", "0009:01:00"), ("0000:9B:00", "0000:9b:00"), ("invalid", None), ("", None),
])  # fmt: skip
def test_one_gpu_has_one_address(text: str, pci: str | None) -> None:
    assert kernel_log.normal_pci(text) == pci


def test_a_line_is_put_down_to_the_gpu_at_its_address() -> None:
    gpu = Reading("n1", NOW, Source.GPU, "3", "GPU-3", "165", values={"pci": "0000:18:00"})
    log = readings(parse_xid([XID_79, XID_79.replace("18:00", "19:00")]), "n1", "boot", BOOT, NOW)
    known, unknown = located(log, [gpu])
    assert (known.uuid, known.serial, known.values["gpu"], known.device) == ("GPU-3", "165", 3, "0000:18:00")
    assert (unknown.uuid, unknown.values.get("gpu")) == (None, None)


@given(st.lists(st.text()))
def test_no_line_is_too_odd(lines: list[str]) -> None:
    parse_xid(lines)


# --- reading on -----------------------------------------------------------------------------------------------------


def test_a_log_is_read_once_and_only_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("one\ntwo\nthr", encoding="ascii")
    tail = Tail(log)
    assert tail.lines() == ["one", "two"]
    assert tail.lines() == []
    with log.open("a", encoding="ascii") as out:
        out.write("ee\n")
    assert tail.lines() == ["three"]
    tail.close()


def test_a_log_that_is_replaced_or_cut_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("one\ntwo\n", encoding="ascii")
    tail = Tail(log)
    tail.lines()
    log.write_text("cut\n", encoding="ascii")
    assert tail.lines() == ["cut"]
    (tmp_path / "new").write_text("new\n", encoding="ascii")
    (tmp_path / "new").replace(log)
    assert tail.lines() == ["new"]
    tail.close()


def test_a_log_that_cannot_be_read_says_why_until_it_can(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "kmsg")
    assert tail.lines() == []
    assert tail.why == f"{tmp_path}/kmsg: No such file or directory"
    (tmp_path / "kmsg").write_text("one\n", encoding="ascii")
    assert tail.lines() == ["one"]
    assert tail.why == ""
    tail.close()
