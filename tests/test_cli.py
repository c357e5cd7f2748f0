"""The commands as a person meets them, on a machine without Slurm: help, exit codes, messages, and what they load."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from guardctl import cli
from guardctl.ledger.store import Ledger
from guardctl.words.policy import Policy
from guardctl.words.policy_text import render
from guardctl.words.records import Event, EventKind
from tests import cli_surface

pytestmark = pytest.mark.slow  # starts many processes

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "docs" / "examples" / "model.toml"
HEAVY = {"pandas", "numpy", "torch", "sqlalchemy", "pydantic", "matplotlib", "pyarrow", "alembic"}
COMMANDS = dict(cli_surface.commands())
NOW = datetime.now(UTC)
INCIDENT = "4k2"


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `guardctl` on a machine where no Slurm command is found."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("GUARDCTL_CONFIG", raising=False)

    def guardctl(*words: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["guardctl", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        code = ended.value.code
        return Said(code if isinstance(code, int) else 0, said.out, said.err)

    return guardctl


def site(folder: Path) -> list[str]:
    """The words that name a policy of its own with a state folder in `folder`."""
    folder.mkdir(exist_ok=True)
    config = folder / "guardctl.toml"
    config.write_text(render(Policy(state_dir=folder / "state", kill_switch=folder / "stop")))
    return ["--config", str(config)]


def event(hours_ago: float, kind: EventKind, why: str, incident: str | None = INCIDENT, **detail: Any) -> Event:
    at = NOW - timedelta(hours=hours_ago)
    return Event("n7", at, kind, why, incident, detail, actor="guard@head", version="0.1.0", policy_hash="9f2c41d07ab3")


REASON = f"guardctl:{INCIDENT} slow: 1.4x its peers"
EVENTS = (
    event(30, EventKind.SUSPECTED, "slow", None),
    event(29, EventKind.DRAIN_INTENDED, REASON, reason=REASON, user="guard"),
    event(29, EventKind.DRAINED, REASON, reason=REASON, user="guard", at=(NOW - timedelta(hours=29)).isoformat()),
    event(28, EventKind.QUARANTINED, "empty", reservation="guardctl_1"),
    event(28, EventKind.SWEEP_STARTED, "two tests", sweep="5d0a2bk7"),
    event(27, EventKind.SWEEP_FAILED, "GPU 3: 61 % of its peers, für alle \u2192 slow"),
)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """An exported ledger: one node that was drained, swept and convicted."""
    folder = tmp_path / "first"
    words = site(folder)
    with Ledger.open(f"sqlite:///{folder}/state/ledger.db") as ledger:
        ledger.append(EVENTS)
    path = tmp_path / "ledger.jsonl"
    argv = [sys.executable, "-c", "from guardctl.cli import main; main()", *words, "ledger", "export"]
    path.write_bytes(subprocess.run(argv, capture_output=True, check=True, timeout=60).stdout)
    return path


# --- help and surface -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_help_with_an_example(run: Run, words: str) -> None:
    said = run(*words.split()[1:], "--help")
    assert said.code == 0
    assert "Usage:" in said.out
    if not hasattr(COMMANDS[words], "commands"):
        assert "Example" in said.out
        assert words in " ".join(said.out.split())


def test_the_surface_is_as_promised() -> None:
    promised = (ROOT / "tests" / "cli_surface.txt").read_text(encoding="utf-8")
    assert cli_surface.text() == promised, f"a change on purpose? {cli_surface.HEAD.removeprefix('# Made by: ')}"


def test_the_version(run: Run) -> None:
    assert run("--version").out.startswith("guardctl 0.")


# --- exit codes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["nonsense"], ["hostlist"], ["hostlist", "-N", "0"], ["status", "--nope"], ["explain"]]
)
def test_wrong_usage_is_2(run: Run, words: list[str]) -> None:
    said = run(*words)
    assert said.code == 2
    assert "Usage:" in said.err
    assert said.out == ""


def test_a_wrong_file_is_2_and_says_where(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "guardctl.toml"
    config.write_text("[judge]\nwindos = 5\n")
    said = run("--config", config, "status")
    assert (said.code, said.out) == (2, "")
    assert said.err == f"guardctl: {config}:2: judge.windos: no such key; the nearest is `windows`\n"
    said = run("--config", tmp_path / "none.toml", "status")
    assert said.code == 2
    assert "  try: `guardctl init` writes a policy\n" in said.err


@pytest.mark.parametrize(
    "words",
    [["status"], ["monitor", "--once"], ["monitor", "--dry-run"], ["hostlist", "-N", "2"], ["sweep", "run", "n1"],
     ["drain", "n1", "--why", "slow"], ["init", "--output", "-"]],
)  # fmt: skip
def test_no_slurm_is_3_and_says_how_to_get_it(run: Run, tmp_path: Path, words: list[str]) -> None:
    said = run(*site(tmp_path / "site"), *words)
    assert (said.code, said.out) == (3, "")
    assert "command not found" in said.err
    assert "  try: Slurm's client commands are not on PATH: `apt-get install slurm-client`" in said.err


def test_a_damaged_ledger_is_1(run: Run, tmp_path: Path) -> None:
    words = site(tmp_path / "site")
    (tmp_path / "site" / "state").mkdir()
    (tmp_path / "site" / "state" / "ledger.db").write_bytes(b"this is no database" * 100)
    said = run(*words, "ledger", "history")
    assert (said.code, said.out) == (1, "")
    assert "ledger.db" in said.err


def test_doctor_says_what_is_missing(run: Run, tmp_path: Path) -> None:
    said = run(*site(tmp_path / "site"), "doctor", "--json")
    checks = {each["name"]: each for each in json.loads(said.out)["checks"]}
    assert said.code == 2
    assert checks["policy"]["mark"] == "ok"
    assert checks["Slurm"]["mark"] == "bad"
    assert "apt-get install slurm-client" in checks["Slurm"]["fix"]


def test_init_refuses_to_overwrite(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "guardctl.toml"
    output.write_text("mine")
    said = run("init", "--output", output)
    assert said.code == 2
    assert f"{output} exists" in said.err
    assert "--force" in said.err
    assert output.read_text() == "mine"
    assert run("init", "--output", output, "--force").code == 3  # and without Slurm nothing is written over it
    assert output.read_text() == "mine"


# --- plan -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    path = tmp_path / "rates.json"
    path.write_text('{"gpus": 12, "rates": {"3": 2.0}}')
    return path


@pytest.fixture
def no_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy that cannot be read: what needs none goes on."""
    path = tmp_path / "broken.toml"
    path.write_text("[")
    monkeypatch.chdir(tmp_path)
    return path


def test_a_plan_from_rates_needs_nothing_else(run: Run, rates: Path, no_policy: Path) -> None:
    said = run("--config", no_policy, "plan", "make", "--model", MODEL, "--rates", rates, "--json")
    assert (said.code, said.err) == (0, "")
    plan = json.loads(said.out)
    assert sum(each["micro_batches"] for each in plan["pipelines"]) == 24
    assert sorted(path.name for path in no_policy.parent.iterdir()) == ["broken.toml", "rates.json"]


def test_a_plan_as_a_table(run: Run, rates: Path) -> None:
    said = run("plan", "make", "--model", MODEL, "--rates", rates)
    assert (said.code, said.err) == (0, "")
    assert "pipeline" in said.out.lower()


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"gpus": 12}', '{"gpus": "many", "rates": {}}', '{"gpus": 12, "rates": {"a": 1}}',
     '{"gpus": 12, "rates": {"3": null}}', '{"gpus": 12, "rates": [2]}', '{"gpus": 12, "rates": {"12": 2.0}}',
     '{"gpus": 12, "rates": {"1": -1}}', '{"gpus": 12, "rates": {"1": NaN}}', '{"gpus": 0, "rates": {}}',
     '{"gpus": -4, "rates": {}}', '{"gpus": 1e400, "rates": {}}'],
)  # fmt: skip
def test_bad_rates_name_the_file(run: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "rates.json"
    path.write_text(text)
    said = run("plan", "make", "--model", MODEL, "--rates", path, "--json")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"guardctl: {path}")


def test_rates_that_are_no_file(run: Run, tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        said = run("plan", "make", "--model", MODEL, "--rates", path)
        assert said.code == 2
        assert said.err.startswith(f"guardctl: {path}: ")
    said = run("plan", "make", "--model", MODEL)
    assert said.code == 2
    assert "give either --hosts or --rates" in said.err


# --- the ledger -----------------------------------------------------------------------------------------------------


def test_the_ledger_moves_whole(run: Run, tmp_path: Path, history: Path) -> None:
    words = site(tmp_path / "second")
    assert run(*words, "ledger", "import", history).out == f"{len(EVENTS)} events added\n"
    assert run(*words, "ledger", "import", history).out == "0 events added\n"
    assert run(*words, "ledger", "export").out == history.read_text(encoding="utf-8")
    said = run(*words, "ledger", "history", "--node", "n7", "--limit", "2")
    assert [line.split("] ")[-1] for line in said.out.splitlines()] == [each.why for each in EVENTS[-2:]]
    assert run(*words, "ledger", "upgrade").out.endswith(": up to date\n")


def test_an_import_that_is_no_export(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"schema": "guardctl.event/1"}\n')
    words = site(tmp_path / "site")
    said = run(*words, "ledger", "import", path)
    assert said.code == 2
    assert said.err.startswith(f"guardctl: {path}:1: ")
    assert run(*words, "ledger", "import", tmp_path / "none").code == 2
    assert run(*words, "ledger", "export").out == ""


def test_explain(run: Run, tmp_path: Path, history: Path) -> None:
    words = site(tmp_path / "second")
    run(*words, "ledger", "import", history)
    told = run(*words, "explain", INCIDENT)
    assert told.code == 0
    assert "61 % of its peers" in told.out
    assert run(*words, "explain", f"guardctl:{INCIDENT}", "--json").code == 0
    said = run(*words, "explain", "zz9")
    assert (said.code, said.out) == (2, "")
    assert said.err == "guardctl: the ledger knows no node and no incident 'zz9'\n  try: `guardctl status` lists both\n"


@pytest.mark.parametrize(
    ("form", "name", "holds"),
    [("html", "x.html", "<!doctype html>"), ("markdown", "x.md", "n7"), ("json", "x.json", '"guardctl.report/1"'),
     ("metrics", "x.prom", "# TYPE guardctl_")],
)  # fmt: skip
def test_a_report_goes_on_without_slurm(
    run: Run, tmp_path: Path, history: Path, form: str, name: str, holds: str
) -> None:
    words = site(tmp_path / "second")
    run(*words, "ledger", "import", history)
    said = run(*words, "report", "--format", form)
    assert said.code == 0
    assert "command not found" in said.err
    assert "the report goes on without the state of the cluster" in " ".join(said.err.split())
    assert holds in said.out
    written = run(*words, "report", "--output", tmp_path / name)
    assert (written.code, written.out) == (0, "")
    assert holds in (tmp_path / name).read_text(encoding="utf-8")  # the name alone says what is wanted


def test_a_report_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    said = run(*site(tmp_path / "site"), "report", "--output", tmp_path / "none" / "x.md")
    assert said.code == 1
    assert "No such file or directory" in said.err


# --- what is loaded -------------------------------------------------------------------------------------------------


def loaded(code: str) -> set[str]:
    """The top-level modules in a Python that ran `code`."""
    code += "\nimport sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.splitlines()[-1].split())


def test_help_loads_nothing_heavy() -> None:
    assert not HEAVY & loaded("import guardctl.cli.app")


def test_the_agent_is_small_also_while_it_works(tmp_path: Path) -> None:
    """A pass of the whole command: it runs on every node, beside the jobs."""
    words = [*site(tmp_path / "site"), "agent", "--once", "--node", "n1", "--sysfs", str(tmp_path)]
    text = (tmp_path / "site" / "guardctl.toml").read_text().replace("/run/guardctl", str(tmp_path / "run"))
    (tmp_path / "site" / "guardctl.toml").write_text(text)
    main = "from guardctl.cli import main\ntry: main()\nexcept SystemExit: pass"
    found = loaded(f"import sys; sys.argv = {['guardctl', *words]!r}\n{main}")
    assert list((tmp_path / "site" / "state" / "telemetry" / "n1").glob("*.jsonl"))
    assert not (HEAVY - {"pydantic"}) & found
