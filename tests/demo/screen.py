"""What a person sees of the demo."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.rule import Rule

from guardctl.words.records import Event, EventKind

COLOURS = {
    EventKind.SUSPECTED: "yellow",
    EventKind.DRAINED: "bold yellow",
    EventKind.QUARANTINED: "cyan",
    EventKind.SWEEP_STARTED: "cyan",
    EventKind.SWEEP_PASSED: "green",
    EventKind.RELEASED: "green",
    EventKind.CLEARED: "bold green",
    EventKind.SWEEP_FAILED: "bold red",
    EventKind.REFUSED: "magenta",
}
HIDDEN = frozenset({EventKind.BASELINE, EventKind.HARDWARE, EventKind.DRAIN_INTENDED, EventKind.HOOK})


class Screen:
    """Chapters, words, ledger lines as they happen, and the output of real commands."""

    def __init__(self) -> None:
        self.console = Console(width=None if sys.stdout.isatty() else 118, highlight=False)
        self._chapter = 0

    def look(self) -> dict[str, str]:
        """The environment in which commands print as they would on this screen."""
        width = {"COLUMNS": str(self.console.width)}
        return width | ({"FORCE_COLOR": "1"} if self.console.is_terminal else {})

    def chapter(self, title: str) -> None:
        """A new part of the story."""
        self._chapter += 1
        self.console.print()
        self.console.print(Rule(f"[bold]{self._chapter}. {escape(title)}", align="left"))

    def say(self, words: str) -> None:
        """A sentence; rich markup is allowed."""
        self.console.print(words)

    def show(self, picture: RenderableType) -> None:
        """A table, or whatever else rich can draw."""
        self.console.print(picture)

    def event(self, event: Event) -> None:
        """A line of the ledger, as it is written."""
        if event.kind in HIDDEN or not event.node:
            return
        colour = COLOURS.get(event.kind, "white")
        what = event.kind.replace("_", " ")
        tag = f"[dim]{event.incident or '':>4}[/]"
        self.console.print(
            f"  [dim]{event.at:%H:%M:%S}[/] {tag} [bold]{event.node:<4}[/][{colour}]{what:<18}[/]{escape(event.why)}",
            soft_wrap=True,
        )

    def command(self, line: str, output: str) -> None:
        """A command as an operator would type it, and what it really printed."""
        self.console.print(f"[bold blue]$ {escape(line)}")
        sys.stdout.write(output if output.endswith("\n") else output + "\n")
        sys.stdout.flush()

    @contextmanager
    def waiting(self, words: str) -> Iterator[None]:
        """A spinner while something real happens, on a terminal; one line elsewhere."""
        if not self.console.is_terminal:
            self.console.print(f"  {words} ...")
            yield
            return
        with self.console.status(words):
            yield

    def panel(self, words: str, title: str) -> None:
        """A box at the end."""
        self.console.print()
        self.console.print(Panel(words, title=title, expand=False, padding=(1, 2)))
