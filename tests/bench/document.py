"""The numbers as files: docs/benchmarks.json for programs, docs/benchmarks.md for people. Pure but for `machine`."""

import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Results = dict[str, Any]
SCHEMA = "guardctl.benchmarks/1"
HEAD = """# Benchmarks

Written by `make bench`; docs/benchmarks.json has the same numbers. They say what guardctl itself costs, in processor
time unless they say otherwise, since the machine had other work to do."""

# what each number means; a benchmark that is not named here is shown with its keys
MEANING: Mapping[str, Mapping[str, str]] = {
    "hook": {
        "": "The prolog on a healthy node, run as `slurm/prolog.sh` runs it before every job on every node.",
        "prolog_cpu_ms_over_python": "ms of processor time over a bare Python, median; the forked half counts",
        "prolog_wall_ms_p50": "ms from start to end, Python's own start included, median; on a busy machine more",
        "runs": "runs that the medians are over",
    },
    "help": {"": "`guardctl --help`.", "cpu_s": "s of processor time, the least of some runs"},
    "tick": {
        "": "One decision of the monitor over one job on all nodes with 8 GPUs each, with three windows of telemetry "
        "every 30 s and of steps every 10 s: read the spool and the step files, score, judge, decide. Without Slurm's "
        "answers and the ledger.",
        "nodes": "nodes",
        "seconds": "s of processor time for each of these; a tick has 60 s",
    },
    "ledger": {
        "": "What the events of a ledger in SQLite add up to, on 1,024 nodes that come and go.",
        "events": "events in the ledger",
        "first_fold_s": "s of processor time for all of them: once for each command",
        "next_fold_s": "s of processor time for the 40 that were added since: at each tick of the daemon",
    },
    "steptimer": {
        "": "What `StepTimer` adds to a training step.",
        "us_per_step": "us of processor time for a step with one wait in it, the writing included",
    },
    "agent": {
        "": "The agent on a node with 8 GPUs (the lab's NVML library); a pass every 30 s by default.",
        "cpu_ms_per_pass": "ms of processor time for one pass: NVML, `tc`, /proc, spool and verdict",
        "rss_mib": "MiB resident, the agent and the child that asks the driver together",
    },
}


def machine(today: str) -> dict[str, Any]:
    """Where the numbers come from."""
    return {
        "date": today,
        "cpu": _field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int((_field(Path("/proc/meminfo"), "MemTotal") or "0 kB").split()[0]) / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _field(path: Path, key: str) -> str:
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def merged(path: Path, results: Results, where: Mapping[str, Any]) -> Results:
    """What is in the file at `path` with the new results over it; each keeps the machine that it was measured on."""
    before: Results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    machines = {**before.get("machines", {}), **{key: dict(where) for key in results}}
    kept = {key: value for key, value in before.items() if key not in {"schema", "machines"}}
    return {"schema": SCHEMA, **kept, **results, "machines": machines}


def rows(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """(benchmark, number, value, meaning) for every number."""
    for key in sorted(set(results) - {"schema", "machines"}):
        meaning = MEANING.get(key, {})
        values = results[key] if isinstance(results[key], dict) else {"value": results[key]}
        for name, value in values.items():
            yield key, name, _said(value), meaning.get(name, "")


def _said(value: Any) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, list):
        return " / ".join(_said(each) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_said(each)}" for key, each in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def markdown(results: Results) -> str:
    """The page: a section for each benchmark."""
    parts = [HEAD]
    found = list(rows(results))
    for key in dict.fromkeys(each[0] for each in found):
        about = MEANING.get(key, {}).get("", "")
        table = [f"| `{name}` | {value} | {words} |" for bench, name, value, words in found if bench == key]
        where = _where(results["machines"].get(key, {}))
        lines = [f"## {key}", about, "\n".join(["| number | value | what it is |", "|---|---|---|", *table]), where]
        parts.append("\n\n".join(filter(None, lines)))
    return "\n\n".join(parts) + "\n"


def _where(where: Mapping[str, Any]) -> str:
    if not where:
        return ""
    place = f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB"
    return f"{where['date']}: {place}, kernel {where['kernel']}, Python {where['python']}."
