"""Step files are a user's input: whatever lies there, the monitor goes on and reads only what fits."""

import json
import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.observe import steps

NOW = datetime(2026, 1, 2, 3, 30, tzinfo=UTC)
SINCE = NOW - timedelta(minutes=6)
AT = NOW.timestamp()
CAP = 2**20
ME = steps.Owner(os.getuid(), frozenset({"n1", "n2"}))
HEAD = {"schema": "guardctl.steps/1", "job_id": "7", "rank": 0, "node": "n1", "gpu": 2, "stage": None}


def step(number: int, **more: object) -> str:
    return json.dumps({"step": number, "busy_s": 0.5, "step_s": 0.6, "at": AT, **more})


def job(state: Path, *lines: str, head: dict[str, object] | str = HEAD, name: str = "rank0.jsonl") -> Path:
    folder = state / "steps/7"
    folder.mkdir(parents=True, exist_ok=True)
    first = head if isinstance(head, str) else json.dumps(head)
    (folder / name).write_text("".join(line + "\n" for line in (first, *lines)), encoding="utf-8")
    return folder / name


def read(state: Path, owner: steps.Owner = ME, max_bytes: int = CAP) -> tuple[pd.DataFrame, list[str]]:
    return steps.read(state, {"7": owner}, SINCE, max_bytes)


def test_a_row_per_step_and_rank(tmp_path: Path) -> None:
    job(tmp_path, step(1), step(2, tokens=4096))
    job(tmp_path, step(1, step_s=None), head={**HEAD, "node": "n2", "gpu": None, "stage": 1}, name="rank11.jsonl")
    table, warnings = read(tmp_path)
    assert warnings == []
    assert list(table.columns) == list(steps.COLUMNS)
    assert str(table["at"].dtype) == "datetime64[ns, UTC]"
    by_rank = table.sort_values(["rank", "step"])
    assert by_rank["rank"].tolist() == [0, 0, 11]
    assert by_rank["node"].tolist() == ["n1", "n1", "n2"]
    assert by_rank["busy_s"].tolist() == [0.5] * 3
    assert by_rank["step_s"].isna().tolist() == [False, False, True]
    assert by_rank["tokens"].tolist()[1] == 4096


def test_a_job_without_a_step_timer_is_no_trouble(tmp_path: Path) -> None:
    table, warnings = read(tmp_path)
    assert (len(table), warnings, list(table.columns)) == (0, [], list(steps.COLUMNS))


def test_older_steps_are_left_out(tmp_path: Path) -> None:
    job(tmp_path, step(1, at=SINCE.timestamp() - 1), step(2, at=SINCE.timestamp()))
    assert read(tmp_path)[0]["step"].tolist() == [2]


BAD_LINES = [
    "[" * 200_000, '{"step": 1, "busy_s": 1.0, "at": 1' + "0" * 400 + "}", '{"step": 1' + "0" * 5000 + "}",
    step(1, busy_s=float("nan")), step(1, busy_s=float("inf")), step(1, busy_s=-1), step(1, busy_s="1"),
    step(1, busy_s=True), step(1, busy_s=10**400), step(1, busy_s=1e9), step(1, at=-1), step(1, at=float("inf")),
    step(1, at=None), step(-1), '{"busy_s": 1, "at": 1}', "null", "[]", "x", "", "\x00", '{"step": 1, "busy_s": 0.5',
]  # fmt: skip


@pytest.mark.parametrize("line", BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_line_that_makes_no_sense_is_named_and_left_out(tmp_path: Path, line: str) -> None:
    file = job(tmp_path, step(1), line, step(3))
    table, warnings = read(tmp_path)
    assert sorted(table["step"]) == [1, 3]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{file}: line 2 from the end: no step")


@pytest.mark.parametrize("head", [
    "x", "[]", "[" * 3000, "{}", {**HEAD, "schema": "guardctl.steps/9"}, {**HEAD, "node": "n7"},
    {**HEAD, "node": ["n1"]}, {**HEAD, "node": "../n1"}, {"schema": "guardctl.steps/1"},
])  # fmt: skip
def test_a_file_that_speaks_for_another_node_says_nothing(tmp_path: Path, head: dict[str, object] | str) -> None:
    job(tmp_path, step(1), head=head)
    table, warnings = read(tmp_path)
    assert len(table) == 0
    assert "no header, or not a node of this job" in warnings[0]


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_no_bytes_are_too_odd(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = job(Path(folder), step(1))
        with file.open("ab") as out:
            out.write(b"\n".join(lines))
        table, _ = read(Path(folder))
        assert 1 in table["step"].tolist()


# --- what is opened -------------------------------------------------------------------------------------------------


def test_links_pipes_and_folders_are_not_followed_nor_waited_for(tmp_path: Path) -> None:
    real = job(tmp_path, step(1))
    real.rename(tmp_path / "elsewhere.jsonl")
    real.symlink_to(tmp_path / "elsewhere.jsonl")
    os.mkfifo(real.with_name("rank1.jsonl"))
    real.with_name("rank2.jsonl").mkdir()
    table, warnings = read(tmp_path)
    assert len(table) == 0
    assert [warning.split(": ")[0].rpartition("/")[2] for warning in warnings] == [
        "rank0.jsonl", "rank1.jsonl", "rank2.jsonl"]  # fmt: skip


def test_a_job_folder_that_is_a_link_or_a_file_is_left_out(tmp_path: Path) -> None:
    job(tmp_path, step(1))
    (tmp_path / "steps/7").rename(tmp_path / "elsewhere")
    (tmp_path / "steps/7").symlink_to(tmp_path / "elsewhere")
    table, warnings = read(tmp_path)
    assert (len(table), len(warnings)) == (0, 1)
    (tmp_path / "steps/7").unlink()
    (tmp_path / "steps/7").touch()
    assert len(read(tmp_path)[1]) == 1


def test_files_of_somebody_else_are_left_out(tmp_path: Path) -> None:
    job(tmp_path, step(1))
    table, warnings = read(tmp_path, steps.Owner(os.getuid() + 1, ME.nodes))
    assert len(table) == 0
    assert "does not belong to the job's user" in warnings[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_one_file_of_somebody_else_in_the_users_folder_is_left_out(tmp_path: Path) -> None:
    job(tmp_path, step(1))
    os.chown(job(tmp_path, step(1), name="rank1.jsonl"), 65534, 65534)
    table, warnings = read(tmp_path)
    assert table["rank"].tolist() == [0]
    assert "belongs to user 65534" in warnings[0]


@pytest.mark.parametrize("name", ["rank0.jsonl.17", "rank.jsonl", "rank-1.jsonl", "rank99999999.jsonl", "notes.txt"])
def test_other_files_are_not_opened(tmp_path: Path, name: str) -> None:
    job(tmp_path, "x", name=name)
    table, warnings = read(tmp_path)
    assert (len(table), warnings) == (0, [])


@pytest.mark.parametrize("job_id", ["../steps/7", "", ".", "7/../7"])
def test_a_job_id_that_is_none_reaches_no_path(tmp_path: Path, job_id: str) -> None:
    job(tmp_path, step(1))
    table, warnings = steps.read(tmp_path, {job_id: ME}, SINCE, CAP)
    assert (len(table), warnings) == (0, [])


# --- how much is read -----------------------------------------------------------------------------------------------


def test_over_the_cap_the_newest_steps_are_read(tmp_path: Path) -> None:
    job(tmp_path, *(step(number) for number in range(1000)))
    table, warnings = read(tmp_path, max_bytes=4096)
    found = sorted(table["step"])
    assert warnings == []
    assert 10 < len(found) < 100
    assert found == list(range(1000 - len(found), 1000))


def test_reading_goes_back_as_far_as_was_asked_for(tmp_path: Path) -> None:
    """More than is read at first, all of it recent: the tail is read again, longer; none is read twice."""
    number = steps.FIRST_TAIL_BYTES // len(step(1)) * 3
    job(tmp_path, *(step(each) for each in range(number)))
    table, _ = read(tmp_path, max_bytes=2**24)
    assert sorted(table["step"]) == list(range(number))


def test_a_line_that_is_being_written_waits(tmp_path: Path) -> None:
    file = job(tmp_path, step(1))
    with file.open("a", encoding="ascii") as out:
        out.write(step(2)[:20])
    table, warnings = read(tmp_path)
    assert (table["step"].tolist(), warnings) == ([1], [])


def test_rubbish_fills_neither_log_nor_memory(tmp_path: Path) -> None:
    job(tmp_path, *["x"] * 50_000)
    assert len(read(tmp_path)[1]) == steps.MAX_WARNINGS
