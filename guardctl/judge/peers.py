"""How each of a set of values compares with all the others: the median and the spread without itself.

Leaving oneself out matters in small groups: with four ranks, a slow one would sit in its own measure.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def others(values: Floats) -> tuple[Floats, Floats]:
    """For each value the median of all others, and their MAD (median absolute deviation, not scaled), as arrays.

    Values that are NaN count for nobody and get NaN. In O(n log n): without one value the median is one of at most
    four numbers near the middle, so at most four sets of deviations are sorted.
    """
    medians, mads = np.full_like(values, np.nan), np.full_like(values, np.nan)
    known = np.flatnonzero(~np.isnan(values))
    if len(known) > 1:
        medians[known] = _median_without(values[known])
        for centre in np.unique(medians[known]):
            same = medians[known] == centre
            mads[known[same]] = _median_without(np.abs(values[known] - centre))[same]
    return medians, mads


def compare(table: pd.DataFrame, column: str, by: Sequence[str]) -> pd.DataFrame:
    """The table with `peers`, `mad` and `num_peers` of `column` in each group of `by` (whose columns have no NaN)."""
    values = table[column].to_numpy(dtype="float64")
    peers, mad = np.full_like(values, np.nan), np.full_like(values, np.nan)
    num_peers = np.zeros(len(values), dtype="int64")
    for rows in table.groupby(list(by), sort=False).indices.values():
        peers[rows], mad[rows] = others(values[rows])
        num_known = int(np.count_nonzero(~np.isnan(values[rows])))
        num_peers[rows] = np.where(np.isnan(values[rows]), 0, num_known - 1)
    return table.assign(peers=peers, mad=mad, num_peers=num_peers)


def _median_without(values: Floats) -> Floats:
    """For each value the median of the others, by its place in sorted order."""
    order = np.argsort(values, kind="stable")
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values))
    ordered, num_left = values[order], len(values) - 1
    low, high = (num_left - 1) // 2, num_left // 2
    result: Floats = (_at_without(ordered, low, place) + _at_without(ordered, high, place)) / 2
    return result


def _at_without(ordered: Floats, index: int, removed: Ints) -> Floats:
    """What stands at `index` of a sorted array after the value at each place in `removed` has gone."""
    result: Floats = ordered[index + (removed <= index)]
    return result
