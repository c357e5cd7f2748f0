"""A drain is ours only if tag, words, user and time are the recorded ones."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.act.ownership import MAX_REASON, Claim, claim, reason
from guardctl.act.reconcile import reconcile
from guardctl.cluster.records import Node, Reservation, Snapshot
from guardctl.words.records import DrainMark, EventKind, Standing, State

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MARK = DrainMark("guardctl:4k2 slow", "root", NOW)
NODE = Node("n1", "IDLE", frozenset({"DRAIN"}), reason=MARK.reason, reason_user="root", reason_at=NOW)
OURS = Standing("n1", State.DRAINING, NOW, "4k2", drain=MARK)


@pytest.mark.parametrize(
    ("node", "standing", "expected"),
    [
        (NODE, OURS, Claim.OURS),
        (replace(NODE, flags=frozenset()), OURS, Claim.NONE),
        (replace(NODE, reason="dimm"), OURS, Claim.FOREIGN),
        (replace(NODE, reason=None), OURS, Claim.FOREIGN),
        (replace(NODE, reason_user="ann"), OURS, Claim.DISPUTED),
        (replace(NODE, reason_at=NOW + timedelta(seconds=1)), OURS, Claim.DISPUTED),
        (replace(NODE, reason="guardctl:4k2 slow : Not responding"), OURS, Claim.DISPUTED),
        (NODE, Standing("n1"), Claim.DISPUTED),
        (NODE, Standing("n1", intent=replace(MARK, at=NOW - timedelta(seconds=1))), Claim.INTENDED),
        (NODE, Standing("n1", intent=replace(MARK, at=NOW + timedelta(minutes=1))), Claim.DISPUTED),
    ],
)
def test_claim(node: Node, standing: Standing, expected: Claim) -> None:
    assert claim(node, standing) is expected


@given(st.text())
def test_a_reason_is_one_short_plain_line_with_our_tag(words: str) -> None:
    text = reason("4k2", words)
    assert text.startswith("guardctl:4k2")
    assert len(text) <= MAX_REASON
    assert not set(text) & set("\"'`\n\r\\")


def news(node: Node | None, standing: Standing, *reservations: Reservation) -> list[EventKind]:
    nodes = {"n1": node} if node else {}
    snapshot = Snapshot(NOW, nodes, {}, {each.name: each for each in reservations})
    return [event.kind for event in reconcile(snapshot, {"n1": standing}, NOW, prefix="guardctl")]


FREE = Node("n1", "IDLE")
RESERVATION = Reservation("guardctl_4k2", ("n1",), NOW, NOW + timedelta(hours=1))
SWEEPING = Standing("n1", State.SWEEPING, NOW, "4k2", reservation="guardctl_4k2")


@pytest.mark.parametrize(
    ("node", "standing", "reservations", "expected"),
    [
        (NODE, OURS, (), []),
        (FREE, OURS, (), [EventKind.RESUMED_BY_OTHER]),
        (FREE, OURS, (RESERVATION,), [EventKind.QUARANTINED]),
        (FREE, OURS, (replace(RESERVATION, name="guardctl_of_ann"),), [EventKind.RESUMED_BY_OTHER]),
        (replace(NODE, reason="dimm", reason_user="ann"), OURS, (), [EventKind.RESUMED_BY_OTHER]),
        (replace(NODE, reason_user="ann"), OURS, (), [EventKind.DISPUTED]),
        (NODE, Standing("n1"), (), [EventKind.DISPUTED]),
        (NODE, Standing("n1", State.DISPUTED), (), []),
        (FREE, Standing("n1", State.DISPUTED), (), [EventKind.RESUMED_BY_OTHER]),
        (NODE, Standing("n1", incident="4k2", intent=MARK), (), [EventKind.DRAINED]),
        (FREE, Standing("n1", incident="4k2", intent=MARK), (), [EventKind.DRAIN_FAILED]),
        (FREE, SWEEPING, (RESERVATION,), []),
        (FREE, SWEEPING, (), [EventKind.RESUMED_BY_OTHER]),
        (FREE, replace(SWEEPING, outcome=EventKind.SWEEP_PASSED), (), [EventKind.RELEASED]),
        (FREE, replace(SWEEPING, outcome=EventKind.SWEEP_FAILED), (), []),
        (replace(NODE, reason="dimm", reason_user="ann"), SWEEPING, (RESERVATION,), [EventKind.RESUMED_BY_OTHER]),
        (None, OURS, (), []),
    ],
)
def test_reconcile(
    node: Node | None, standing: Standing, reservations: tuple[Reservation, ...], expected: list[EventKind]
) -> None:
    assert news(node, standing, *reservations) == expected
