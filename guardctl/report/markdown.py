"""The report as Markdown, short enough for a mail from cron. All that users or Slurm wrote is escaped."""

from collections.abc import Iterable, Iterator

from guardctl.report.rows import EventRow
from guardctl.report.summary import Incident, Summary
from guardctl.report.words import WHAT, age, markdown, moment

Cells = Iterable[object]


def report(summary: Summary) -> str:
    """The whole report; ends with a newline."""
    parts = (_head, _out, _incidents, _causes, _offenders, _sweeps, _alarms)
    return "\n".join(line for part in parts for line in part(summary)).strip() + "\n"


def headline(summary: Summary) -> str:
    """One line for a subject: `3 of 64 nodes out, 2 drains, 33.6 node-hours lost`."""
    of = f" of {summary.num_nodes}" if summary.num_nodes is not None else ""
    drains = f"{summary.num_drains} drain{'' if summary.num_drains == 1 else 's'}"
    return f"{len(summary.out)}{of} nodes out, {drains}, {24 * summary.node_days_out:.1f} node-hours lost"


def _head(summary: Summary) -> Iterator[str]:
    yield f"# {headline(summary)}"
    yield ""
    yield f"From {moment(summary.since)} to {moment(summary.now)} UTC."
    noted = f"{summary.num_cleared} suspicions cleared, {summary.num_refused} actions stopped by a rule"
    yield noted + f", {len(summary.sweeps)} sweeps ended."
    yield ""


def _out(summary: Summary) -> Iterator[str]:
    rows = [(row.node, row.owner, row.state, age(row.age_s), row.why) for row in summary.out]
    yield from _table("Out of service now", ("node", "by", "standing", "for", "why"), rows)


def _causes(summary: Summary) -> Iterator[str]:
    rows = [(each.cause, f"{24 * each.node_days:.1f}", each.num_incidents) for each in summary.causes]
    yield from _table("Where the node-hours went", ("cause", "node-hours", "incidents"), rows)


def _offenders(summary: Summary) -> Iterator[str]:
    rows = [(each.node, each.num_triages, moment(each.last_at), each.state) for each in summary.offenders]
    yield from _table("Nodes with triages", ("node", "triages", "last", "standing"), rows)


def _sweeps(summary: Summary) -> Iterator[str]:
    rows = [(moment(each.at), each.node, WHAT[each.outcome], each.why) for each in summary.sweeps]
    yield from _table("Sweeps", ("at", "node", "outcome", "what it says"), rows)


def _alarms(summary: Summary) -> Iterator[str]:
    rows = [(moment(each.at), each.node or "cluster", each.why) for each in summary.alarms]
    yield from _table("Alarms", ("at", "node", "what"), rows)


def _incidents(summary: Summary) -> Iterator[str]:
    if summary.incidents:
        yield "## Incidents"
        yield ""
    for incident in summary.incidents:
        yield from _incident(incident)


def _incident(incident: Incident) -> Iterator[str]:
    now = f"now {incident.state}" if incident.end_at is None else "closed"
    out = f", {age(incident.out_s)} out of service" if incident.out_s else ""
    yield f"### {markdown(incident.tag)}: {markdown(incident.node)}: {markdown(incident.cause)} ({now}{out})"
    yield ""
    for row in incident.story:
        yield from _story(row)
    yield ""


def _story(row: EventRow) -> Iterator[str]:
    yield f"- {moment(row.at)} **{WHAT[row.kind]}**" + (f": {markdown(row.why)}" if row.why else "")
    for each in row.evidence:
        yield f"  - {markdown(each)}"


def _table(title: str, columns: tuple[str, ...], rows: Iterable[Cells]) -> Iterator[str]:
    """A table with its heading, or nothing where there are no rows."""
    lines = ["| " + " | ".join(markdown(str(cell)) for cell in row) + " |" for row in rows]
    if lines:
        yield from (f"## {title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns), *lines, "")
