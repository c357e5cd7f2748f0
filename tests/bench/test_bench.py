"""The benchmarks at a tiny size: they run, and what they time does what it should."""

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from guardctl.words.records import ActionKind
from tests.bench import __main__ as bench
from tests.bench import agent, commands, document, ledger, processes, steptimer, tick, world

pytestmark = pytest.mark.slow  # starts many processes


def test_costs_count_what_a_command_leaves_behind() -> None:
    """A grandchild that outlives its parent and then works for 0.2 s."""
    spin = "import time\nwhile time.process_time() < 0.2: pass"
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {spin!r}])"
    ((bare,), (busy,)) = processes.costs([[sys.executable, "-c", "print(7)"], [sys.executable, "-c", orphan]], 1)
    assert bare.stdout == "7\n"
    assert busy.cpu_s > 0.2


def test_hook_and_help() -> None:
    found = commands.hook(runs=3)
    assert found["runs"] == 3
    assert 0 < found["prolog_cpu_ms_over_python"] < 5000
    assert found["prolog_wall_ms_p50"] > 0
    assert commands.cli_help(runs=1)["cpu_s"] > 0


def test_tick(tmp_path: Path) -> None:
    assert tick.measure([4, 8], tries=1)["nodes"] == [4, 8]
    now, policy = datetime.now(UTC), world.policy(tmp_path)
    assert world.write_spool(policy, 8, now) > 8 * 9 * 900 * world.NUM_GPUS
    world.write_steps(policy, 8, now)
    seconds, verdicts, actions = tick.one_pass(tmp_path, 8, now)
    assert seconds > 0
    assert [verdict.node for verdict in verdicts] == [world.names(8)[world.SLOW_NODE]]
    assert [action.kind for action in actions] == [ActionKind.SUSPECT]


def test_ledger_and_steptimer() -> None:
    found = ledger.measure(2000)
    assert found["events"] == 2000
    assert 0 < found["next_fold_s"] < found["first_fold_s"]
    assert 0 < steptimer.measure(500, tries=1)["us_per_step"] < 10_000


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the lab's NVML library: apt-get install gcc")
def test_agent() -> None:
    found = agent.measure(passes=3, tries=1)
    assert found["cpu_ms_per_pass"] > 0
    assert 10 < found["rss_mib"] < 100


def test_the_files_keep_what_was_not_measured_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = {"schema": document.SCHEMA, "planner": {"cases": 12, "within": [0.5, 1]}, "steptimer": {"us_per_step": 99},
           "machines": {}}  # fmt: skip
    (tmp_path / "benchmarks.json").write_text(json.dumps(old))
    bench.main(["steptimer", "--docs", str(tmp_path)])
    whole = json.loads((tmp_path / "benchmarks.json").read_text())
    assert whole["planner"] == old["planner"]
    assert 0 < whole["steptimer"]["us_per_step"] < 10_000
    assert whole["machines"]["steptimer"]["cores"] >= 1
    page = (tmp_path / "benchmarks.md").read_text()
    assert "## planner" in page
    assert "| `within` | 0.5 / 1 |" in page
    assert f"Python {sys.version.split()[0]}." in page
    assert "us_per_step" in capsys.readouterr().out


def test_every_number_says_what_it_is() -> None:
    assert set(bench.BENCHES) == set(document.MEANING)
    whole = json.loads((bench.DOCS / "benchmarks.json").read_text())
    for key, name, _, words in document.rows({key: whole[key] for key in bench.BENCHES}):
        assert words, f"{key}.{name}"


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["tock"])
    assert "no such benchmark: tock" in capsys.readouterr().err
