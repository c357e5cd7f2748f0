import io
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import TypeAdapter
from rich.console import Console, RenderableType

from guardctl.cluster.records import Snapshot
from guardctl.ledger.fold import fold
from guardctl.report import json, markdown, metrics, page, rows, schema, story, tables, words
from guardctl.report.summary import Summary, summary
from guardctl.sweep.baseline import Reference
from guardctl.sweep.results import GemmResult, PairResult
from guardctl.words import policy
from guardctl.words.records import (
    IN_SERVICE,
    Event,
    EventKind,
    Health,
    Kind,
    Level,
    Score,
    Standing,
    State,
    Verdict,
)

from .conftest import NOW, SINCE, at, event


def printed(what: RenderableType, width: int = 110) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(what)
    return console.export_text()


# --- summary ---


def test_who_is_out_by_whom_and_why(week: Summary) -> None:
    assert [(row.node, row.owner, row.state) for row in week.out] == [
        ("n19", "guardctl", State.REPAIR),
        ("n23", "guardctl", State.HELD),
        ("n31", "guardctl", State.SWEEPING),
        ("n30", "guardctl", State.DRAINING),
        ("n05", "alice", State.HEALTHY),
    ]
    assert (week.num_nodes, week.num_in_service) == (32, 27)
    assert (week.num_drains, week.num_refused, week.num_cleared, len(week.sweeps)) == (6, 1, 3, 4)


def test_node_days_by_cause(week: Summary) -> None:
    days = {cause.cause: (round(cause.node_days * 24, 2), cause.num_incidents) for cause in week.causes}
    assert days["GPU 3 runs slow: held back by heat"] == (50.6, 1)
    assert days["network slow: retransmits"] == (23.9, 2)
    assert days["held by a person"] == (9.0, 1)
    assert week.node_days_out == pytest.approx(sum(cause.node_days for cause in week.causes), abs=1e-3)


def test_an_incident_tells_its_story_from_the_suspicion_on(week: Summary) -> None:
    [first] = [each for each in week.incidents if each.tag == "4k2"]
    assert [row.kind for row in first.story][:3] == [EventKind.SUSPECTED, EventKind.DRAINED, EventKind.QUARANTINED]
    assert (first.begin_at, first.end_at, first.state) == (at(150), at(92.9), State.HEALTHY)
    assert first.out_s == pytest.approx((149.5 - 98.9) * 3600, abs=1)
    assert [each.tag for each in week.incidents if each.end_at is None] == ["4k7", "4k6", "4k5", "4k4"]


def test_offenders_are_counted_within_the_period(
    events: list[Event], standings: dict[str, Standing], snapshot: Snapshot
) -> None:
    day = summary(events, standings, at(24), NOW, snapshot=snapshot)
    assert [(each.node, each.num_triages) for each in day.offenders] == [("n19", 1), ("n30", 1)]
    assert day.timelines[0].segments[0].begin_at == at(24)


def test_a_period_begins_with_what_went_before(events: list[Event], standings: dict[str, Standing]) -> None:
    short = summary(events, standings, at(120), at(110))
    assert [(line.node, [each.state for each in line.segments]) for line in short.timelines] == [
        ("n07", [State.REPAIR])
    ]
    assert short.node_days_out == pytest.approx(10 / 24)
    assert short.num_nodes is None


def test_an_empty_ledger_makes_an_empty_report() -> None:
    empty = summary([], {}, SINCE, NOW, snapshot=Snapshot(NOW))
    assert not any((empty.out, empty.incidents, empty.causes, empty.timelines))
    assert "every node is in service" in page.html(empty)
    assert markdown.report(empty).startswith("# 0 of 0 nodes out, 0 drains, 0.0 node-hours lost\n")


kinds = st.sampled_from(list(EventKind))


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 400), st.sampled_from(["n1", "n2"]), kinds, st.sampled_from([None, "322"]))))
def test_every_timeline_fills_the_period(drawn: list[tuple[float, str, EventKind, str | None]]) -> None:
    events = sorted((event(hours, node, kind, "x", tag) for hours, node, kind, tag in drawn), key=lambda each: each.at)
    found = summary(events, fold(events, NOW), SINCE, NOW)
    for line in found.timelines:
        assert line.segments[0].begin_at == SINCE
        assert line.segments[-1].end_at == NOW
        assert all(left.end_at == right.begin_at for left, right in zip(line.segments, line.segments[1:], strict=False))
    out_s = sum(each.duration_s for line in found.timelines for each in line.segments if each.state not in IN_SERVICE)
    assert found.node_days_out * 86400 == pytest.approx(out_s)
    page.html(found)
    markdown.report(found)


# --- HTML ---


class Tags(HTMLParser):
    """The tags of a page, and whether they close in the order in which they open."""

    void = frozenset({"meta", "br", "line", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"src", "href", "action"}]
        if tag not in self.void or (tag == "rect" and self.open[-1] == "svg"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.void or tag == "rect":
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attrs if name == "src"]


def test_the_page_stands_alone_and_runs_nothing(week: Summary) -> None:
    text = page.html(week)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert "script" not in tags.seen
    assert tags.links == []
    assert "url(" not in text
    assert "@import" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\x1b" not in text


def test_the_page_holds_what_an_operator_looks_for(week: Summary) -> None:
    text = page.html(week)
    for said in (
        "5 of 32 nodes out, 6 drains",
        "GPU 3: SM clock 1005 MHz under load, peers 1980 MHz",
        "both pairs of n19 reach 0.41 of a healthy one",
        "Slurm did not answer for 20 s",
        "n07 REPAIR for 1 d 23 h",
    ):
        assert said in text


def test_the_drawing_fits_its_frame(week: Summary) -> None:
    chart = page.chart(week)
    assert len(chart.labels) == len(week.timelines) == 6
    assert all(box.x >= page.LABEL and box.x + box.width <= chart.width + 2 for box in chart.boxes)
    assert [tick.label for tick in chart.ticks] == [
        "25 Jan",
        "26 Jan",
        "27 Jan",
        "28 Jan",
        "29 Jan",
        "30 Jan",
        "31 Jan",
    ]
    assert len({round(right.x - left.x, 6) for left, right in zip(chart.ticks, chart.ticks[1:], strict=False)}) == 1


@pytest.mark.parametrize("hours", [0, 0.5, 5, 24, 24 * 30, 24 * 365, 24 * 3650])
def test_the_axis_has_a_handful_of_marks(hours: float) -> None:
    ticks = list(page._ticks(NOW - timedelta(hours=hours), NOW))
    assert len(ticks) <= page.MAX_TICKS + 1


# --- Markdown ---


def test_markdown_says_literally_what_others_wrote(week: Summary) -> None:
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown.report(week))
    tags = Tags()
    tags.feed(html)
    assert tags.seen <= {"h1", "h2", "h3", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "strong"}
    assert "&lt;script&gt;alert(1)&lt;/script&gt; [red]| `x` [31m*y*" in html


@settings(deadline=None)
@given(st.text(alphabet="ab1 \\`*_{}[]()#+-.!|<>~&$=:/", max_size=30))
def test_any_text_comes_through_markdown_as_it_was(text: str) -> None:
    html = (
        MarkdownIt("commonmark", {"html": True})
        .enable(["table", "strikethrough"])
        .render(f"x\n\n- {words.markdown(text)}")
    )
    shown = re.sub(r"<[^>]*>", "", html).replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    assert shown.replace("&amp;", "&").split() == ["x", *words.clean(text).split()]


# --- terminal ---


def test_status_lists_those_out_first_and_counts(snapshot: Snapshot, standings: dict[str, Standing]) -> None:
    scores = [Score("n08", Kind.STEPS, "busy", relative=0.97), Score("n08", Kind.GPU, "clock", relative=0.6)]
    table = rows.status(snapshot, standings, scores, NOW)
    text = printed(tables.status(table))
    assert text.splitlines()[1].split()[:3] == ["n19", "IDLE+DRAIN", "REPAIR"]
    assert "19 h 12 min" in text
    assert "27 of 32 nodes in service; 5 out, 4 of them by guardctl" in text
    assert "[red]|" in text, "brackets are text, not markup"
    short = printed(tables.status(table, every=False))
    assert re.findall(r"^n\d\d", short, re.MULTILINE) == ["n19", "n23", "n31", "n30", "n05", "n08"]


def test_a_node_that_only_the_ledger_knows_is_shown() -> None:
    gone = {"n99": Standing("n99", State.REPAIR, NOW - timedelta(days=2), why="GPU 3 slow")}
    [row] = rows.status(Snapshot(NOW), gone, (), NOW)
    assert (row.slurm, row.owner, row.age_s) == ("unknown to Slurm", "guardctl", 172800.0)


def test_explain_reads_like_a_story(events: list[Event]) -> None:
    told = story.tell(each for each in events if each.node == "n07")
    text = printed(tables.explain(told))
    lines = text.splitlines()
    assert lines[0].strip() == "n07 · incident 4k2"
    assert text.count("guard@head1") == 1
    assert text.count("SM clock 1005 MHz") == 1, "what was said once is not said again"
    assert "about to drain" not in text, "an intent that came true is no news"
    assert lines[-1].strip() == "policy 9f2c41d07ab3 · guardctl 0.1.0 · times are UTC"
    assert "+1 d 23 h" in text
    assert "speed against its peers 0.71" in text
    assert "gpu 389 TFLOP/s; reference 720 TFLOP/s" in text


def test_an_intent_without_an_outcome_is_told(events: list[Event]) -> None:
    open_intent = [each for each in events if each.incident == "4k7"][:1]
    assert open_intent[0].kind is EventKind.DRAIN_INTENDED
    assert "about to drain" in printed(tables.explain(story.tell(open_intent)))
    assert "holds nothing" in printed(tables.explain([]))


def test_verdicts_show_their_evidence() -> None:
    sure = Verdict("n1", Health.FAULTY, Level.GPU, "GPU 3 lost", ("Xid 79 [bold]",), NOW, gpu=3, confirmed=True)
    soft = replace(sure, node="n2", health=Health.SUSPECT, confirmed=False, relative=0.71)
    text = printed(tables.verdicts([sure, soft]))
    assert "· Xid 79 [bold]" in text
    assert text.count("not confirmed") == 1
    assert "0.71" in text


REFERENCES = {"gemm/8192|H100": Reference(720.0, 8, "ledger"), "allreduce/2x100|": Reference(184.0, 5, "partners")}


def test_a_sweep_shows_a_bar_per_gpu() -> None:
    good = GemmResult("n1", "gemm", ok=True, gpu=0, sku="H100", value=718.0, unit="TFLOP/s", size=8192)
    results = [
        good,
        replace(good, gpu=3, value=389.0),
        replace(good, gpu=4, value=None),
        replace(good, gpu=5, fault="gpu_lost"),
    ]
    found = rows.gemm(results, REFERENCES, policy.Sweep())
    assert [row.ok for row in found] == [True, False, None, False]
    pair = PairResult("n1", "n2", ok=True, busbw_gbps=76.0, asked_bytes=100)
    pairs = rows.pairs([pair, replace(pair, busbw_gbps=None), replace(pair, asked_bytes=7)], REFERENCES, policy.Sweep())
    assert [row.ok for row in pairs] == [False, None, None]
    lines = printed(tables.sweep(found, pairs)).splitlines()
    assert (lines[1].count("█"), lines[2].count("█"), lines[3].count("█")) == (23, 13, 0)
    assert "54%" in lines[2]
    assert "cannot tell" in lines[3]
    assert "no results yet" in printed(tables.sweep([]))


@given(st.floats(-1, 2), st.integers(1, 60))
def test_a_bar_keeps_its_width_and_its_share(fraction: float, width: int) -> None:
    drawn = tables.bar(fraction, width).plain
    assert len(drawn) == width
    full = drawn.count("█") + sum(tables.EIGHTHS.index(each) / 8 for each in drawn if each in tables.EIGHTHS[1:])
    assert full == pytest.approx(max(0.0, min(1.0, fraction)) * width, abs=1 / 16 + 1e-9)


def test_hosts_and_steps() -> None:
    text = printed(tables.hosts([rows.HostRow("n7", False, "REPAIR", 1.85), rows.HostRow("n1", True, "healthy", 1.0)]))
    assert re.findall(r"n\d", text) == ["n1", "n7"]
    assert "1 in, 1 out" in text
    text = printed(tables.steps([rows.StepRow("plan", 17.0, 10.0)]))
    assert "1.70x" in text
    assert printed(tables.steps([])).strip() == ""


@given(st.text())
def test_no_text_of_others_can_steer_a_terminal(text: str) -> None:
    cleaned = words.clean(text)
    assert cleaned.isprintable()
    assert "\n" not in cleaned


def test_ages_and_numbers_read_well() -> None:
    assert [words.age(each) for each in (None, -3, 45, 60, 3599, 3600, 90000)] == [
        "-", "0 s", "45 s", "1 min", "59 min", "1 h 0 min", "1 d 1 h",
    ]  # fmt: skip
    assert [words.number(each, "GB/s") for each in (None, 0.0, 0.123456, 12345.6)] == [
        "-", "0 GB/s", "0.123 GB/s", "12,346 GB/s",
    ]  # fmt: skip


# --- JSON and Prometheus ---


def test_documents_say_what_they_are(week: Summary) -> None:
    made = json.document("status", week.out, NOW, since=SINCE)
    assert (made["schema"], made["at"], made["since"]) == (
        "guardctl.status/1", "2026-01-31T12:00:00Z", "2026-01-24T12:00:00Z",
    )  # fmt: skip
    assert made["rows"][0]["state"] == "REPAIR"
    assert json.as_json(datetime(2026, 1, 1, 1, tzinfo=UTC)) == "2026-01-01T01:00:00Z"
    with pytest.raises(TypeError, match="no JSON form"):
        json.as_json(object())


def _check(value: Any, shape: dict[str, Any], definitions: dict[str, Any]) -> None:
    """That `value` has what the schema asks for, as far as these schemas go."""
    if "$ref" in shape:
        shape = definitions[shape["$ref"].rsplit("/", 1)[1]]
    if shape.get("type") == "object" and "properties" in shape:
        assert set(shape["properties"]) == set(value)
        for key, inner in shape["properties"].items():
            _check(value[key], inner, definitions)
    elif shape.get("type") == "array":
        for each in value:
            _check(each, shape.get("items", {}), definitions)
    elif "enum" in shape:
        assert value in shape["enum"]


@pytest.mark.parametrize("name", list(schema.ROWS))
def test_schemas_are_published(name: str, week: Summary) -> None:
    published = schema.published(name)
    assert published["title"] == f"guardctl.{name}/1"
    values: dict[str, Sequence[Any]] = {"report": [week], "status": week.out, "explain": week.alarms}
    if name in values:
        document = json.document(name, values[name], NOW)
        _check(document, published, published["$defs"])
        for row in document["rows"]:
            TypeAdapter(schema.ROWS[name]).validate_python(row)


def test_prometheus_text(standings: dict[str, Standing], events: list[Event]) -> None:
    text = metrics.text(standings, tick_at=NOW, ok=True, events=events, num_nodes=32)
    lines = text.splitlines()
    assert "guardctl_monitor_ok 1.0" in lines
    [tick_s] = [line.split()[1] for line in lines if line.startswith("guardctl_last_tick_timestamp_seconds ")]
    assert float(tick_s) == NOW.timestamp()
    assert 'guardctl_nodes{state="REPAIR"} 1.0' in lines
    assert 'guardctl_nodes{state="HEALTHY"} 28.0' in lines
    assert "guardctl_refused_actions_last_day 1.0" in lines
    silent = metrics.text({}, tick_at=None, ok=False)
    assert "guardctl_monitor_ok 0.0" in silent
    assert "last_tick" not in silent, "unknown is not 0"
