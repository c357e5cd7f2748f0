"""How much processor time a control group got, and how long its quota held it back. cgroup v1 and v2."""

from collections.abc import Mapping
from pathlib import Path

from guardctl.words.records import Value

SELF = "self"
NS = 1e-9
US = 1e-6
EMPTY: Mapping[str, Value] = dict.fromkeys(("periods", "throttled_periods", "throttled_s", "usage_s"))


def parse_cpu_stat(text: str, usage_ns: str | None = None) -> dict[str, Value]:
    """Counters of a cpu.stat: v1 counts in ns and keeps the usage in a file of its own, v2 counts all in us.

    `throttled_s` is summed over processors by v1 and v2 alike: it may grow by more than one second per second.
    """
    words = (line.partition(" ") for line in text.splitlines())
    numbers: dict[str, int | None] = {key: int(value) for key, _, value in words if value.isdigit()}
    return {
        "periods": numbers.get("nr_periods"),
        "throttled_periods": numbers.get("nr_throttled"),
        "throttled_s": _seconds(numbers.get("throttled_usec"), numbers.get("throttled_time")),
        "usage_s": _seconds(numbers.get("usage_usec"), int(usage_ns) if usage_ns else None),
    }


def parse_own_folder(self_cgroup: str, mounts: str) -> Path | None:
    """The folder of our own group with its cpu.stat, from /proc/self/cgroup and /proc/self/mounts; None if unknown.

    A process is in one v2 group (line `0::/path`) and may be in a v1 group of the cpu controller as well; where both
    are mounted the quota is in the v1 one.
    """
    groups = [line.split(":", 2) for line in self_cgroup.splitlines() if line.count(":") >= 2]  # noqa: PLR2004 - fields
    v1 = next((path for _, controllers, path in groups if "cpu" in controllers.split(",")), None)
    v2 = next((path for number, controllers, path in groups if number == "0" and not controllers), None)
    rows = [row for row in (line.split() for line in mounts.splitlines()) if len(row) > 3]  # noqa: PLR2004 - columns
    if v1 is not None:
        place = next((row[1] for row in rows if row[2] == "cgroup" and "cpu" in row[3].split(",")), None)
        return Path(place + v1) if place else None
    place = next((row[1] for row in rows if row[2] == "cgroup2"), None)
    return Path(place + v2) if place and v2 is not None else None


def folder_of(setting: str) -> Path | None:
    """The folder that the policy means: a path, or `self`."""
    if setting != SELF:
        return Path(setting)
    proc = Path("/proc/self")
    try:
        return parse_own_folder((proc / "cgroup").read_text(), (proc / "mounts").read_text())
    except OSError:
        return None


def read(setting: str) -> dict[str, Value]:
    """The counters of the group that the policy means; all None if it cannot be read."""
    folder = folder_of(setting)
    if folder is None:
        return dict(EMPTY)
    try:
        stat = (folder / "cpu.stat").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return dict(EMPTY)
    return parse_cpu_stat(stat, _usage_ns(folder))


def _usage_ns(folder: Path) -> str | None:
    try:
        text = (folder / "cpuacct.usage").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if text.isdigit() else None


def _seconds(us: int | None, ns: int | None) -> float | None:
    """Seconds of the count that there is."""
    if us is not None:
        return us * US
    return None if ns is None else ns * NS
