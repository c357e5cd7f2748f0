"""Deciding by values: every rule stops what it must, and nothing more."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.act.budget import is_out
from guardctl.act.decide import decide
from guardctl.cluster.records import Job, Node, Reservation, Snapshot
from guardctl.words.policy import Act, Policy, Quarantine, Sweep
from guardctl.words.records import (
    Action,
    ActionKind,
    DrainMark,
    EventKind,
    Health,
    Kind,
    Level,
    Standing,
    State,
    Verdict,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ACT = Policy(act=Act(mode="act", max_out=8, max_out_percent=100, max_drains_per_window=100))
MARK = DrainMark("guardctl:4k2 slow", "root", NOW - timedelta(minutes=5))


def node(name: str, base: str = "IDLE", *flags: str, **fields: object) -> Node:
    return replace(Node(name, base, frozenset(flags), partitions=("gpu",), num_gpus=8), **fields)  # type: ignore[arg-type]


def cluster(*nodes: Node, jobs: tuple[Job, ...] = (), reservations: tuple[Reservation, ...] = ()) -> Snapshot:
    return Snapshot(
        NOW,
        {each.name: each for each in nodes},
        {each.job_id: each for each in jobs},
        {each.name: each for each in reservations},
    )


def verdict(name: str, *, confirmed: bool = True, hard: bool = False, checks: tuple[str, ...] = ("busy_s",)) -> Verdict:
    return Verdict(name, Health.SUSPECT, Level.NODE, "processor throttled", ("busy time 48% slower",), NOW,
                   relative=0.5, confirmed=confirmed, hard=hard,
                   kinds=(Kind.STEPS, Kind.HOST), checks=checks)  # fmt: skip


def draining(name: str, **fields: object) -> Standing:
    mine = Standing(name, State.DRAINING, NOW - timedelta(minutes=5), "4k2", drain=MARK)
    return replace(mine, **fields)  # type: ignore[arg-type]


def drained_by_us(name: str, base: str = "IDLE") -> Node:
    return node(name, base, "DRAIN", reason=MARK.reason, reason_user=MARK.user, reason_at=MARK.at)


def kinds(actions: tuple[Action, ...]) -> list[ActionKind]:
    return [action.kind for action in actions]


def of_kind(actions: tuple[Action, ...], kind: ActionKind) -> Action:
    (found,) = [action for action in actions if action.kind is kind]
    return found


def test_a_confirmed_verdict_drains_with_the_numbers() -> None:
    actions = decide([verdict("n1")], {}, cluster(node("n1"), node("n2")), ACT, NOW)
    assert kinds(actions) == [ActionKind.SUSPECT, ActionKind.DRAIN]
    assert actions[1].why == "processor throttled; busy time 48% slower"


def test_a_reason_says_a_hard_fault_once() -> None:
    lost = replace(verdict("n1", hard=True), cause="GPU 3: off the bus", evidence=("GPU 3: off the bus", "Xid 79"))
    drain = of_kind(decide([lost], {}, cluster(node("n1")), ACT, NOW), ActionKind.DRAIN)
    assert drain.why == "GPU 3: off the bus; Xid 79"


def test_one_signal_is_only_watched() -> None:
    actions = decide([verdict("n1", confirmed=False)], {}, cluster(node("n1")), ACT, NOW)
    assert kinds(actions) == [ActionKind.SUSPECT]


def test_a_new_install_only_observes_and_says_so_once() -> None:
    view = cluster(node("n1"))
    refuse = of_kind(decide([verdict("n1")], {}, view, Policy(), NOW), ActionKind.REFUSE)
    assert "act.mode is observe" in refuse.why
    seen = {"n1": Standing("n1", State.SUSPECT, NOW, refused=refuse.why)}
    assert decide([verdict("n1")], seen, view, Policy(), NOW) == ()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (node("n1", "IDLE", "DRAIN", reason="dimm", reason_user="ann"), "drained already by ann: dimm"),
        (node("n1", "DOWN", reason="Not responding"), "down already"),
        (node("n1", "TELEPORTING", known=False), "not known to this version"),
    ],
)
def test_what_is_not_ours_is_left_alone(bad: Node, words: str) -> None:
    actions = decide([verdict("n1")], {}, cluster(bad, node("n2")), ACT, NOW)
    assert words in of_kind(actions, ActionKind.REFUSE).why
    assert ActionKind.DRAIN not in kinds(actions)


def test_protected_and_muted_checks_do_not_drain() -> None:
    for act in (replace_act(protected="n[1-3]"), replace_act(checks={"busy_s": "warn"})):
        actions = decide([verdict("n1")], {}, cluster(node("n1"), node("n2")), act, NOW)
        assert kinds(actions) == [ActionKind.SUSPECT, ActionKind.REFUSE]


def replace_act(**fields: object) -> Policy:
    return ACT.model_copy(update={"act": ACT.act.model_copy(update=fields)})


def test_the_worst_goes_first_when_the_budget_is_short() -> None:
    verdicts = [
        replace(verdict("n1", checks=("a",)), relative=0.8),
        replace(verdict("n2", checks=("b",)), relative=0.3),
    ]
    actions = decide(verdicts, {}, cluster(*(node(f"n{i}") for i in range(1, 9))), replace_act(max_out=1), NOW)
    assert of_kind(actions, ActionKind.DRAIN).nodes == ("n2",)
    assert of_kind(actions, ActionKind.REFUSE).why == "0 nodes are out, act.max_out is 1, and this tick takes 1"


def test_the_same_finding_on_many_nodes_is_a_common_cause() -> None:
    nodes = [node(f"n{i}") for i in range(1, 9)]
    actions = decide([verdict(each.name) for each in nodes[:5]], {}, cluster(*nodes), ACT, NOW)
    assert ActionKind.DRAIN not in kinds(actions)
    assert all("common cause: busy_s on 5 nodes" in each.why for each in actions if each.kind is ActionKind.REFUSE)


def test_min_free_counts_the_drains_of_this_tick() -> None:
    nodes = [node(f"n{i}") for i in range(1, 4)]
    actions = decide([verdict("n1"), verdict("n2")], {}, cluster(*nodes), replace_act(min_free=2), NOW)
    assert kinds(actions).count(ActionKind.DRAIN) == 1


def test_a_drained_node_is_quarantined_when_empty_and_not_before() -> None:
    standings = {"n1": draining("n1")}
    job = Job("7", "train", "RUNNING", "ann", 1000, ("n1",))
    busy = cluster(drained_by_us("n1", "ALLOCATED"), node("n2"), jobs=(job,))
    assert decide([], standings, busy, ACT, NOW) == ()
    action = of_kind(decide([], standings, cluster(drained_by_us("n1"), node("n2")), ACT, NOW), ActionKind.QUARANTINE)
    assert action.nodes == ("n1",)
    assert action.detail["partners"] == ("n2",)


def test_a_drain_that_somebody_changed_is_not_quarantined() -> None:
    for touched in (replace(drained_by_us("n1"), reason_user="ann"), replace(drained_by_us("n1"), reason="mine now")):
        assert decide([], {"n1": draining("n1")}, cluster(touched, node("n2")), ACT, NOW) == ()


def test_a_node_in_a_foreign_reservation_waits() -> None:
    theirs = Reservation("maint", ("n1",), NOW, NOW + timedelta(hours=1))
    view = cluster(drained_by_us("n1"), node("n2"), reservations=(theirs,))
    assert decide([], {"n1": draining("n1")}, view, ACT, NOW) == ()


def test_a_bad_link_waits_for_a_partner_for_a_while() -> None:
    linked = draining("n1", kinds=(Kind.TRANSPORT.value,))
    alone = cluster(drained_by_us("n1"))
    assert decide([], {"n1": linked}, alone, ACT, NOW) == ()
    late = NOW + timedelta(seconds=Sweep().partner_wait_s)
    assert kinds(decide([], {"n1": linked}, alone, ACT, late)) == [ActionKind.QUARANTINE]


def in_quarantine(name: str, outcome: EventKind | None, **fields: object) -> Standing:
    base = Standing(name, State.SWEEPING, NOW, "4k2", reservation="guardctl_4k2", sweep="s1", outcome=outcome)
    return replace(base, **fields)  # type: ignore[arg-type]


def ours(*names: str, minutes: int = 60) -> Reservation:
    return Reservation("guardctl_4k2", names, NOW, NOW + timedelta(minutes=minutes))


def test_a_failed_node_is_drained_before_its_reservation_goes() -> None:
    view = cluster(node("n1", "IDLE", "RESERVED"), node("n2", "IDLE", "RESERVED"), reservations=(ours("n1", "n2"),))
    failed = in_quarantine("n1", EventKind.SWEEP_FAILED, state=State.REPAIR)
    passed = in_quarantine("n2", EventKind.SWEEP_PASSED)
    assert kinds(decide([], {"n1": failed, "n2": passed}, view, ACT, NOW)) == [ActionKind.HOLD]
    drained = replace(failed, drain=MARK, reservation=None)
    actions = decide([], {"n1": drained, "n2": passed}, view, ACT, NOW)
    assert [(each.kind, each.nodes) for each in actions] == [(ActionKind.RELEASE, ("n2",))]


def test_a_convicted_node_is_drained_also_when_its_reservation_ran_out() -> None:
    failed = in_quarantine("n1", EventKind.SWEEP_FAILED, state=State.REPAIR)
    assert kinds(decide([], {"n1": failed}, cluster(node("n1")), ACT, NOW)) == [ActionKind.HOLD]


def test_nobody_is_released_while_one_of_the_sweep_has_no_outcome() -> None:
    view = cluster(node("n1", "ALLOCATED"), node("n2"), reservations=(ours("n1", "n2"),))
    standings = {"n1": in_quarantine("n1", None), "n2": in_quarantine("n2", EventKind.SWEEP_PASSED)}
    assert decide([], standings, view, ACT, NOW) == ()


def test_a_reservation_that_nobody_needs_goes_and_a_needed_one_is_renewed() -> None:
    old = cluster(node("n1"), reservations=(ours("n1"),))
    assert kinds(decide([], {}, old, ACT, NOW)) == [ActionKind.UNRESERVE]
    near = cluster(node("n1"), reservations=(ours("n1", minutes=10),))
    assert kinds(decide([], {"n1": in_quarantine("n1", None)}, near, ACT, NOW)) == [ActionKind.RENEW]


def test_the_third_triage_retires() -> None:
    times = tuple(NOW - timedelta(days=day) for day in (1, 2, 3))
    lemon = Standing("n1", State.REPAIR, NOW, "4k2", drain=MARK, triages_at=times)
    view = cluster(drained_by_us("n1"))
    assert kinds(decide([], {"n1": lemon}, view, ACT, NOW)) == [ActionKind.RETIRE]
    old = replace(lemon, triages_at=(*times[:2], NOW - timedelta(days=8)))
    assert decide([], {"n1": old}, view, ACT, NOW) == ()


def test_probation_ends_when_it_was_quiet() -> None:
    since = NOW - timedelta(seconds=Quarantine().probation_s)
    standings = {"n1": Standing("n1", State.PROBATION, since, "4k2")}
    assert kinds(decide([], standings, cluster(node("n1")), ACT, NOW)) == [ActionKind.CLEAR]
    assert decide([], standings, cluster(node("n1")), ACT, NOW - timedelta(seconds=1)) == ()


def test_the_kill_switch_leaves_only_notes() -> None:
    standings = {"n1": draining("n1"), "n3": in_quarantine("n3", EventKind.SWEEP_PASSED)}
    view = cluster(drained_by_us("n1"), node("n2"), node("n3"), reservations=(ours("n3"),))
    assert ActionKind.RELEASE in kinds(decide([verdict("n2")], standings, view, ACT, NOW))
    assert kinds(decide([verdict("n2")], standings, view, ACT, NOW, stopped=True)) == [ActionKind.SUSPECT]


def convicted_in_service(name: str) -> Standing:
    return Standing(name, State.SUSPECT, NOW, outcome=EventKind.SWEEP_FAILED, sweep="s1", why="every GPU slow")


def test_sweeps_that_convict_many_nodes_in_service_stay_in_the_budget() -> None:
    """A wrong reference fails everybody: no more than the cap is drained, what the monitor found included."""
    nodes = [node(f"n{i}") for i in range(1, 9)]
    standings = {each.name: convicted_in_service(each.name) for each in nodes[:5]}
    actions = decide([verdict("n8"), verdict("n1")], standings, cluster(*nodes), replace_act(max_out=2), NOW)
    out = [each.nodes[0] for each in actions if each.kind in {ActionKind.HOLD, ActionKind.DRAIN}]
    assert out == ["n1", "n2"]
    assert "act.max_out" in of_kind(actions[:3], ActionKind.REFUSE).why
    observed = decide([], standings, cluster(*nodes), Policy(), NOW)
    assert {each.kind for each in observed} == {ActionKind.REFUSE}


flag_sets = st.sampled_from([(), ("DRAIN",), ("NOT_RESPONDING",), ("RESERVED",)])
nodes_at_random = st.lists(
    st.tuples(st.sampled_from(["IDLE", "ALLOCATED", "DOWN"]), flag_sets), min_size=1, max_size=30
)


@given(nodes_at_random, st.sets(st.integers(0, 29)), st.integers(0, 10), st.floats(0, 100), st.integers(0, 5))
def test_the_budget_is_never_exceeded(
    shapes: list[tuple[str, tuple[str, ...]]], bad: set[int], max_out: int, percent: float, recent: int
) -> None:
    nodes = [node(f"n{i}", base, *flags, reason="x", reason_user="ann") for i, (base, flags) in enumerate(shapes)]
    policy = replace_act(max_out=max_out, max_out_percent=percent, max_drains_per_window=4)
    verdicts = [verdict(f"n{i}", checks=(f"check{i}",)) for i in bad]
    view = cluster(*nodes)
    actions = decide(verdicts, {}, view, policy, NOW, drains_at=[NOW] * recent)
    drained = {action.nodes[0] for action in actions if action.kind is ActionKind.DRAIN}
    out_before = sum(is_out(each, {}) for each in nodes)
    cap = min(max_out, max(1, int(len(nodes) * percent / 100)) if percent else 0)
    assert not drained or out_before + len(drained) <= cap
    assert len(drained) + recent <= 4 or not drained
    assert all(view.nodes[name].base != "DOWN" and not view.nodes[name].drained for name in drained)
