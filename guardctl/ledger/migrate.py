"""From any older ledger to the tables of this release, by Alembic, without an alembic.ini.

A ledger that is already up to date costs one query: Alembic is not even imported.
"""

from pathlib import Path

import sqlalchemy as sa

from guardctl.ledger.engine import connect, guarded, name_of
from guardctl.ledger.schema import HEAD
from guardctl.words.errors import LedgerError

SCRIPTS = Path(__file__).parent / "migrations"
LOCK = 0x67756172  # PostgreSQL advisory lock: one migration or append at a time


def upgrade(url: str) -> str:
    """Bring the ledger at `url` to this release, creating it where it is missing; gives the revision it had before.

    Raises LedgerError: also when the ledger is newer than this release.
    """
    engine = connect(url, create=True)
    try:
        return bring_up(engine)
    finally:
        engine.dispose()


def current(url: str) -> str:
    """The revision of the ledger at `url`; "" for a database without our tables. Raises LedgerError."""
    engine = connect(url, create=False)
    try:
        with guarded(name_of(engine.url)), engine.connect() as connection:
            return revision(connection)
    finally:
        engine.dispose()


def bring_up(engine: sa.Engine) -> str:
    """As `upgrade`, for an engine that is open already."""
    name = name_of(engine.url)
    with guarded(name), engine.connect() as connection:
        before = revision(connection)
    if before == HEAD:
        return before
    with guarded(name), engine.execution_options(writes=True).begin() as connection:
        lock(connection)
        before = revision(connection)  # another process may have been quicker
        _run(connection, before, name)
    return before


def revision(connection: sa.Connection) -> str:
    """The revision that the database says it is at; "" if it has none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return ""
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() or ""


def lock(connection: sa.Connection) -> None:
    """Hold off other writers until this transaction ends; SQLite's BEGIN IMMEDIATE has done so already."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})


def _run(connection: sa.Connection, before: str, name: str) -> None:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(SCRIPTS))
    known = {script.revision for script in scripts.walk_revisions()}
    if before and before not in known:
        raise LedgerError(
            f"ledger {name} is at revision {before}, newer than this guardctl knows ({HEAD})",
            hint="install the newer guardctl here too; nothing was changed",
        )
    steps = lambda rev, _context: scripts._upgrade_revs("head", rev)  # noqa: E731, SLF001 - what alembic.command.upgrade itself calls
    with EnvironmentContext(Config(), scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, target_metadata=None)
        environment.run_migrations()
