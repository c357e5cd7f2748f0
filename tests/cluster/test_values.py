"""Slurm's ways of writing a number, a time, a word, a gres and a state."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.cluster import states, values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (8, 8),
        ("8", 8),
        (8.0, 8),
        ({"set": True, "infinite": False, "number": 8}, 8),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": True, "infinite": True, "number": 0}, None),
        (4294967294, None),
        (-2, None),
        (None, None),
        ("N/A", None),
        (True, None),
        ({}, None),
    ],
)
def test_number(value: Any, expected: int | None) -> None:
    assert values.number(value) == expected


@pytest.mark.parametrize(
    "value", [1795968079, {"set": True, "infinite": False, "number": 1795968079}, "2026-11-29T16:01:19"]
)
def test_moment(value: Any) -> None:
    assert values.moment(value) == datetime(2026, 11, 29, 16, 1, 19, tzinfo=UTC)


@pytest.mark.parametrize("value", [0, None, "None", "Unknown", "N/A", {"set": True, "number": 0}, 2**32 - 2, 10**15])
def test_no_moment(value: Any) -> None:
    assert values.moment(value) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kill task failed", "Kill task failed"),
        ("none", None),
        ("", None),
        (None, None),
        ('"[node_problem] ib_link_check: ... [hc_program]"', "[node_problem] ib_link_check: ... [hc_program]"),
        ("'\"x\"'", "x"),
        ("\"''\"", None),
        ('gets "hot"', 'gets "hot"'),
        ('"hot" and "cold', '"hot" and "cold'),
        ('"', '"'),
    ],
)
def test_reason(text: str | None, expected: str | None) -> None:
    assert values.reason(text) == expected


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ("gpu:8(S:0-3)", 8),
        ("gpu:h100:8", 8),
        ("gpu:nvidia_h100_80gb_hbm3:1(S:0)", 1),
        ("gpu:h100:4(S:0,2),gpu:a100:2(S:1),shard:8", 6),
        ("craynetwork:3,gpu:2", 2),
        ("gpu", 1),
        ("gpu:not-an-existing-gpu:8", 8),
        ("justarandomfield", 0),
        ("(null)", 0),
        ("", 0),
        (None, 0),
    ],
)
def test_num_gpus(gres: str | None, expected: int) -> None:
    assert values.num_gpus(gres) == expected


@pytest.mark.parametrize(
    ("state", "flags", "base", "others"),
    [
        ("idle", ["DRAIN"], "IDLE", {"DRAIN"}),
        (["IDLE", "DRAIN"], [], "IDLE", {"DRAIN"}),
        ("MIXED+DRAIN+DYNAMIC_NORM+MAINTENANCE+RESERVED", [], "MIXED", {"DRAIN", "DYNAMIC_NORM", "MAINT", "RESERVED"}),
        ("DOWN*+RESERVED", [], "DOWN", {"NOT_RESPONDING", "RESERVED"}),
        ("idle*", [], "IDLE", {"NOT_RESPONDING"}),
        ("mixed-", [], "MIXED", {"PLANNED"}),
        ("drain$", [], "IDLE", {"DRAIN", "MAINT"}),
        ("drained*", [], "IDLE", {"DRAIN", "NOT_RESPONDING"}),
        ("drng@", [], "ALLOCATED", {"DRAIN", "REBOOT_REQUESTED"}),
        ("down~", [], "DOWN", {"POWERED_DOWN"}),
        ("alloc#", [], "ALLOCATED", {"POWERING_UP"}),
        ("comp", [], "IDLE", {"COMPLETING"}),
        ("resv", [], "IDLE", {"RESERVED"}),
        ("DOWN+DRAIN+INVALID_REG", [], "DOWN", {"DRAIN", "INVALID_REG"}),
        ("IDLE+BLOCKED", [], "IDLE", {"BLOCKED"}),
    ],
)
def test_known_states(state: str | list[str], flags: list[str], base: str, others: set[str]) -> None:
    assert states.node_state(state, flags) == states.NodeState(base, frozenset(others), known=True)


@pytest.mark.parametrize(
    ("state", "base", "others"),
    [
        ("IDLE+SLEEPING", "IDLE", {"SLEEPING"}),
        ("HIBERNATED", "UNKNOWN", {"HIBERNATED"}),
        ("REBOOT*", "UNKNOWN", {"REBOOT_ISSUED", "NOT_RESPONDING"}),
        (["IDLE", "DOWN"], "UNKNOWN", {"IDLE", "DOWN"}),
        ("", "UNKNOWN", set()),
        ([], "UNKNOWN", set()),
    ],
)
def test_states_to_leave_alone(state: str | list[str], base: str, others: set[str]) -> None:
    assert states.node_state(state) == states.NodeState(base, frozenset(others), known=False)


@given(st.sampled_from(sorted(states.BASES)), st.frozensets(st.sampled_from(sorted(states.FLAGS))))
def test_every_form_of_one_state_is_the_same(base: str, flags: frozenset[str]) -> None:
    expected = states.NodeState(base, flags, known=True)
    assert states.node_state("+".join([base, *sorted(flags)])) == expected
    assert states.node_state([base, *flags]) == expected
    assert states.node_state(base.lower(), flags) == expected
