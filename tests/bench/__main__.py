"""Measure, show, and write docs/benchmarks.md and docs/benchmarks.json: `python -m tests.bench [NAME ...]`."""

import argparse
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench import agent, commands, document, ledger, steptimer, tick

DOCS = Path(__file__).resolve().parents[2] / "docs"
BENCHES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "hook": commands.hook,
    "help": commands.cli_help,
    "tick": tick.measure,
    "ledger": ledger.measure,
    "steptimer": steptimer.measure,
    "agent": agent.measure,
}


def main(argv: list[str] | None = None) -> None:
    """Run the benchmarks that are named, or all; the numbers of others stay in the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; all if none is given")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder that the files are written to")
    given = parser.parse_args(argv)
    if unknown := set(given.names) - set(BENCHES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    results, console = {}, Console(stderr=True)
    for name in given.names or BENCHES:
        with console.status(f"measuring {name}"):
            results[name] = BENCHES[name]()
    write(given.docs, results)
    Console().print(table(results))


def write(docs: Path, results: document.Results) -> None:
    """Both files, with what they had of other benchmarks."""
    whole = document.merged(docs / "benchmarks.json", results, document.machine(f"{datetime.now(UTC):%Y-%m-%d}"))
    (docs / "benchmarks.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    (docs / "benchmarks.md").write_text(document.markdown(whole), encoding="utf-8")


def table(results: document.Results) -> Table:
    """What was measured now."""
    made = Table("benchmark", "number", "value", "what it is", title="guardctl benchmarks", title_justify="left")
    for row in document.rows(results):
        made.add_row(*row)
    return made


if __name__ == "__main__":
    main()
