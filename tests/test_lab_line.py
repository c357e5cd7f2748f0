"""The line about the lab that ends each run of the tests: tried on small folders of tests of their own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # starts many processes

CONFTEST = Path(__file__).with_name("conftest.py")
CONFIG = "[pytest]\naddopts = -ra --strict-markers\nmarkers = lab: needs the lab\n"
LAB = """
import pytest
pytestmark = pytest.mark.lab
def test_good(): pass
def test_bad(): assert False
@pytest.mark.skipif(True, reason="the lab needs root")
def test_left_out(): pass
def test_gives_up(): pytest.skip("the lab needs root")
"""
PLAIN = """
import pytest
def test_plain(): pass
def test_skipped(): pytest.skip("no reason of ours")
"""


def last_lines(folder: Path, *words: str, **modules: str) -> list[str]:
    """The last two lines of a run of pytest in a folder with these modules and our conftest.py."""
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").write_text(CONFIG)
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(text)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.count("\nlab: ") == 1, done.stdout + done.stderr
    return done.stdout.splitlines()[-2:]


def test_counts_what_ran_and_what_did_not(tmp_path: Path) -> None:
    before, last = last_lines(tmp_path, lab=LAB, plain=PLAIN)
    assert before == "lab: 2 ran, 2 skipped (the lab needs root)"
    assert "1 failed, 2 passed, 3 skipped" in last


def test_a_folder_named_lab_is_not_the_marker(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    before, _ = last_lines(folder, plain=PLAIN)
    assert before == "lab: 0 ran, 0 skipped"


def test_tests_that_were_not_selected_do_not_count(tmp_path: Path) -> None:
    before, last = last_lines(tmp_path, "-q", "-m", "not lab", lab=LAB, plain=PLAIN)
    assert before == "lab: 0 ran, 0 skipped"
    assert "4 deselected" in last


def test_the_line_comes_back_from_workers(tmp_path: Path) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    before, _ = last_lines(tmp_path, "-n", "1", lab=LAB, plain=PLAIN)
    assert before == "lab: 2 ran, 2 skipped (the lab needs root)"
