"""Tables and bars for the terminal, as rich renderables. The cli prints them.

Everything that a user or Slurm wrote is set as plain `Text`, never as markup.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from guardctl.report.rows import EventRow, HostRow, PairRow, StatusRow, StepRow, SweepRow
from guardctl.report.words import WHAT, age, clean, moment, number
from guardctl.words.records import EventKind, Health, State, Verdict

STATE_STYLES = {
    State.HEALTHY: "green",
    State.SUSPECT: "yellow",
    State.PROBATION: "cyan",
    State.DRAINING: "magenta",
    State.QUARANTINED: "magenta",
    State.SWEEPING: "blue",
    State.REPAIR: "bold red",
    State.HELD: "bold yellow",
    State.RETIRED: "red",
    State.DISPUTED: "bold red reverse",
}
HEALTH_STYLES = {Health.HEALTHY: "green", Health.SUSPECT: "yellow", Health.FAULTY: "bold red", Health.UNKNOWN: "dim"}
GOOD, BAD, OPEN = "green", "red", "yellow"
KIND_STYLES = {
    EventKind.SUSPECTED: OPEN,
    EventKind.DRAINED: "magenta",
    EventKind.SWEEP_PASSED: GOOD,
    EventKind.RELEASED: GOOD,
    EventKind.CLEARED: GOOD,
    EventKind.REPAIRED: GOOD,
    EventKind.SWEEP_FAILED: BAD,
    EventKind.DRAIN_FAILED: BAD,
    EventKind.RETIRED: BAD,
    EventKind.DISPUTED: BAD,
    EventKind.MONITOR: BAD,
    EventKind.SWEEP_INCONCLUSIVE: OPEN,
    EventKind.HELD: OPEN,
}
LIMIT_SLOW = 0.9  # only a colour; what counts is in the policy
BAR_WIDTH = 24
EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(fraction: float | None, width: int = BAR_WIDTH, style: str = GOOD) -> Text:
    """A bar of `width` cells for 1.0, drawn to an eighth of a cell; longer than 1.0 is cut."""
    eighths = round(max(0.0, min(1.0, fraction or 0.0)) * width * 8)
    drawn = "█" * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")
    return Text(drawn, style=style) + Text("·" * (width - len(drawn)), style="dim")


def status(rows: Sequence[StatusRow], *, every: bool = True) -> RenderableType:
    """The nodes, with a line of counts below. Without `every`, only those that there is something to say about."""
    table = _table("node", "slurm", "standing", "for", "GPUs", "score", "who", "why")
    for row in rows if every else [row for row in rows if _remarkable(row)]:
        foreign = row.owner not in {"", "guardctl"}
        table.add_row(
            _text(row.node),
            _text(row.slurm, "dim" if not row.owner else ""),
            _text(row.state, "dim" if foreign else STATE_STYLES[row.state]),
            _text(age(row.age_s)),
            _text(str(row.num_gpus) if row.num_gpus else "-"),
            _score(row.score),
            _text(row.owner or "-"),
            _text(f"{row.incident}: {row.why}" if row.incident else row.why),
        )
    num_out = sum(bool(row.owner) for row in rows)
    ours = sum(row.owner == "guardctl" for row in rows)
    foot = f"{len(rows) - num_out} of {len(rows)} nodes in service; {num_out} out, {ours} of them by guardctl"
    return Group(table, _text(foot, "dim"))


def _remarkable(row: StatusRow) -> bool:
    slow = row.score is not None and row.score < LIMIT_SLOW
    return bool(row.owner) or row.state is not State.HEALTHY or slow


def verdicts(found: Sequence[Verdict]) -> RenderableType:
    """Who is judged how, and on what evidence."""
    if not found:
        return _text("no verdicts: nothing to compare, or nothing stood out", "dim")
    table = _table("node", "verdict", "where", "speed", "cause and evidence")
    for each in found:
        words = Text(clean(each.cause))
        for line in each.evidence:
            words.append(f"\n· {clean(line)}", style="dim")
        sure = "" if each.confirmed or each.health in {Health.HEALTHY, Health.UNKNOWN} else "\nnot confirmed"
        place = f"GPU {each.gpu}" if each.gpu is not None else str(each.level)
        verdict = _text(each.health, HEALTH_STYLES[each.health]) + Text(sure, style="dim")
        table.add_row(_text(each.node), verdict, _text(place), _score(each.relative), words)
    return table


def explain(rows: Sequence[EventRow]) -> RenderableType:
    """A story: when, how long after the line before, what, and why with the numbers. Policy and version stand once."""
    if not rows:
        return _text("the ledger holds nothing about it", "dim")
    nodes = sorted({row.node for row in rows if row.node})
    tags = sorted({row.incident for row in rows if row.incident})
    head = f"{', '.join(nodes) or 'cluster'}" + (f" · incident {', '.join(tags)}" if tags else "")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    several = len(nodes) > 1
    for before, row in zip([None, *rows], rows, strict=False):
        table.add_row(*_line(before, row, several=several))
    return Group(_text(head, "bold"), table, _text(_origin(rows), "dim"))


def _line(before: EventRow | None, row: EventRow, *, several: bool) -> tuple[Text, Text, Text, Text]:
    later = "" if before is None else f"+{age((row.at - before.at).total_seconds())}"
    what = WHAT[row.kind] + (f" {clean(row.node)}" if several else "")
    words = Text(row.why)
    if row.actor and (before is None or row.actor != before.actor):
        words.append(f"  by {clean(row.actor)}", style="italic dim")
    for each in row.evidence:
        words.append(f"\n· {each}", style="dim")
    when = moment(row.at) if before is None or before.at.date() != row.at.date() else f"{row.at:%H:%M:%S}".rjust(19)
    return (
        _text(when, "dim"),
        Text(later, style="dim", justify="right"),
        _text(what, KIND_STYLES.get(row.kind, "")),
        words,
    )


def _origin(rows: Sequence[EventRow]) -> str:
    policies = list(dict.fromkeys(row.policy_hash for row in rows if row.policy_hash))
    versions = list(dict.fromkeys(row.version for row in rows if row.version))
    return f"policy {', '.join(policies) or 'unknown'} · guardctl {', '.join(versions) or 'unknown'} · times are UTC"


def sweep(rows: Sequence[SweepRow], pairs: Sequence[PairRow] = ()) -> RenderableType:
    """A bar per GPU against its reference, and below it the pairs."""
    parts: list[RenderableType] = []
    if rows:
        table = _table("node", "GPU", "test", "measured", "against the reference", "", "")
        for row in rows:
            table.add_row(
                _text(row.node),
                _text("-" if row.gpu is None else str(row.gpu)),
                _text(row.test),
                Text(number(row.value, row.unit), justify="right"),
                bar(row.ratio, style=_ok_style(row.ok)),
                Text("-" if row.ratio is None else f"{row.ratio:.0%}", justify="right"),
                _outcome(row.ok),
            )
        parts.append(table)
    if pairs:
        parts += [Text(""), _pairs(pairs)] if rows else [_pairs(pairs)]
    return Group(*parts) if parts else _text("the sweep has no results yet", "dim")


def _pairs(pairs: Sequence[PairRow]) -> Table:
    table = _table("pair", "busbw", "against the reference", "", "")
    for pair in pairs:
        table.add_row(
            _text(f"{pair.first} - {pair.second}"),
            Text(number(pair.busbw_gbps, "GB/s"), justify="right"),
            bar(pair.ratio, style=_ok_style(pair.ok)),
            Text("-" if pair.ratio is None else f"{pair.ratio:.0%}", justify="right"),
            _outcome(pair.ok),
        )
    return table


def hosts(rows: Sequence[HostRow]) -> RenderableType:
    """The choice of hosts: who is in, who is out and why."""
    table = _table("", "node", "rate", "why")
    for row in sorted(rows, key=lambda each: (not each.chosen, each.node)):
        mark = Text("in", style=GOOD) if row.chosen else Text("out", style=BAD)
        table.add_row(mark, _text(row.node), _text("-" if row.rate is None else f"{row.rate:.2f}"), _text(row.why))
    chosen = sum(row.chosen for row in rows)
    return Group(table, _text(f"{chosen} in, {len(rows) - chosen} out", "dim"))


def steps(rows: Sequence[StepRow]) -> RenderableType:
    """Step times before and after, one scale for all, with the speed-up."""
    longest = max((max(row.before_s, row.after_s) for row in rows), default=0.0)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for row in rows:
        gain = row.before_s / row.after_s if row.after_s else None
        speed = "" if gain is None else f"{gain:.2f}x"
        for label, name, value, style, words in (
            (row.label, "before", row.before_s, BAD, ""),
            ("", "after", row.after_s, GOOD, speed),
        ):
            drawn = bar(value / longest if longest else None, style=style)
            table.add_row(_text(label), _text(name, "dim"), drawn, _text(number(value, "s")), _text(words, "bold"))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=column in {"node", "standing", "for", "GPUs", "GPU", "pair", "measured"})
    return table


def _text(text: str, style: str = "") -> Text:
    return Text(clean(text), style=style)


def _score(score: float | None) -> Text:
    style = "dim" if score is None else BAD if score < LIMIT_SLOW else GOOD
    return Text("-" if score is None else f"{score:.2f}", style=style)


def _ok_style(ok: bool | None) -> str:
    return OPEN if ok is None else GOOD if ok else BAD


def _outcome(ok: bool | None) -> Text:
    return Text("cannot tell" if ok is None else "ok" if ok else "failed", style=_ok_style(ok))
