"""The wheel: what an installation holds beside the code, and that it works without the checkout."""

import importlib.util
import json
import os
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
# how pip says that it cannot reach an index, or that the index does not have what builds the wheel
UNREACHABLE = (
    "No matching distribution found for hatchling",
    "connection broken",
    "Failed to establish a new connection",
)
TRY_IT = """
import json, sys
from datetime import UTC, datetime, timedelta
import guardctl
from guardctl.ledger.store import Ledger
from guardctl.report import page
from guardctl.report.summary import summary
from guardctl.sweep import files
from guardctl.words.records import Event, EventKind
now = datetime.now(UTC)
with Ledger.open("sqlite:///" + sys.argv[1]) as ledger:
    ledger.append([Event("n1", now - timedelta(hours=1), EventKind.HELD, "by hand")])
    standings, events = ledger.standings(now), ledger.events()
html = page.html(summary(events, standings, now - timedelta(days=7), now))
found = {"package": guardctl.__file__, "folder": str(files.folder()), "state": standings["n1"].state, "html": html}
print(json.dumps(found))
"""


def run(*argv: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False, cwd="/", env={**clean, **env})


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """With what is installed here, or in an environment that pip makes for it."""
    if importlib.util.find_spec("hatchling") and importlib.util.find_spec("build"):
        return run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    return run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--disable-pip-version-check", "-w", folder, ROOT)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with guardctl from its wheel, and nothing of what it depends on."""
    wheels, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    done = build(wheels)
    if done.returncode != 0 and any(words in done.stderr for words in UNREACHABLE):
        pytest.skip(
            "hatchling, which builds the wheel, is not here and no package index answers: pip install hatchling build"
        )
    assert done.returncode == 0, done.stderr
    (wheel,) = wheels.glob("guardctl-*.whl")
    done = run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", target, wheel)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def tried(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the installed copy says of itself, in a Python that prefers it to the checkout."""
    ledger = tmp_path_factory.mktemp("state") / "ledger.db"
    done = run(sys.executable, "-P", "-c", TRY_IT, ledger, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def distribution(installed: Path) -> Distribution:
    (found,) = (each for each in distributions(path=[str(installed)]) if each.name == "guardctl")
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", ["slurm", "sweeps"])
def test_the_scripts_lie_inside(installed: Path, name: str) -> None:
    inside = contents(installed / "guardctl" / "_share" / name)
    outside = contents(ROOT / name)
    assert inside == outside
    wanted = {"slurm": {"prolog.sh", "epilog.sh", "health.sh"}, "sweeps": {"gemm_burnin.sbatch", "gemm_burnin.py"}}[
        name
    ]
    assert wanted <= inside.keys()


def test_every_module_lies_inside_and_no_test(installed: Path) -> None:
    package = installed / "guardctl"
    inside = {path.relative_to(package) for path in package.rglob("*.py") if "_share" not in path.parts}
    assert inside == {path.relative_to(ROOT / "guardctl") for path in (ROOT / "guardctl").rglob("*.py")}
    assert (package / "py.typed").is_file()
    assert not (installed / "tests").exists()


def test_sweeps_are_found_in_the_installation(installed: Path, tried: dict[str, Any]) -> None:
    assert Path(tried["package"]).is_relative_to(installed)
    assert Path(tried["folder"]) == installed / "guardctl" / "_share" / "sweeps"


def test_migrations_and_templates_work_from_it(tried: dict[str, Any]) -> None:
    assert tried["state"] == "HELD"
    assert tried["html"].lower().startswith("<!doctype html>")
    assert "n1" in tried["html"]


def test_the_entry_points(installed: Path) -> None:
    scripts = {each.name: each.value for each in distribution(installed).entry_points.select(group="console_scripts")}
    assert scripts == {"guardctl": "guardctl.cli:main", "guardctl-hook": "guardctl.hook:main"}
    done = run(installed / "bin" / "guardctl", "--version", PYTHONPATH=str(installed))
    assert (done.returncode, done.stdout) == (0, f"guardctl {distribution(installed).version}\n"), done.stderr
    done = run(installed / "bin" / "guardctl-hook", PYTHONPATH=str(installed))
    assert (done.returncode, done.stderr) == (2, "usage: guardctl-hook prolog|epilog|health\n")


def test_the_licence_comes_along(installed: Path) -> None:
    assert "Apache License" in (distribution(installed).read_text("licenses/LICENSE") or "")
