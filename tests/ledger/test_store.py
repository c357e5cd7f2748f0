import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa

from guardctl.ledger import codec, migrate, schema
from guardctl.ledger.engine import on_network
from guardctl.ledger.store import Ledger
from guardctl.words.errors import LedgerError
from guardctl.words.records import Event, EventKind, State

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def event(node: str = "n1", kind: EventKind = EventKind.SUSPECTED, minutes: float = 0, **more: object) -> Event:
    return Event(node, NOW + timedelta(minutes=minutes), kind, **more)  # type: ignore[arg-type]


def test_an_event_comes_back_as_it_was_with_its_id(ledger: Ledger) -> None:
    full = event(
        why="slow: 0.71 of its peers",
        incident="4k2",
        detail={"relative": 0.71, "at": NOW, "kinds": ["gpu"], "level": "node", "lost": float("nan"), "text": "a\x00b"},
        gpu_uuid="GPU-1",
        serial="s",
        boot_id="b",
        actor="guard@head",
        version="0.1.0",
        policy_hash="abc",
    )
    stored = ledger.append([full, event("n2")])
    assert [each.id for each in stored] == [1, 2]
    [back] = ledger.events(node="n1")
    assert back.detail == {
        "relative": 0.71,
        "at": "2026-01-31T12:00:00Z",
        "kinds": ["gpu"],
        "level": "node",
        "lost": None,
        "text": "ab",
    }
    assert back.at == NOW
    assert (back.why, back.incident, back.gpu_uuid, back.serial) == ("slow: 0.71 of its peers", "4k2", "GPU-1", "s")
    assert (back.boot_id, back.actor, back.version, back.policy_hash) == ("b", "guard@head", "0.1.0", "abc")


def test_events_are_ordered_by_time_and_filtered(ledger: Ledger) -> None:
    ledger.append([event("n2", minutes=5), event("n1", minutes=1, incident="322"), event("n1", minutes=1)])
    assert [(each.node, each.id) for each in ledger.events()] == [("n1", 2), ("n1", 3), ("n2", 1)]
    assert [each.id for each in ledger.events(since=NOW + timedelta(minutes=5))] == [1]
    assert [each.id for each in ledger.events(incident="322")] == [2]
    assert [each.id for each in ledger.events(kinds=[EventKind.CLEARED])] == []
    assert [each.id for each in ledger.events(limit=2)] == [3, 1], "the newest two, oldest first"


def test_all_or_nothing(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        ledger.append([event(), Event("n1", datetime(2026, 1, 1), EventKind.CLEARED)])  # noqa: DTZ001 - the mistake itself
    assert ledger.events() == []
    assert ledger.append([]) == ()


def test_meta_is_kept_and_replaced(ledger: Ledger) -> None:
    assert ledger.meta("num_nodes") is None
    ledger.set_meta("num_nodes", 64)
    ledger.set_meta("num_nodes", {"num": 65})
    assert ledger.meta("num_nodes") == {"num": 65}


def test_there_is_no_call_that_changes_or_removes_an_event() -> None:
    calls = {name for name in dir(Ledger) if not name.startswith("_")}
    assert not [name for name in calls if any(word in name for word in ("delete", "update", "remove", "prune"))]


def test_incident_tags_sort_as_they_were_made(ledger: Ledger) -> None:
    tags = [ledger.new_incident() for _ in range(40)]
    assert tags == sorted(set(tags))
    assert tags[0] == "322"
    assert set("".join(tags)) <= set(codec.ALPHABET)


def test_a_tag_is_its_number() -> None:
    numbers = range(1, 40_000)
    tags = [codec.tag(number) for number in numbers]
    assert [codec.number_of(each) for each in tags] == list(numbers)
    assert min(len(each) for each in tags) == 3
    assert all((len(a), a) < (len(b), b) for a, b in pairwise(tags))
    assert codec.number_of("4o1") is None
    assert codec.number_of("22") is None


def _draw(url: str, count: int) -> list[str]:
    with Ledger.open(url) as ledger:
        tags = []
        for _ in range(count):
            tags.append(ledger.new_incident())
            ledger.append([event(incident=tags[-1])])
        return tags


def test_many_writers_never_share_a_tag_or_lose_an_event(any_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        tags = [tag for drawn in pool.starmap(_draw, [(any_url, 15)] * 4) for tag in drawn]
    assert len(set(tags)) == 60
    with Ledger.open(any_url) as ledger:
        assert {each.incident for each in ledger.events()} == set(tags)


def test_standings_go_on_from_what_was_folded_before(ledger: Ledger, any_url: str) -> None:
    ledger.append([event("n1"), event("n2", EventKind.HELD)])
    assert {name: each.state for name, each in ledger.standings(NOW).items()} == {"n1": State.SUSPECT, "n2": State.HELD}
    with Ledger.open(any_url) as other:
        other.append([event("n1", EventKind.CLEARED, 5), event("n3", minutes=6)])
        assert ledger.standings(NOW + timedelta(hours=1)) == other.standings(NOW + timedelta(hours=1))
        other.append([event("n3", EventKind.RELEASED, 1)])  # older than what is folded already: history came in
        assert ledger.standings(NOW + timedelta(hours=1)) == other.standings(NOW + timedelta(hours=1))
        with Ledger.open(any_url) as fresh:
            assert fresh.standings(NOW + timedelta(hours=1)) == ledger.standings(NOW + timedelta(hours=1))
    assert ledger.standings(NOW)["n1"].state is State.HEALTHY


def test_kinds_of_a_newer_release_are_skipped_counted_and_kept(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Ledger.open(url) as ledger:
        ledger.append([event("n1"), event("n1", EventKind.HELD, 1)])
    with sqlite3.connect(tmp_path / "state" / "ledger.db") as raw:
        raw.execute("UPDATE events SET kind = 'teleported' WHERE id = 2")
    raw.close()
    with Ledger.open(url) as ledger:
        assert [each.id for each in ledger.events()] == [1]
        assert ledger.num_unknown == 1
        assert "1 events of kinds that only a newer guardctl knows were skipped" in caplog.text
        assert ledger.standings(NOW)["n1"].state is State.SUSPECT
        assert [row["kind"] for row in ledger.rows()] == ["suspected", "teleported"]


# --- opening ---


def test_the_tables_are_those_of_the_migrations(any_url: str) -> None:
    assert migrate.upgrade(any_url) == ""
    assert migrate.upgrade(any_url) == migrate.current(any_url) == schema.HEAD
    engine = sa.create_engine(any_url)
    found = sa.inspect(engine)
    assert set(found.get_table_names()) == {*schema.metadata.tables, "alembic_version"}
    for name, table in schema.metadata.tables.items():
        assert [(each["name"], each["nullable"]) for each in found.get_columns(name)] == [
            (column.name, column.nullable) for column in table.columns
        ]
        assert {each["name"] for each in found.get_indexes(name)} == {str(index.name) for index in table.indexes}
    engine.dispose()


def test_head_is_the_newest_migration() -> None:
    from alembic.script import ScriptDirectory

    assert ScriptDirectory(str(migrate.SCRIPTS)).get_current_head() == schema.HEAD


def test_an_up_to_date_ledger_opens_without_alembic(url: str) -> None:
    Ledger.open(url).close()
    code = (
        "import sys; from guardctl.ledger.store import Ledger; "
        "Ledger.open(sys.argv[1]).close(); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, url], check=False).returncode == 0


def test_sqlite_loses_nothing_and_waits(url: str) -> None:
    with Ledger.open(url) as ledger, ledger._read() as connection:
        pragma = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout")
        }
    assert pragma == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 20_000}


def test_network_file_systems_get_no_write_ahead_log(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nhead:/export {tmp_path} nfs4 rw 0 0\n", encoding="utf-8")
    assert on_network(tmp_path / "guard" / "ledger.db", mounts)
    assert not on_network(Path("/var/lib/ledger.db"), mounts)
    assert not on_network(tmp_path / "ledger.db", tmp_path / "absent")


def _trouble(url: str, *, create: bool = True) -> LedgerError:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(url, create=create)
    return caught.value


def test_a_missing_ledger_is_named(tmp_path: Path) -> None:
    error = _trouble(f"sqlite:///{tmp_path}/none.db", create=False)
    assert f"{tmp_path}/none.db" in str(error)
    assert "monitor" in error.hint
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("[observe]\nperiod_s = 30\n" * 400, encoding="utf-8")
    error = _trouble(f"sqlite:///{path}")
    assert str(path) in str(error)
    assert "not a ledger" in error.hint
    assert path.read_text(encoding="utf-8").startswith("[observe]"), "it is left as it was"


def test_a_damaged_ledger_is_named(url: str, tmp_path: Path) -> None:
    with Ledger.open(url) as ledger:
        ledger.append([event(why="x" * 500, minutes=each) for each in range(400)])
    path = tmp_path / "state" / "ledger.db"
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))
    with pytest.raises(LedgerError) as caught, Ledger.open(url) as ledger:
        ledger.standings(NOW)
    assert str(path) in str(caught.value)
    assert "damaged" in caught.value.hint


def test_a_newer_ledger_is_refused_and_untouched(any_url: str) -> None:
    Ledger.open(any_url).close()
    engine = sa.create_engine(any_url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0099'"))
    engine.dispose()
    error = _trouble(any_url)
    assert "0099" in str(error)
    assert "newer guardctl" in error.hint
    assert migrate.current(any_url) == "0099"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    error = _trouble(f"sqlite:///{tmp_path}/file/ledger.db")
    assert f"{tmp_path}/file/ledger.db" in str(error)
    assert "must own" in error.hint


@pytest.mark.parametrize("url", ["ledger.db", "oracle9://x", "sqlite:/nope:x:y@z//", "http://host/x"])
def test_a_bad_url_is_named(url: str) -> None:
    assert url.split(":", maxsplit=1)[0] in str(_trouble(url))


def test_a_server_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'guardctl[postgres]'")
    error = _trouble(f"postgresql+psycopg://guard:secret@/ledger?host={tmp_path}")
    assert "secret" not in str(error)
    assert "server" in error.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_the_right_to_write_is_told_so(url: str, tmp_path: Path) -> None:
    with Ledger.open(url):
        pass
    for each in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        each.chmod(0o755)
    code = (
        "import sys, os; os.setuid(65534)\n"
        "from guardctl.ledger.store import Ledger\nfrom guardctl.words.errors import LedgerError\n"
        "try: Ledger.open(sys.argv[1]).new_incident()\n"
        "except LedgerError as error: print(error, '|', error.hint)"
    )
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code, url], check=False, capture_output=True, text=True, env=env)
    assert "ledger.db" in done.stdout, done.stderr
    assert "must own" in done.stdout


def test_killed_in_the_middle_leaves_whole_transactions(url: str) -> None:
    code = (
        "import sys, os, datetime\n"
        "from guardctl.ledger.store import Ledger\nfrom guardctl.words.records import Event, EventKind\n"
        "ledger = Ledger.open(sys.argv[1]); now = datetime.datetime.now(datetime.UTC)\n"
        "three = [Event('n1', now, EventKind.SUSPECTED)] * 3\n"
        "while True:\n    ledger.append(three); print('.', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acknowledged = sum(1 for _ in zip(child.stdout, range(20), strict=False))
        child.kill()
    with Ledger.open(url) as ledger:
        num_events = len(ledger.events())
    assert num_events % 3 == 0
    assert num_events >= 3 * acknowledged


def test_rows_hold_json_that_others_can_read(url: str, tmp_path: Path) -> None:
    with Ledger.open(url) as ledger:
        ledger.append([event(detail={"b": 1, "a": ("x",)})])
    raw = sqlite3.connect(tmp_path / "state" / "ledger.db")
    [(at, detail)] = raw.execute("SELECT at, detail FROM events").fetchall()
    raw.close()
    assert at == NOW.timestamp() * 1e6
    assert json.loads(detail) == {"a": ["x"], "b": 1}
