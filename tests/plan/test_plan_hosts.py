from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.cluster.records import Node, Reservation, Snapshot
from guardctl.plan.hosts import choose, natural
from guardctl.words.records import Standing, State

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
NODES = {f"n{i}": Node(f"n{i}", "IDLE", partitions=("gpu",), num_gpus=8) for i in range(1, 13)}


def world(*changed: Node, reservations: tuple[Reservation, ...] = ()) -> Snapshot:
    nodes = NODES | {node.name: node for node in changed}
    return Snapshot(NOW, nodes, reservations={each.name: each for each in reservations})


def test_healthy_nodes_in_natural_order() -> None:
    chosen = choose(world(), {}, 10)
    assert chosen.nodes == tuple(f"n{i}" for i in range(1, 11))
    assert chosen.spares == ("n11", "n12")
    assert chosen.out == {}
    assert chosen.complete
    assert chosen.why == ""


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (Node("n3", "IDLE", frozenset({"DRAIN"}), reason="bad fan"), "Slurm: IDLE+DRAIN (bad fan)"),
        (Node("n3", "DOWN"), "Slurm: DOWN"),
        (Node("n3", "IDLE", frozenset({"NEW_THING"}), known=False), "Slurm: IDLE+NEW_THING"),
    ],
)
def test_what_slurm_would_not_use(node: Node, why: str) -> None:
    assert choose(world(replace(node, partitions=("gpu",))), {}, 12).out == {"n3": why}


@pytest.mark.parametrize("state", [each for each in State if each not in {State.HEALTHY, State.PROBATION}])
def test_who_is_not_in_full_service_is_out(state: State) -> None:
    chosen = choose(world(), {"n3": Standing("n3", state, why="processor throttled")}, 12)
    assert chosen.out == {"n3": f"{state}: processor throttled"}
    assert not chosen.complete
    assert chosen.why == f"11 of 12 nodes are fit (n3: {state}: processor throttled)"


def test_held_reserved_and_excluded_nodes_are_out() -> None:
    held = Standing("n1", held=True, why="being rewired")
    reserved = Reservation("maint", ("n2",), NOW, NOW)
    chosen = choose(world(reservations=(reserved,)), {"n1": held}, 2, exclude={"n3"})
    assert chosen.nodes == ("n4", "n5")
    assert chosen.out == {"n1": "held: being rewired", "n2": "in reservation maint", "n3": "excluded by the caller"}


def test_probation_comes_last_and_the_fast_come_first() -> None:
    standings = {"n1": Standing("n1", State.PROBATION)}
    chosen = choose(world(), standings, 12, rates={"n5": 0.98, "n2": 1.03}, protected={"n4"})
    assert chosen.nodes[0] == "n5"
    assert chosen.nodes[-3:] == ("n2", "n1", "n4")


def test_other_partitions_are_not_mentioned() -> None:
    other = Node("m1", "DOWN", partitions=("cpu",))
    chosen = choose(world(other), {}, 2, partition="gpu")
    assert "m1" not in {*chosen.nodes, *chosen.out, *chosen.spares}
    assert choose(world(other), {}, 2, partition="none").nodes == ()


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20, unique=True))
def test_natural_order_is_that_of_the_numbers(numbers: list[int]) -> None:
    names = sorted((f"gpu-{number}a" for number in numbers), key=natural)
    assert names == [f"gpu-{number}a" for number in sorted(numbers)]


@given(st.sets(st.sampled_from(sorted(NODES))), st.integers(0, 14))
def test_everyone_is_chosen_spare_or_out(excluded: set[str], n: int) -> None:
    chosen = choose(world(), {}, n, exclude=excluded)
    assert sorted([*chosen.nodes, *chosen.spares, *chosen.out]) == sorted(NODES)
    assert len(chosen.nodes) == min(n, len(NODES) - len(excluded))
