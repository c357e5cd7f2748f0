"""Telemetry written and read back; torn lines, full disks, boots in between."""

import json
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.observe import spool
from guardctl.words.errors import InputError, SpoolError
from guardctl.words.records import Reading, Source, Value

NOW = datetime(2026, 1, 2, 3, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def host(node: str = "n1", at: datetime = NOW, **values: Value) -> Reading:
    return Reading(node, at, Source.HOST, boot_id="boot", values=values)


def write(state: Path, *readings: Reading, node: str = "n1", at: datetime = NOW, boot: str = "boot") -> None:
    spool.Spool(state, node, boot).append(readings, at)


def read(state: Path, since: datetime = NOW - HOUR, nodes: tuple[str, ...] = ("n1",)) -> pd.DataFrame:
    return spool.read(state, nodes, since)


@contextmanager
def files_up_to(num_bytes: int) -> Iterator[None]:
    """A limit on the size of files stands for a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_readings_come_back_as_a_wide_table(tmp_path: Path) -> None:
    gpu = Reading("n1", NOW, Source.GPU, "3", "GPU-x", "165", "boot", {"temperature_c": 61, "lost": False, "why": None})
    write(tmp_path, gpu, host(load1=2.5))
    write(tmp_path, host("n2", load1=0.0), node="n2")
    table = read(tmp_path, nodes=("n1", "n2", "n3"))
    assert set(spool.COLUMNS) <= set(table.columns)
    assert str(table["at"].dtype) == "datetime64[ns, UTC]"
    assert table["at"].tolist() == [pd.Timestamp(NOW)] * 3
    assert table["node"].tolist() == ["n1", "n1", "n2"]
    assert [str(device) for device in table["device"]] == ["3", "", ""]
    known = table[["uuid", "serial", "boot_id", "temperature_c", "lost"]].to_dict("records")[0]
    assert list(known.values()) == ["GPU-x", "165", "boot", 61, False]
    assert table["load1"].isna().tolist() == [True, False, False]


def test_nothing_is_an_empty_table_of_the_same_shape(tmp_path: Path) -> None:
    table = read(tmp_path)
    assert list(table.columns) == list(spool.COLUMNS)
    assert str(table["at"].dtype) == "datetime64[ns, UTC]"


plain = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text()


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: name not in spool.COLUMNS), plain))
def test_every_value_survives(values: dict[str, Value]) -> None:
    line = spool._line(host())
    with_values = spool._line(Reading("n1", NOW, Source.HOST, values=values))
    assert "\n" not in with_values
    head = spool._header("n1", "boot") + "\n"
    plain_row, row = spool.parse_lines([head, line + "\n", with_values + "\n"], "x")
    assert {key: value for key, value in row.items() if key not in plain_row} == {
        key: value for key, value in values.items() if value is not None
    }


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    """Files whose hour cannot matter are not opened: this one is no telemetry at all, and nobody complains."""
    for hours in (0, 1, 2):
        write(tmp_path, host(at=NOW - hours * HOUR, load1=float(hours)), at=NOW - hours * HOUR)
    (tmp_path / "telemetry/n1/20260101T23.jsonl").write_bytes(b"\x00" * 100)
    assert read(tmp_path, NOW - 1.2 * HOUR)["load1"].tolist() == [1.0, 0.0]
    assert read(tmp_path, NOW - 0.5 * HOUR)["load1"].tolist() == [0.0]
    assert sorted(path.name for path in (tmp_path / "telemetry/n1").iterdir())[1] == "20260102T01.jsonl"


def test_a_torn_last_line_is_a_writer_at_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, host(load1=1.0))
    with (tmp_path / "telemetry/n1/20260102T03.jsonl").open("a", encoding="ascii") as out:
        out.write('{"at": 17')
    assert read(tmp_path)["load1"].tolist() == [1.0]
    assert caplog.records == []


def test_a_torn_line_swallows_no_header_of_the_next_life(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Power went off in the middle of a write; what follows belongs to another boot and must say so."""
    write(tmp_path, host(load1=1.0), boot="first")
    with (tmp_path / "telemetry/n1/20260102T03.jsonl").open("a", encoding="ascii") as out:
        out.write('{"at": 17')
    write(tmp_path, host(load1=2.0), boot="second")
    table = read(tmp_path)
    assert list(zip(table["boot_id"], table["load1"], strict=True)) == [("first", 1.0), ("second", 2.0)]
    assert [record.getMessage() for record in caplog.records] == [
        f'{tmp_path}/telemetry/n1/20260102T03.jsonl:3: left out, no reading: {{"at": 17'
    ]


@pytest.mark.parametrize("line", [
    '{"schema": "guardctl.telemetry/9", "node": "n1"}', "[]", "{}", "null",
    '{"at": "x", "source": "host", "values": {}}', '{"at": 1, "source": "host", "values": []}', "\x00\x00",
])  # fmt: skip
def test_a_line_that_is_no_reading_is_named_and_left_out(line: str, caplog: pytest.LogCaptureFixture) -> None:
    head, good = spool._header("n1", "b") + "\n", spool._line(host(load1=1.0)) + "\n"
    rows = list(spool.parse_lines([head, good, line + "\n", good], "some.jsonl"))
    assert [row["load1"] for row in rows] == [1.0, 1.0]
    assert caplog.records[0].getMessage().startswith("some.jsonl:3: left out")


def test_readings_under_an_unknown_schema_are_not_guessed_at(caplog: pytest.LogCaptureFixture) -> None:
    head, good = '{"schema": "guardctl.telemetry/9", "node": "n1"}\n', spool._line(host(load1=1.0)) + "\n"
    assert list(spool.parse_lines([head, good], "some.jsonl")) == []
    assert "guardctl.telemetry/9" in caplog.records[0].getMessage()


def test_a_damaged_file_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert list(spool.parse_lines(["x\n"] * 10_000, "some.jsonl")) == []
    assert len(caplog.records) == spool.MAX_WARNINGS
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_a_signal_cannot_pose_as_the_node(tmp_path: Path) -> None:
    write(tmp_path, host(node="n9", boot_id="other", load1=1.0))
    table = read(tmp_path)
    assert (table["node"].tolist(), table["boot_id"].tolist()) == (["n1"], ["boot"])


def test_a_full_disk_is_an_error_that_leaves_no_torn_line(tmp_path: Path) -> None:
    writer = spool.Spool(tmp_path, "n1", "boot")
    writer.append([host(load1=1.0)], NOW)
    file = tmp_path / "telemetry/n1/20260102T03.jsonl"
    size = file.stat().st_size
    with files_up_to(size + 10), pytest.raises(SpoolError, match="No space left") as caught:
        writer.append([host(load1=2.0)], NOW)
    assert str(file) in str(caught.value)
    assert "retention_h" in caught.value.hint
    assert file.stat().st_size == size
    writer.append([host(load1=3.0)], NOW)
    assert read(tmp_path)["load1"].tolist() == [1.0, 3.0]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "telemetry").touch()
    with pytest.raises(SpoolError, match="telemetry"):
        write(tmp_path, host())


def test_a_node_that_is_no_name_reaches_no_path(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        write(tmp_path, host(), node="../../etc")


def test_each_batch_begins_with_a_header(tmp_path: Path) -> None:
    writer = spool.Spool(tmp_path, "n1", "boot")
    for at in (NOW, NOW, NOW + HOUR):
        writer.append([host(at=at)], at)
    write(tmp_path, host(), at=NOW + HOUR, boot="boot2")
    found = [[json.loads(line).get("boot_id") for line in path.read_text(encoding="utf-8").splitlines()]
             for path in sorted((tmp_path / "telemetry/n1").iterdir())]  # fmt: skip
    assert found == [["boot", None, "boot", None], ["boot", None, "boot2", None]]


@given(since_s=st.integers(0, 3700), boot_s=st.integers(0, 3600), first_bytes=st.sampled_from([1, 300, 5000, 10**9]))
def test_the_end_of_a_file_is_enough(since_s: int, boot_s: int, first_bytes: int) -> None:
    """However little is read at first: the same readings, each with the boot that it was made in."""
    begin = NOW.replace(minute=0)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "FIRST_TAIL_BYTES", first_bytes)
        for age_s in range(0, 3600, 300):
            at, boot = begin + timedelta(seconds=age_s), "new" if age_s >= boot_s else "old"
            late = host(at=at - timedelta(seconds=700), number=-age_s)  # a note that waited for the agent
            write(Path(folder), late, host(at=at, number=age_s), at=at, boot=boot)
        table = read(Path(folder), since=begin + timedelta(seconds=since_s))
    fresh = [age_s for age_s in range(0, 3600, 300) if age_s >= since_s]
    notes = [age_s for age_s in range(0, 3600, 300) if age_s - 700 >= since_s]
    numbers = sorted([*fresh, *(-age_s for age_s in notes)])
    assert (sorted(table["number"]) if len(table) else []) == numbers
    boots = dict(zip(map(abs, table["number"]), table["boot_id"], strict=True)) if len(table) else {}
    assert boots == {age_s: "new" if age_s >= boot_s else "old" for age_s in boots}


def test_old_files_go_and_others_stay(tmp_path: Path) -> None:
    for hours in (0, 47, 48, 49, 200):
        write(tmp_path, host(), at=NOW - hours * HOUR)
    assert spool.prune(tmp_path, "n1", 48, NOW) == 2
    assert len(list((tmp_path / "telemetry/n1").iterdir())) == 3
    assert spool.prune(tmp_path, "n2", 48, NOW) == 0


def test_the_age_of_a_spool_is_the_time_since_its_last_write(tmp_path: Path) -> None:
    write(tmp_path, host())
    assert spool.ages(tmp_path, datetime.now(UTC) + timedelta(minutes=5))["n1"] == pytest.approx(300, abs=60)
    assert spool.ages(tmp_path / "none", NOW) == {}
