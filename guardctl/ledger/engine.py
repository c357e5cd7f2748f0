"""The door to the database: how SQLite is set up, and how a database's error becomes one that says what to do.

SQLite loses nothing in a crash (`synchronous=FULL`) and waits for another writer (`busy_timeout`). The write-ahead log
lets readers go on while the monitor writes, but it needs memory shared between the processes: on a network file
system it can lose data, so there the plain rollback journal is kept.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event as hooks
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from guardctl.words.errors import LedgerError, UnavailableError

BUSY_MS = 20_000
MOUNTS = Path("/proc/self/mounts")
NETWORK = ("nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "ceph", "9p", "afs", "wekafs", "glusterfs", "fuse", "pvfs")
ADVICE = {
    "not a database": "this file is not a ledger; name another one with `ledger` in the policy, or move it away",
    "malformed": "the file is damaged: move it away and restore a backup with `guardctl ledger import`",
    "locked": "another process has held the ledger for too long; look for a stuck guardctl",
    "readonly": "the user that runs guardctl must own the file and its folder",
    "unable to open": "the user that runs guardctl must own the file and its folder",
    "full": "the file system is full; nothing was written",
    "connect": "is the database server up, and may this user log in?",
}


def connect(url: str, *, create: bool) -> sa.Engine:
    """An engine for `url`. Raises LedgerError (bad URL, missing file) or UnavailableError (missing driver)."""
    parsed = parse(url)
    path = file_of(parsed)
    if path is not None:
        _prepare(path, create=create)
    try:
        engine = sa.create_engine(parsed, pool_pre_ping=path is None)
    except NoSuchModuleError as error:
        raise LedgerError(
            f"ledger {name_of(parsed)}: {error}", hint="sqlite:///FILE or postgresql+psycopg://"
        ) from error
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"ledger {name_of(parsed)} needs the module {error.name}", hint="pip install 'guardctl[postgres]'"
        ) from error
    if engine.dialect.name == "sqlite":
        _set_up_sqlite(engine, wal=path is not None and not on_network(path))
    return engine


def parse(url: str) -> sa.URL:
    """The parts of a URL. Raises LedgerError."""
    try:
        return sa.make_url(url)
    except (ArgumentError, ValueError) as error:
        raise LedgerError(
            f"ledger {url!r} is not a database URL", hint="sqlite:////var/lib/guardctl/ledger.db, for example"
        ) from error


def name_of(url: sa.URL) -> str:
    """What errors call the ledger: the path of a file, or the URL without its password."""
    path = file_of(url)
    return str(path) if path else url.render_as_string(hide_password=True)


def file_of(url: sa.URL) -> Path | None:
    """The file of an SQLite URL; None for a server or for memory."""
    if url.get_backend_name() != "sqlite" or url.database in {None, "", ":memory:"}:
        return None
    return Path(str(url.database))


def _prepare(path: Path, *, create: bool) -> None:
    if not create and not path.exists():
        raise LedgerError(f"{path}: there is no ledger", hint="`guardctl monitor --once` begins one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"{path}: its folder cannot be made: {error}", hint=ADVICE["unable to open"]) from error


def _set_up_sqlite(engine: sa.Engine, *, wal: bool) -> None:
    @hooks.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, also around CREATE TABLE
        connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        connection.execute("PRAGMA synchronous=FULL")
        _set_journal(connection, wal=wal)

    @hooks.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        # A writer takes the lock at once: read first and write later, and two monitors deadlock.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _set_journal(connection: sqlite3.Connection, *, wal: bool) -> None:
    """Ask for the write-ahead log where it is safe; a reader without the right to write leaves all as it is."""
    wanted = "wal" if wal else "delete"
    try:
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != wanted:
            connection.execute(f"PRAGMA journal_mode={wanted}").fetchone()
    except sqlite3.OperationalError as error:
        if "not a database" in str(error) or "malformed" in str(error):
            raise


def on_network(path: Path, mounts: Path = MOUNTS) -> bool:
    """Whether `path` lies on a network file system, by the longest mount point above it; unknown counts as no."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    parts = [line.split() for line in lines]
    target = path.parent.resolve()
    above = [(len(each[1]), each[2]) for each in parts if len(each) > 2 and target.is_relative_to(each[1])]  # noqa: PLR2004 - device, mount point, type
    return max(above, default=(0, ""))[1].startswith(NETWORK)


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Turn what the database raises into a `LedgerError` that names the ledger and the next step."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        words = _words(error)
        hint = next((advice for part, advice in ADVICE.items() if part in words), "")
        raise LedgerError(f"ledger {name}: {words}", hint=hint) from error


def _words(error: Exception) -> str:
    origin = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return " ".join(str(origin).split())
