"""Tables for the judge's tests: a job's steps and its nodes' telemetry over the last windows, on the wall clock."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from guardctl.words.policy import Policy

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
POLICY = Policy()
SPAN_S = POLICY.judge.window_s * POLICY.judge.windows
Signals = Callable[[int], Mapping[str, Any]]  # number of the sample -> its signals
Busy = Callable[[int, int], float]  # rank, window -> busy seconds


def times(period_s: float, span_s: float = SPAN_S) -> list[datetime]:
    """From the first full period after the oldest window's beginning up to now."""
    return [NOW - timedelta(seconds=span_s - (i + 1) * period_s) for i in range(int(span_s / period_s))]


def steps(num_ranks: int, busy_s: Busy, *, ranks_per_node: int = 1, noise: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """A step every 10 s, six in each window."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "job_id": "7", "rank": rank, "node": f"n{rank // ranks_per_node}", "gpu": rank % ranks_per_node, "step": i,
            "busy_s": busy_s(rank, i // 6) * (1 + noise * rng.standard_normal()), "at": at,
        }
        for i, at in enumerate(times(10.0))
        for rank in range(num_ranks)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def telemetry(source: str, values: Mapping[str, Signals], device: str = "") -> pd.DataFrame:
    """A reading every 30 s, one before the windows: `values` maps a node to its signals at sample i."""
    rows = [
        {"node": node, "source": source, "device": device, "uuid": None, "boot_id": "b", "at": at, **signals(i)}
        for node, signals in values.items()
        for i, at in enumerate(times(30.0, SPAN_S + 60.0))
    ]
    return pd.DataFrame(rows)
