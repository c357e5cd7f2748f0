"""`status`, `explain`, `report`: what is known, why something happened, and the picture for who was not there."""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardctl.cli.context import of, print_json, utc_now

if TYPE_CHECKING:
    from guardctl.cli.context import Context
    from guardctl.words.records import Event

AsJson = Annotated[bool, typer.Option("--json", help="As JSON on stdout.")]


class Form(StrEnum):
    """What a report is written as."""

    HTML = "html"
    MARKDOWN = "markdown"
    JSON = "json"
    METRICS = "metrics"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (status, explain, report):
        app.command()(command)


def status(
    ctx: typer.Context,
    nodes: Annotated[str, typer.Argument(help="Host list.", show_default="all nodes")] = "",
    json_: AsJson = False,
) -> None:
    """Show every node, and why it is where it is.

    Exit code: 0 all in service, 1 some watched or out, 3 Slurm did not answer.

    Examples: `guardctl status`, `guardctl status n[1-8] --json`
    """
    from guardctl import monitor
    from guardctl.cluster.nodesets import expand
    from guardctl.report import json, rows, tables
    from guardctl.words.records import State

    context, now = of(ctx), utc_now()
    snapshot = context.cluster.snapshot(now)
    standings = context.ledger.standings(now)
    found = rows.status(snapshot, standings, monitor.last_scores(context.policy, standings), now)
    wanted = set(expand(nodes)) if nodes else {row.node for row in found}
    found = [row for row in found if row.node in wanted]
    if json_:
        print_json(json.document("status", found, now))
    else:
        context.out.print(tables.status(found))
    raise typer.Exit(0 if all(row.state is State.HEALTHY and not row.owner for row in found) else 1)


def explain(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(help="A node, or the id of an incident (the tag in a Slurm reason).")],
    json_: AsJson = False,
) -> None:
    """Tell the story of one incident or one node, with the numbers.

    Examples: `guardctl explain 4k2`, `guardctl explain n7`
    """
    from guardctl.report import json, story, tables
    from guardctl.words.errors import InputError

    context = of(ctx)
    events = _story(context, what.removeprefix("guardctl:"))
    if not events:
        raise InputError(f"the ledger knows no node and no incident {what!r}", hint="`guardctl status` lists both")
    told = story.tell(events)
    if json_:
        print_json(json.document("story", told, utc_now()))
    else:
        context.out.print(tables.explain(told))


def _story(context: "Context", what: str) -> "list[Event]":
    from guardctl.words.records import EventKind

    incident = context.ledger.events(incident=what)
    events = [*_before(context, incident[0]), *incident] if incident else context.ledger.events(node=what)
    return [event for event in events if event.kind is not EventKind.BASELINE]


def _before(context: "Context", first: "Event") -> "list[Event]":
    """The suspicion that an incident grew out of: it has no tag yet, because nothing was done."""
    from guardctl.words.records import EventKind

    earlier = [event for event in context.ledger.events(node=first.node) if event.id < first.id]
    last = earlier[-1:] if earlier and earlier[-1].kind is EventKind.SUSPECTED else []
    return [event for event in last if event.incident is None]


def report(
    ctx: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write; `-` is stdout.")] = Path("-"),
    form: Annotated[Form | None, typer.Option("--format", help="Kind of report.", show_default="by the name")] = None,
    days: Annotated[float, typer.Option(help="Days looked back.")] = 7.0,
) -> None:
    """Write the health report of the last days.

    HTML for people, Markdown for mail, JSON, or metrics for Prometheus; the name of the file tells which.

    Examples: `guardctl report -o health.html`, `guardctl report --format markdown --days 1 | mail -s health ops`
    """
    form = form or {".html": Form.HTML, ".json": Form.JSON, ".prom": Form.METRICS}.get(output.suffix, Form.MARKDOWN)
    text = _text(of(ctx), form, days)
    if str(output) == "-":
        typer.echo(text, nl=not text.endswith("\n"))
        return
    _write(output, text)
    of(ctx).err.print(f"wrote {output}")


def _text(context: "Context", form: Form, days: float) -> str:
    import json as json_module

    from guardctl.report import json, markdown, metrics, page
    from guardctl.report.summary import summary
    from guardctl.words.errors import ClusterError

    now = utc_now()
    try:
        snapshot = context.cluster.snapshot(now)
    except ClusterError as error:
        context.err.print(f"guardctl: {error}; the report goes on without the state of the cluster", markup=False)
        snapshot = None
    events, standings = context.ledger.events(), context.ledger.standings(now)
    if form is Form.METRICS:
        at = events[-1].at if events else None
        recent = [event for event in events if event.at > now - timedelta(days=1)]
        return metrics.text(standings, tick_at=at, ok=snapshot is not None, events=recent)
    begin = now - timedelta(days=days)
    if events and events[0].at > begin:  # a young ledger: its life fills the page
        begin = events[0].at - (now - events[0].at) / 20
    found = summary(events, standings, begin, now, snapshot=snapshot)
    if form is Form.JSON:
        return json_module.dumps({"schema": "guardctl.report/1", **json.as_json(found)}, indent=2)
    return page.html(found) if form is Form.HTML else markdown.report(found)


def _write(path: Path, text: str) -> None:
    from guardctl.words.errors import GuardError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise GuardError(f"{path}: {error.strerror}", hint="--output names another place") from error
