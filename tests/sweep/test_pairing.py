from hypothesis import given
from hypothesis import strategies as st

from guardctl.sweep import blame
from guardctl.sweep.baseline import pair_references
from guardctl.sweep.pairing import Pair, Tried, circle, first_round, next_round
from guardctl.sweep.results import PairResult
from guardctl.words.policy import Policy

POLICY = Policy()
names = st.integers(2, 33).map(lambda num: [f"n{number}" for number in range(1, num + 1)])


def disjoint(pairs: tuple[Pair, ...]) -> bool:
    members = [node for pair in pairs for node in pair]
    return len(members) == len(set(members))


@given(names)
def test_circle_lets_everybody_meet_everybody_once(nodes: list[str]) -> None:
    rounds = circle(nodes)
    met = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert all(disjoint(pairs) for pairs in rounds)
    assert len(met) == len(set(met)) == len(nodes) * (len(nodes) - 1) // 2


@given(names)
def test_circle_gives_everybody_one_bye_where_the_number_is_odd(nodes: list[str]) -> None:
    rounds = circle(nodes)
    assert len(rounds) == len(nodes) - 1 + len(nodes) % 2
    byes = [set(nodes) - {node for pair in pairs for node in pair} for pairs in rounds]
    assert sorted(node for bye in byes for node in bye) == (sorted(nodes) if len(nodes) % 2 else [])


@given(st.integers(0, 9), st.integers(0, 9))
def test_the_first_round_gives_each_suspect_a_partner_where_there_are_enough(
    num_suspects: int, num_partners: int
) -> None:
    suspects, partners = [f"s{n}" for n in range(num_suspects)], [f"p{n}" for n in range(num_partners)]
    pairs = first_round(suspects, partners)
    assert disjoint(pairs)
    with_partner = sum(pair[0] in suspects and pair[1] in partners for pair in pairs)
    assert with_partner == min(num_suspects, num_partners)
    assert len(pairs) == (num_suspects + num_partners) // 2


def played(nodes: list[str], bad: set[str], partners: list[str], limit: int = 12) -> list[PairResult]:
    """All rounds of a sweep in which a pair is slow if one of its nodes is bad."""
    results: list[PairResult] = []
    pairs = first_round(nodes, partners)
    number = 1
    while pairs and number <= limit:
        assert disjoint(pairs)
        for a, b in pairs:
            speed = 0.1 if {a, b} & bad else 1.0
            results.append(PairResult(a, b, ok=True, busbw_gbps=speed, round=number, asked_bytes=1))
        tried = blame.tried(results, pair_references(results, partners, {}), POLICY)
        assert len({each.nodes for each in tried}) == len(tried), "a pair was asked twice"
        pairs = next_round(tried, nodes, partners)
        number += 1
    assert not pairs, "the questions never end"
    return results


@given(st.data())
def test_blame_names_exactly_the_bad_nodes(data: st.DataObject) -> None:
    nodes = data.draw(names.filter(lambda each: len(each) >= 3))
    bad = set(data.draw(st.lists(st.sampled_from(nodes), unique=True, max_size=len(nodes) // 3)))
    results = played(nodes, bad, [])
    outcomes = blame.pairs(nodes, results, pair_references(results, (), {}), POLICY)
    assert {each.node for each in outcomes if each.result is blame.Result.FAILED} == bad
    assert {each.node for each in outcomes if each.result is blame.Result.PASSED} == set(nodes) - bad


@given(st.integers(1, 6), st.integers(2, 6), st.data())
def test_bad_suspects_are_named_beside_two_healthy_partners(num: int, num_partners: int, data: st.DataObject) -> None:
    suspects, partners = [f"s{n}" for n in range(num)], [f"p{n}" for n in range(num_partners)]
    bad = set(data.draw(st.lists(st.sampled_from(suspects), unique=True, max_size=max(1, (num + num_partners) // 3))))
    results = played(suspects, bad, partners)
    outcomes = blame.pairs(suspects, results, pair_references(results, partners, {}), POLICY)
    assert {each.node for each in outcomes if each.result is blame.Result.FAILED} == bad


def test_one_suspect_and_two_partners_take_three_rounds() -> None:
    results = played(["n1"], {"n1"}, ["p1", "p2"])
    assert [(each.round, sorted(each.nodes)) for each in results] == [
        (1, ["n1", "p1"]), (2, ["p1", "p2"]), (3, ["n1", "p2"]),
    ]  # fmt: skip


def test_one_suspect_and_three_partners_take_two_rounds() -> None:
    assert max(each.round for each in played(["n1"], {"n1"}, ["p1", "p2", "p3"])) == 2
    assert max(each.round for each in played(["n1"], set(), ["p1", "p2", "p3"])) == 1


def test_nothing_is_left_to_ask_of_two_nodes_alone() -> None:
    assert next_round([Tried(frozenset({"a", "b"}), good=False)], ["a", "b"], []) == ()


def test_a_slow_partner_is_found_and_the_suspect_passes() -> None:
    results = played(["n1"], {"p1"}, ["p1", "p2", "p3"])
    outcome = blame.pairs(["n1"], results, pair_references(results, ["p1", "p2", "p3"], {}), POLICY)[0]
    assert outcome.result is blame.Result.PASSED
