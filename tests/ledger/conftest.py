import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from guardctl.ledger.store import Ledger

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state/ledger.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state/ledger.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def ledger(any_url: str) -> Iterator[Ledger]:
    with Ledger.open(any_url) as opened:
        yield opened


def _as_postgres(*argv: str | Path) -> None:
    user = {"user": "postgres"} if os.geteuid() == 0 else {}
    subprocess.run(argv, check=True, capture_output=True, timeout=120, cwd="/", **user)  # type: ignore[call-overload]


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A real PostgreSQL of our own on a Unix socket, gone after the session; gives the socket's folder."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'guardctl[postgres]'")
    if not BINARIES:
        pytest.skip("no PostgreSQL server on this machine")
    binaries = BINARIES[-1].parent
    folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/guardctl-pg-XXXXXX"], text=True).strip())
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    _as_postgres(binaries / "initdb", "-D", folder / "data", "-U", "guard", "-A", "trust", "-N")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    log = folder / "log"
    _as_postgres(binaries / "pg_ctl", "-D", folder / "data", "-l", log, "-o", options, "-w", "start")
    yield folder
    _as_postgres(binaries / "pg_ctl", "-D", folder / "data", "-m", "fast", "-w", "stop")
    shutil.rmtree(folder)


@pytest.fixture
def postgres_url(postgres_server: Path) -> Iterator[str]:
    name = "ledger"
    _as_postgres(BINARIES[-1].parent / "createdb", "-h", postgres_server, "-U", "guard", name)
    yield f"postgresql+psycopg://guard@/{name}?host={postgres_server}"
    _as_postgres(BINARIES[-1].parent / "dropdb", "-h", postgres_server, "-U", "guard", name)
