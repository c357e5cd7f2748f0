"""Who is tested with whom. Pure.

A bad pair has two suspects. Each of them is tested again with a node that is known to be good: the one that is bad
again is the culprit. Every round consists of disjoint pairs, so all of it runs at once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]
CONVICTING = 2  # bad pairs with different partners, each of them good with somebody else


@dataclass(frozen=True, slots=True)
class Tried:
    """One pair that was tested. `good`: None if nothing could be said (no result, or nothing to compare it with)."""

    nodes: frozenset[str]
    good: bool | None


def circle(nodes: Sequence[str]) -> tuple[tuple[Pair, ...], ...]:
    """Rounds of disjoint pairs in which everybody meets everybody once: n-1 rounds, n with a rotating bye if n is odd.

    The circle method: one seat is fixed, the others move on by one each round; who sits opposite is the partner.
    """
    seats: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        rounds.append(tuple((a, b) for a, b in facing if a is not None and b is not None))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return tuple(rounds)


def first_round(suspects: Sequence[str], partners: Sequence[str]) -> tuple[Pair, ...]:
    """Each suspect with a partner where there are enough, else the rest among themselves; spare partners too.

    A pair of two spare partners gives the measure for the others, and known-good nodes for the next round.
    """
    with_partner = list(zip(suspects, partners, strict=False))
    left = [*suspects[len(partners) :], *partners[len(suspects) :]]
    return (*with_partner, *_neighbours(left))


def _neighbours(nodes: Sequence[str]) -> Iterator[Pair]:
    return zip(nodes[::2], nodes[1::2], strict=False)


def next_round(tried: Iterable[Tried], suspects: Collection[str], partners: Collection[str]) -> tuple[Pair, ...]:
    """The disjoint pairs that say most after what was tried; empty: there is nothing left to ask.

    Open questions, in this order: a suspect in a bad pair, or in none that says anything; then the partner in a bad
    pair, whose own innocence is what convicts the other. Each is asked with a node from a good pair, or with a partner
    that nothing speaks against, and never with one that it was tried with before.
    """
    known = list(tried)
    ahead, behind = (suspects, partners) if _known_good(known) else (partners, suspects)  # a measure comes first
    open_nodes = [node for node in (*ahead, *behind) if _is_open(node, known, node in partners)]
    order = {node: rank for rank, node in enumerate((*_known_good(known), *partners, *suspects))}
    used: set[str] = set()
    pairs: list[Pair] = []
    for node in open_nodes:
        fit = [] if node in used else _fit(node, known, order, used, open_nodes)
        if fit:
            pairs.append((node, fit[0]))
            used |= {node, fit[0]}
    return tuple(pairs)


def _fit(
    node: str, known: Sequence[Tried], order: Mapping[str, int], used: Collection[str], open_nodes: Sequence[str]
) -> list[str]:
    """Whom `node` may be tested with next, the best first: known good, then those that no question is open about."""
    met = {other for each in known if node in each.nodes for other in each.nodes}
    good = set(_known_good(known))
    fit = [other for other in order if other not in met | set(used) | {node}]
    fit = [other for other in fit if other in good or _never_bad(other, known) or _all_bad(known, order, good)]
    return sorted(fit, key=lambda other: (other not in good, other in open_nodes, order[other]))


def _known_good(known: Iterable[Tried]) -> list[str]:
    """Members of good pairs: those with the fewest bad pairs first."""
    bad: dict[str, int] = {}
    good: dict[str, None] = {}
    for each in known:
        for node in sorted(each.nodes):
            bad[node] = bad.get(node, 0) + (each.good is False)
            if each.good:
                good[node] = None
    return sorted(good, key=lambda node: bad[node])


def _never_bad(node: str, known: Iterable[Tried]) -> bool:
    return not any(each.good is False for each in known if node in each.nodes)


def _all_bad(known: Sequence[Tried], nodes: Collection[str], good: Collection[str]) -> bool:
    """No node is known good and none is untouched: members of bad pairs then have only each other."""
    return not good and not any(_never_bad(node, known) for node in nodes)


def _is_open(node: str, known: Sequence[Tried], is_partner: bool) -> bool:
    """Whether another pair would say something about `node`."""
    mine = [each for each in known if node in each.nodes]
    num_good = sum(each.good is True for each in mine)
    if num_good or (is_partner and not mine):
        return False
    return num_acquitted(node, known) < CONVICTING


def num_acquitted(node: str, known: Iterable[Tried]) -> int:
    """How many nodes of bad pairs with `node` are good with somebody else: the witnesses against it."""
    tests = list(known)
    bad = {other for each in tests if node in each.nodes and each.good is False for other in each.nodes} - {node}
    return sum(any(each.good for each in tests if other in each.nodes and node not in each.nodes) for other in bad)
