"""Scores: each rank's busy time, and each node's own signals, against the peers in the same job, window by window.

A score says in how many windows the node was past the policy's limit; whether that is enough is the verdict's matter.
A window without data is unknown: it counts neither as slow nor as sound. No published tool gives its formula; ours is
the ratio to the peers' median together with a number of MADs, over k of n windows, each with its precedent in
guardctl.words.policy.
"""

from collections.abc import Mapping
from datetime import datetime

import numpy as np
import pandas as pd

from guardctl.judge import counters, tables
from guardctl.judge.gpus import scores as gpu_scores
from guardctl.judge.peers import compare
from guardctl.judge.summary import WORKER, summarise
from guardctl.words.policy import Policy
from guardctl.words.records import Kind, Score, Source

FASTEST = 0.1  # the quantile of round trips that stands for an empty queue

# --- steps ----------------------------------------------------------------------------------------------------------


def rate(steps: pd.DataFrame, policy: Policy, now: datetime) -> list[Score]:
    """One score per rank and job: its busy time against the other ranks of the same job and pipeline stage.

    `relative`: the peers' median over its own, the median over the windows; 0.5: half as fast as its peers. Where every
    rank says its tokens, a rank is slow only if it is so per token too: a longer sequence is work, not a fault. A
    rank with fewer than `min_peers` peers in a window has no score there.
    """
    if steps.empty:
        return []
    table = _per_window(steps, policy, now)
    by_time, by_token = (_slower(table, column, policy) for column in ("busy_s", "busy_per_token"))
    relative = np.fmax(by_time["relative"], by_token["relative"])
    table = by_time.assign(value=table["busy_s"], slow=by_time["slow"] & by_token["slow"], relative=relative)
    return summarise(table, Kind.STEPS, "busy_s", "s", policy)


def _per_window(steps: pd.DataFrame, policy: Policy, now: datetime) -> pd.DataFrame:
    """Median busy time by rank and window: columns group, stage, node, gpu, rank, window, busy_s, busy_per_token."""
    rows = steps.assign(
        group=steps["job_id"].astype(str), busy_s=tables.numbers(steps, "busy_s"), uuid="",
        stage=tables.numbers(steps, "stage").fillna(-1.0), gpu=tables.numbers(steps, "gpu").fillna(-1.0),
    )  # fmt: skip
    rows = tables.windowed(rows[rows["busy_s"] > 0], policy, now)
    rows = rows.assign(busy_per_token=rows["busy_s"] / _tokens(rows))
    medians = rows.groupby([*WORKER, "rank", "stage", "window"], as_index=False).agg(
        busy_s=("busy_s", "median"), busy_per_token=("busy_per_token", "median"), num_steps=("busy_s", "size")
    )
    return medians[medians["num_steps"] >= policy.judge.min_steps]


def _tokens(rows: pd.DataFrame) -> pd.Series:
    """Tokens of each step; 1 for all steps of a job in which a single one did not say."""
    tokens = tables.numbers(rows, "tokens")
    known = (tokens > 0).groupby(rows["group"]).transform("all")
    return tokens.where(known, 1.0)


def _slower(table: pd.DataFrame, column: str, policy: Policy) -> pd.DataFrame:
    """The table with `slow`, `relative` and the peers behind them; a time is compared, so more is worse."""
    table = compare(table, column, ["group", "stage", "window"])
    excess = table[column] - table["peers"]
    slow = (excess > policy.judge.slow_fraction * table["peers"]) & (excess > policy.judge.mad_factor * table["mad"])
    return table.assign(slow=slow, relative=table["peers"] / table[column])


# --- the system's own signals ---------------------------------------------------------------------------------------


def signals(telemetry: pd.DataFrame, groups: Mapping[str, str], policy: Policy, now: datetime) -> list[Score]:
    """Scores by what the nodes themselves report, each against the nodes of its group.

    `groups` maps a node to the job that it runs; idle nodes (empty, or not in it) are compared with nobody: low clocks
    at idle are normal.
    """
    if telemetry.empty:
        return []
    group = telemetry["node"].map(lambda node: groups.get(node, ""))
    telemetry = telemetry.assign(group=group)[group != ""]
    return [
        *gpu_scores(tables.of_source(telemetry, Source.GPU), policy, now),
        *_throttled(tables.of_source(telemetry, Source.HOST), policy, now),
        *_network(tables.of_source(telemetry, Source.NET), policy, now),
    ]


def _throttled(host: pd.DataFrame, policy: Policy, now: datetime) -> list[Score]:
    """Share of time in which the cgroup's quota held the job back; over 1 where several processors waited at once."""
    table = _against_nodes(host, "throttled_s", policy, now)
    slow = table["value"] - table["peers"] >= policy.judge.throttled_excess
    return summarise(table.assign(slow=slow), Kind.HOST, "throttled_share", "", policy)


def _network(net: pd.DataFrame, policy: Policy, now: datetime) -> list[Score]:
    """What the node's TCP and its queue count, per second: over the policy's floor and far over the peers."""
    found: list[Score] = []
    for kind, signal, column, floor in (
        (Kind.TRANSPORT, "retransmits_per_s", "tcp_retransmits", policy.judge.retransmits_per_s),
        (Kind.LINK, "queue_drops_per_s", "qdisc_drops", policy.judge.drops_per_s),
        (Kind.LINK, "queue_delays_per_s", "qdisc_overlimits", policy.judge.delays_per_s),
    ):
        table = _against_nodes(net, column, policy, now)
        slow = (table["value"] > floor) & (table["value"] > policy.judge.net_factor * table["peers"])
        found += summarise(table.assign(slow=slow), kind, signal, "per s", policy)
    return [*found, *_round_trips(net, policy, now)]


def _round_trips(net: pd.DataFrame, policy: Policy, now: datetime) -> list[Score]:
    """TCP round trips against the tenth of the group that waits least.

    A full queue is felt by all who send into it, so that the median of a small job is no measure of an empty one.
    """
    rows = tables.windowed(net.assign(value=tables.numbers(net, "tcp_rtt_ms")), policy, now).dropna(subset=["value"])
    means = rows.groupby(["group", "node", "window"], as_index=False)[["value"]].median()
    table = compare(means.assign(gpu=-1.0, uuid="", relative=np.nan), "value", ["group", "window"])
    least = table.groupby(["group", "window"])["value"].transform("quantile", FASTEST)
    slow = (table["value"] > policy.judge.rtt_ms) & (table["value"] > policy.judge.net_factor * least)
    return summarise(table.assign(slow=slow, peers=least), Kind.TRANSPORT, "tcp_rtt_ms", "ms", policy)


def _against_nodes(readings: pd.DataFrame, column: str, policy: Policy, now: datetime) -> pd.DataFrame:
    """Rate of a counter by node and window, with its peers; `relative` is NaN: it is no speed."""
    table = counters.per_window(readings, column, policy, now).assign(gpu=-1.0, uuid="", relative=np.nan)
    return compare(table, "value", ["group", "window"])
