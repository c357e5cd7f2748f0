from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardctl.ledger.fold import fold, trace
from guardctl.words.records import DrainMark, Event, EventKind, Standing, State

K = EventKind
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
MARK = {"reason": "guardctl:322 slow", "user": "guard", "at": "2026-01-31T11:00:00Z"}


Step = EventKind | tuple[EventKind, dict[str, Any]]


def life(*steps: Step, incident: str | None = "322") -> Standing:
    """The standing after `steps`, one a minute, ending at NOW."""
    pairs = [step if isinstance(step, tuple) else (step, {}) for step in steps]
    events = [
        Event("n1", NOW - timedelta(minutes=len(pairs) - number), kind, str(kind), incident, detail)
        for number, (kind, detail) in enumerate(pairs, start=1)
    ]
    return fold(events, NOW).get("n1", Standing("n1"))


DRAINED = (K.DRAINED, MARK)
QUARANTINED = (K.QUARANTINED, {"reservation": "guardctl_322"})
SWEPT: tuple[Step, ...] = (K.SUSPECTED, DRAINED, QUARANTINED, (K.SWEEP_STARTED, {"sweep": "s1"}))


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([], State.HEALTHY),
        ([K.SUSPECTED], State.SUSPECT),
        ([K.SUSPECTED, K.CLEARED], State.HEALTHY),
        ([K.SUSPECTED, (K.DRAIN_INTENDED, MARK)], State.SUSPECT),
        ([K.SUSPECTED, (K.DRAIN_INTENDED, MARK), DRAINED], State.DRAINING),
        ([DRAINED, K.SUSPECTED], State.DRAINING),
        ([DRAINED, K.CLEARED], State.DRAINING),
        ([DRAINED, QUARANTINED], State.QUARANTINED),
        ([K.SUSPECTED, QUARANTINED], State.QUARANTINED),
        (SWEPT, State.SWEEPING),
        ([*SWEPT, K.SWEEP_PASSED], State.SWEEPING),
        ([*SWEPT, K.SWEEP_PASSED, K.RELEASED], State.PROBATION),
        ([*SWEPT, K.SWEEP_PASSED, K.RELEASED, K.CLEARED], State.HEALTHY),
        ([*SWEPT, K.SWEEP_FAILED], State.REPAIR),
        ([*SWEPT, K.SWEEP_FAILED, DRAINED], State.REPAIR),
        ([*SWEPT, K.SWEEP_FAILED, DRAINED, K.RETIRED], State.RETIRED),
        ([*SWEPT, K.SWEEP_FAILED, DRAINED, K.REPAIRED], State.DRAINING),
        ([*SWEPT, K.SWEEP_FAILED, K.REPAIRED], State.QUARANTINED),
        ([*SWEPT, K.SWEEP_INCONCLUSIVE], State.HELD),
        ([*SWEPT, K.SWEEP_INCONCLUSIVE, DRAINED], State.HELD),
        ([*SWEPT, K.SWEEP_INCONCLUSIVE, DRAINED, K.UNHELD], State.DRAINING),
        ([*SWEPT, K.RESUMED_BY_OTHER], State.HEALTHY),
        ([K.SWEEP_STARTED], State.HEALTHY),
        ([K.SWEEP_STARTED, K.SWEEP_FAILED], State.SUSPECT),
        ([K.SWEEP_STARTED, K.SWEEP_FAILED, DRAINED], State.REPAIR),
        ([K.SWEEP_STARTED, K.SWEEP_INCONCLUSIVE], State.HEALTHY),
        ([K.HELD], State.HELD),
        ([K.HELD, DRAINED], State.HELD),
        ([K.HELD, K.UNHELD], State.HEALTHY),
        ([K.HELD, DRAINED, K.RESUMED_BY_OTHER], State.HELD),
        ([DRAINED, K.DISPUTED], State.DISPUTED),
        ([DRAINED, K.DISPUTED, DRAINED], State.DRAINING),
        ([DRAINED, K.DISPUTED, K.RESUMED_BY_OTHER], State.HEALTHY),
        ([DRAINED, K.RETIRED, K.REPAIRED], State.DRAINING),
        ([K.RETIRED, K.REPAIRED], State.PROBATION),
        ([DRAINED, K.BASELINE, K.REFUSED, K.HOOK, K.MONITOR], State.DRAINING),
    ],
)
def test_where_a_life_leads(steps: Sequence[Step], state: State) -> None:
    assert life(*steps).state is state


def test_an_intent_is_open_until_its_outcome() -> None:
    intended = life(K.SUSPECTED, (K.DRAIN_INTENDED, {"reason": "guardctl:322 slow", "user": "guard", "kinds": ["gpu"]}))
    assert intended.intent == DrainMark("guardctl:322 slow", "guard", NOW)
    assert (intended.drain, intended.kinds, intended.incident) == (None, ("gpu",), "322")
    drained = life(K.SUSPECTED, (K.DRAIN_INTENDED, MARK), DRAINED)
    assert drained.intent is None
    assert drained.drain == DrainMark("guardctl:322 slow", "guard", NOW - timedelta(hours=1))
    failed = life((K.DRAIN_INTENDED, MARK), K.DRAIN_FAILED)
    assert (failed.intent, failed.incident, failed.state) == (None, None, State.HEALTHY)


def test_a_quarantine_takes_the_place_of_the_drain_and_of_the_last_outcome() -> None:
    standing = life(*SWEPT, K.SWEEP_PASSED, K.RELEASED, DRAINED, QUARANTINED)
    assert (standing.drain, standing.reservation) == (None, "guardctl_322")
    assert (standing.outcome, standing.sweep) == (None, None), "or it would be released without a sweep"


def test_a_release_closes_everything_but_the_incident() -> None:
    standing = life(*SWEPT, K.SWEEP_PASSED, K.RELEASED)
    assert (standing.drain, standing.reservation, standing.sweep, standing.held) == (None, None, None, False)
    assert standing.settled_at == NOW
    assert standing.incident == "322"
    assert life(*SWEPT, K.SWEEP_PASSED, K.RELEASED, K.CLEARED).incident is None


def test_a_person_who_resumes_spends_the_evidence() -> None:
    standing = life(*SWEPT, K.RESUMED_BY_OTHER)
    assert standing.settled_at == NOW
    assert (standing.incident, standing.drain, standing.reservation, standing.kinds) == (None, None, None, ())


def test_a_stay_counts_one_triage() -> None:
    hard = (K.DRAINED, {**MARK, "hard": True})
    assert life(hard).triages_at == (NOW,)
    assert len(life(hard, QUARANTINED, K.SWEEP_STARTED, K.SWEEP_FAILED, DRAINED).triages_at) == 1
    assert (
        len(life(hard, QUARANTINED, K.SWEEP_FAILED, DRAINED, K.REPAIRED, QUARANTINED, K.SWEEP_FAILED).triages_at) == 2
    )
    assert life(K.SUSPECTED, DRAINED, QUARANTINED, K.SWEEP_PASSED, K.RELEASED).triages_at == ()
    assert len(life(K.SWEEP_FAILED, K.SWEEP_FAILED, incident=None).triages_at) == 2


def test_a_repaired_node_keeps_its_triages_unless_it_was_retired() -> None:
    failed: list[Step] = [*SWEPT, K.SWEEP_FAILED, DRAINED]
    assert len(life(*failed, K.REPAIRED).triages_at) == 1
    assert life(*failed, K.RETIRED, K.REPAIRED).triages_at == ()


def test_a_refusal_is_remembered_until_the_state_changes() -> None:
    assert life(K.SUSPECTED, K.REFUSED).refused == "refused"
    assert life(K.SUSPECTED, K.REFUSED, DRAINED).refused == ""


def hardware(*uuids: str) -> tuple[EventKind, dict[str, Any]]:
    return (K.HARDWARE, {"gpu_uuids": list(uuids)})


def test_new_cards_start_clean_and_one_swapped_card_does_not() -> None:
    failed: list[Step] = [hardware("A", "B"), *SWEPT, K.SWEEP_FAILED, DRAINED]
    swapped = life(*failed, hardware("A", "C"))
    assert (swapped.state, len(swapped.triages_at), swapped.gpu_uuids) == (State.REPAIR, 1, ("A", "C"))
    renewed = life(*failed, hardware("C", "D"))
    assert (renewed.state, renewed.triages_at, renewed.outcome) == (State.DRAINING, (), None)
    held = life(hardware("A"), K.HELD, DRAINED, hardware("B"))
    assert held.state is State.HELD, "a person's hold ends by a person alone"


def test_a_clock_that_runs_ahead_makes_no_negative_age() -> None:
    ahead = Event("n1", NOW + timedelta(minutes=5), K.SUSPECTED)
    assert fold([ahead], NOW)["n1"].since_at == NOW
    assert fold([ahead], NOW)["n1"].state is State.SUSPECT


def test_an_event_of_the_cluster_makes_no_node() -> None:
    assert fold([Event("", NOW, K.MONITOR, "Slurm does not answer")], NOW) == {}


def test_odd_details_do_no_harm() -> None:
    odd = {"reason": 7, "user": None, "at": "yesterday", "kinds": "gpu", "reservation": ["x"], "gpu_uuids": "GPU-1"}
    for kind in EventKind:
        standing = life((kind, odd))
        assert standing.kinds == ()
        assert standing.gpu_uuids == ()


# --- for any history ---

nodes = st.sampled_from(["n1", "n2", "n3"])
details = st.fixed_dictionaries(
    {},
    optional={
        "hard": st.booleans(),
        "person": st.booleans(),
        "kinds": st.lists(st.sampled_from(["gpu", "link"]), max_size=2),
        "reservation": st.sampled_from(["guardctl_322", "guardctl_323"]),
        "sweep": st.sampled_from(["s1", "s2"]),
        "gpu_uuids": st.lists(st.sampled_from("ABCD"), max_size=3, unique=True),
        "reason": st.just("guardctl:322 slow"),
        "at": st.sampled_from([None, "2026-01-31T11:00:00Z"]),
    },
)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    drawn = draw(
        st.lists(
            st.tuples(nodes, st.sampled_from(EventKind), st.sampled_from([None, "322", "323"]), details), max_size=25
        )
    )
    return [
        Event(node, NOW + timedelta(minutes=number), kind, str(kind), incident, detail, id=number + 1)
        for number, (node, kind, incident, detail) in enumerate(drawn)
    ]


LATER = NOW + timedelta(days=1)


@settings(deadline=None)
@given(histories())
def test_same_events_same_standings(events: list[Event]) -> None:
    assert fold(events, LATER) == fold([replace(each) for each in events], LATER)


@settings(deadline=None)
@given(histories(), st.integers(0, 25))
def test_a_fold_goes_on_from_a_prefix(events: list[Event], cut: int) -> None:
    assert fold(events[cut:], LATER, start=fold(events[:cut], LATER)) == fold(events, LATER)


@settings(deadline=None)
@given(histories())
def test_nodes_do_not_touch_each_other(events: list[Event]) -> None:
    apart: dict[str, Standing] = {}
    for node in ("n3", "n2", "n1"):
        apart |= fold([each for each in events if each.node == node], LATER)
    assert apart == fold(events, LATER)


@settings(deadline=None)
@given(histories())
def test_a_trace_ends_where_the_fold_does(events: list[Event]) -> None:
    assert {event.node: standing for event, standing in trace(events)} == fold(events, LATER)


@settings(deadline=None)
@given(histories())
def test_what_must_hold_in_every_standing(events: list[Event]) -> None:
    for event, standing in trace(events):
        assert not (standing.drain and standing.reservation), "a node is kept out by one of the two"
        assert standing.triages_at == tuple(sorted(standing.triages_at))
        assert standing.since_at is not None or standing.state is State.HEALTHY
        if event.kind is K.RELEASED:
            assert (standing.state, standing.drain, standing.reservation) == (State.PROBATION, None, None)
        if event.kind is K.QUARANTINED:
            assert (standing.state, standing.outcome) == (State.QUARANTINED, None)
