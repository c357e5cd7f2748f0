import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from guardctl.judge.peers import others

VALUES = st.lists(st.integers(0, 9).map(float), min_size=2, max_size=12)


@given(VALUES)
def test_others_is_the_median_and_mad_without_each(values: list[float]) -> None:
    medians, mads = others(np.array(values))
    for i in range(len(values)):
        rest = np.array(values[:i] + values[i + 1 :])
        assert medians[i] == np.median(rest)
        assert mads[i] == np.median(np.abs(rest - np.median(rest)))


@given(VALUES, st.integers(0, 5))
def test_unknown_values_count_for_nobody(values: list[float], at: int) -> None:
    holed = [*values[:at], float("nan"), *values[at:]]
    medians, mads = others(np.array(holed))
    assert np.isnan(medians[min(at, len(values))])
    assert np.array_equal(medians[~np.isnan(holed)], others(np.array(values))[0])
    assert np.array_equal(mads[~np.isnan(holed)], others(np.array(values))[1])


def test_one_alone_has_no_peers() -> None:
    medians, mads = others(np.array([3.0]))
    assert np.isnan(medians[0])
    assert np.isnan(mads[0])
