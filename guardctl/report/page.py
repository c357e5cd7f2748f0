"""The report as one HTML file that needs nothing else: no script, no network, styles and drawings inside.

The template escapes everything; the drawings are SVG whose geometry is worked out here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from guardctl.report.markdown import headline
from guardctl.report.summary import Summary, Timeline
from guardctl.report.words import WHAT, age, clean, moment
from guardctl.words.records import EventKind, State

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "templates"
WIDTH, LABEL, ROW, TOP = 1000.0, 110.0, 22.0, 26.0  # of the drawing, in its own units
STEPS = tuple(timedelta(hours=hours) for hours in (1, 3, 6, 12, 24, 48, 168, 336, 720, 2160, 8760))
MAX_TICKS = 10
GOOD, BAD, OPEN = "good", "bad", "open"
TONES = {
    EventKind.SWEEP_PASSED: GOOD,
    EventKind.RELEASED: GOOD,
    EventKind.CLEARED: GOOD,
    EventKind.REPAIRED: GOOD,
    EventKind.SWEEP_FAILED: BAD,
    EventKind.DRAIN_FAILED: BAD,
    EventKind.RETIRED: BAD,
    EventKind.DISPUTED: BAD,
    EventKind.SUSPECTED: OPEN,
    EventKind.HELD: OPEN,
    EventKind.SWEEP_INCONCLUSIVE: OPEN,
}


@dataclass(frozen=True, slots=True)
class Box:
    """One state of one node in the drawing; `title` is what a pointer over it shows."""

    x: float
    y: float
    width: float
    state: State
    title: str


@dataclass(frozen=True, slots=True)
class Tick:
    """One mark on the axis of time."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The lives of the nodes that were not simply healthy, drawn."""

    width: float
    height: float
    labels: tuple[tuple[float, str], ...]
    boxes: tuple[Box, ...]
    ticks: tuple[Tick, ...]
    states: tuple[State, ...]


def html(summary: Summary) -> str:
    """The whole page."""
    return _template().render(
        summary=summary,
        headline=headline(summary),
        chart=chart(summary),
        most_days=max((each.node_days for each in summary.causes), default=0.0),
        what=WHAT,
        tones=TONES,
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"age": age, "moment": moment, "clean": clean}
    return environment.get_template("report.html")


def chart(summary: Summary) -> Chart:
    """Where every box and mark of the drawing goes."""
    boxes = tuple(box for row, line in enumerate(summary.timelines) for box in _boxes(line, row, summary))
    labels = tuple((TOP + row * ROW + ROW / 2, clean(line.node)) for row, line in enumerate(summary.timelines))
    drawn = {box.state for box in boxes}
    return Chart(
        width=WIDTH,
        height=TOP + len(summary.timelines) * ROW,
        labels=labels,
        boxes=boxes,
        ticks=tuple(_ticks(summary.since, summary.now)),
        states=tuple(state for state in State if state in drawn),
    )


def _boxes(line: Timeline, row: int, summary: Summary) -> Iterator[Box]:
    for segment in line.segments:
        left, right = _x(segment.begin_at, summary), _x(segment.end_at, summary)
        why = f", {segment.cause}" if segment.cause else ""
        title = f"{line.node} {segment.state} for {age(segment.duration_s)} from {moment(segment.begin_at)}{why}"
        yield Box(left, TOP + row * ROW, max(right - left, 1.5), segment.state, clean(title))


def _x(at: datetime, summary: Summary) -> float:
    share = (at - summary.since) / (summary.now - summary.since) if summary.now > summary.since else 0.0
    return LABEL + share * (WIDTH - LABEL)


def _ticks(since: datetime, now: datetime) -> Iterator[Tick]:
    """Round times, at most ten of them."""
    step = next((each for each in STEPS if (now - since) / each <= MAX_TICKS), STEPS[-1])
    at = since.replace(hour=0, minute=0, second=0, microsecond=0)
    while at <= now:
        if at >= since:
            share = (at - since) / (now - since) if now > since else 0.0
            midnight = step >= timedelta(days=1) or (at.hour, at.minute) == (0, 0)
            yield Tick(LABEL + share * (WIDTH - LABEL), f"{at:%d %b}" if midnight else f"{at:%H:%M}")
        at += step
