from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardctl.plan import inner
from guardctl.plan.cost import pipeline_time

SLOWNESS = st.sampled_from([1.0, 1.4, 1.91, 2.57, 3.77])


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[list[float], list[int], int]:
    slow = draw(st.lists(SLOWNESS, min_size=1, max_size=3))
    caps = draw(st.lists(st.integers(1, 6), min_size=len(slow), max_size=len(slow)))
    return slow, caps, draw(st.integers(1, 12))


def all_layers(caps: list[int], num_layers: int) -> Iterator[tuple[int, ...]]:
    return (each for each in product(*(range(1, cap + 1) for cap in caps)) if sum(each) == num_layers)


def longest(slow: list[float], layers: tuple[int, ...]) -> float:
    return max(y * num for y, num in zip(slow, layers, strict=True))


@given(pipelines())
def test_shortest_longest_stage(case: tuple[list[float], list[int], int]) -> None:
    slow, caps, num_layers = case
    found = inner.shortest(slow, caps, num_layers)
    best = min((longest(slow, each) for each in all_layers(caps, num_layers)), default=None)
    if found is None:
        assert best is None
    else:
        assert sum(found) == num_layers
        assert longest(slow, found) == pytest.approx(best)


@given(pipelines(), st.integers(0, 30))
def test_splits_hold_the_best_layers_for_any_micro_batches(case: tuple[list[float], list[int], int], more: int) -> None:
    slow, caps, num_layers = case
    num = len(slow) + more
    found = min((pipeline_time(slow, s.layers, num) for s in inner.splits(slow, caps, num_layers)), default=None)
    best = min((pipeline_time(slow, each, num) for each in all_layers(caps, num_layers)), default=None)
    assert found == (None if best is None else pytest.approx(best))


@settings(deadline=None)
@given(st.lists(pipelines(), min_size=1, max_size=3), st.integers(1, 9))
def test_layers_and_micro_batches_together(cases: list[tuple[list[float], list[int], int]], num: int) -> None:
    options = [inner.splits(*case) for case in cases]
    found = inner.assign(options, num)

    def least(counts: tuple[int, ...]) -> float:
        return max(
            min(pipeline_time(case[0], split.layers, m) for split in each)
            for case, each, m in zip(cases, options, counts, strict=True)
        )

    ways = [each for each in product(*(range(len(case[0]), num + 1) for case in cases)) if sum(each) == num]
    best = min((least(each) for each in ways), default=None) if all(options) else None
    assert (found is None) == (best is None)
    if found is not None:
        assert found.step_time == pytest.approx(best)
        assert sum(found.micro_batches) == num
        assert all(m >= len(case[0]) for case, m in zip(cases, found.micro_batches, strict=True))


def test_no_pipelines_have_no_solution() -> None:
    assert inner.assign([], 4) is None
