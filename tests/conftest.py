"""What every test may ask for."""

import os
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a busy machine is no fault; pytest-timeout ends what hangs
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with recorded samples of other people's clusters; set GUARDCTL_DATA where it lies elsewhere."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("GUARDCTL_DATA", beside))
    if not path.is_dir():
        pytest.skip(f"no recorded samples at {path}: set GUARDCTL_DATA")
    return path


# --- the lab's line -------------------------------------------------------------------------------------------------

LAB = ("lab", "needed")  # a property of each report, so that it also comes back from the workers of pytest-xdist


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes longer than the rest; `make test-fast` leaves it out")


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("lab"):
        item.user_properties.append(LAB)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """The last word but one says how many tests of the lab ran: a run that skipped them must not look like one."""
    result = yield
    stats = {outcome: list(_of_the_lab(reports)) for outcome, reports in terminalreporter.stats.items() if outcome}
    skipped = {report.nodeid: _reason(report) for report in stats.pop("skipped", [])}
    ran = {report.nodeid for reports in stats.values() for report in reports} - skipped.keys()
    why = f" ({'; '.join(sorted(set(skipped.values())))})" if skipped else ""
    terminalreporter.write_line(f"lab: {len(ran)} ran, {len(skipped)} skipped{why}")
    return result


def _of_the_lab(reports: Iterable[object]) -> Iterable[pytest.TestReport]:
    return (each for each in reports if isinstance(each, pytest.TestReport) and LAB in map(tuple, each.user_properties))


def _reason(report: pytest.TestReport) -> str:
    """What the skip said: the last part of (path, line, "Skipped: reason")."""
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return words.removeprefix("Skipped: ")
