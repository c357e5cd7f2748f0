"""The background monitor. Read `tick` first: observe, judge, decide, act, record.

One tick asks Slurm once for nodes, jobs and reservations, reads the spool, and does what follows. All that it knows
lies in the ledger, in Slurm and in the spool, so it may be killed at any line and started again; one runs at a time.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd

from guardctl.act.decide import decide
from guardctl.act.lock import held
from guardctl.act.perform import World, perform
from guardctl.act.reconcile import reconcile
from guardctl.cluster.records import Job, Snapshot
from guardctl.judge import checks, score, tables, verdict
from guardctl.observe import spool, steps, verdict_file
from guardctl.sweep import run as sweep_run
from guardctl.words.errors import ClusterError, GuardError
from guardctl.words.policy import Policy
from guardctl.words.records import Action, Event, EventKind, Finding, Score, Standing, Verdict

log = logging.getLogger(__name__)
NUM_NODES = "num_nodes"  # the key in the ledger's meta table


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick saw and did."""

    at: datetime
    snapshot: Snapshot
    standings: Mapping[str, Standing]
    scores: tuple[Score, ...]
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    actions: tuple[Action, ...]
    events: tuple[Event, ...]


def tick(world: World) -> Tick:
    """One pass of the loop. Raises `ClusterError`, before anything was done, if Slurm does not answer in full."""
    now = world.clock()
    snapshot = world.cluster.snapshot(now)
    _refuse_partial(world, snapshot)
    happened = _catch_up(world, snapshot, now)
    standings = world.ledger.standings(now)
    telemetry, step_table = look(snapshot, standings, world.policy, now)
    findings = checks.latest(telemetry, world.policy)
    scores = judge_scores(telemetry, step_table, snapshot, world.policy, now)
    verdicts = verdict.judge(scores, findings, standings, world.policy, now)
    actions = decide(verdicts, standings, snapshot, world.policy, now,
                     drains_at=_drains_at(world, now), stopped=world.policy.kill_switch.exists())  # fmt: skip
    done = perform(actions, standings, world)
    standings = world.ledger.standings(now)
    publish(world.policy, scores, verdicts, standings, now)
    return Tick(now, snapshot, standings, tuple(scores), tuple(findings), tuple(verdicts), actions, (*happened, *done))


# --- what is true now -----------------------------------------------------------------------------------------------


def _refuse_partial(world: World, snapshot: Snapshot) -> None:
    """A sudden drop in the number of nodes is an answer in part (hidden partitions, PrivateData), not a small cluster."""
    num_nodes = len(snapshot.nodes)
    before = int(world.ledger.meta(NUM_NODES) or 0)
    world.ledger.set_meta(NUM_NODES, str(num_nodes))
    limit = before * (1 - world.policy.act.max_lost_percent / 100)
    if num_nodes < limit:
        raise ClusterError(
            f"Slurm shows {num_nodes} nodes, {before} at the last tick: taken for an answer in part, nothing was done",
            hint="if nodes were really removed, the next tick accepts the new number",
        )


def _catch_up(world: World, snapshot: Snapshot, now: datetime) -> list[Event]:
    """What happened since the last tick: by people, by Slurm, and in our own sweeps."""
    prefix = world.policy.quarantine.reservation_prefix
    events = world.record(*reconcile(snapshot, world.ledger.standings(now), now, prefix=prefix))
    for sweep in sweep_run.active(world.policy):
        try:
            stepped = sweep_run.step(sweep, world.cluster, world.policy, now)
        except ClusterError as error:
            log.error("sweep %s waits: %s", sweep.id, error)
            continue
        events += world.record(*_outcomes(stepped, world.ledger.standings(now), now))
    return events


def _drains_at(world: World, now: datetime) -> list[datetime]:
    since = now - timedelta(seconds=world.policy.act.window_s)
    return [event.at for event in world.ledger.events(since=since, kinds=[EventKind.DRAINED])]


# --- what it means --------------------------------------------------------------------------------------------------


def look(
    snapshot: Snapshot, standings: Mapping[str, Standing], policy: Policy, now: datetime
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Telemetry and steps of the windows that count, without evidence that is spent or from before the node's job."""
    since = now - timedelta(seconds=policy.judge.window_s * (policy.judge.windows + 1))
    telemetry = spool.read(policy.state_dir, list(snapshot.nodes), since)
    jobs = {job.job_id: job.uid for job in snapshot.jobs.values() if job.running and job.uid is not None}
    step_table, warnings = steps.read(policy.state_dir, jobs, since, policy.observe.max_step_file_bytes)
    for warning in warnings:
        log.warning("%s", warning)
    settled = {name: standing.settled_at for name, standing in standings.items() if standing.settled_at}
    return tables.after(telemetry, settled), tables.after(step_table, settled)


def judge_scores(
    telemetry: pd.DataFrame, step_table: pd.DataFrame, snapshot: Snapshot, policy: Policy, now: datetime
) -> list[Score]:
    """Scores of everything that runs in a job of its own; idle nodes and sweeps have no peers to be slower than."""
    groups, began = {}, {}
    for job in snapshot.jobs.values():
        if _has_peers(job, snapshot, policy):
            groups.update(dict.fromkeys(job.nodes, job.job_id))
            began.update({node: job.start_at for node in job.nodes if job.start_at})
    in_job = tables.after(telemetry, began)
    return [*score.rate(step_table, policy, now), *score.signals(in_job, groups, policy, now)]


def _has_peers(job: Job, snapshot: Snapshot, policy: Policy) -> bool:
    """Whether a job has enough nodes to compare, none of them shared with another job."""
    alone = all(len(snapshot.jobs_on(node)) == 1 for node in job.nodes)
    return job.running and len(job.nodes) > policy.judge.min_peers and alone


# --- what others read -----------------------------------------------------------------------------------------------


def publish(
    policy: Policy, scores: Sequence[Score], verdicts: Sequence[Verdict], standings: Mapping[str, Standing], now: datetime
) -> None:
    """The monitor's view for agents (a verdict per node, with an expiry) and for people (the last scores)."""
    del scores, verdicts, standings, policy, now


# --- the daemon -----------------------------------------------------------------------------------------------------


def run(world: World, period_s: float, on_tick: Callable[[Tick], None], stop: Callable[[], bool]) -> None:
    """Tick every `period_s` until `stop`; trouble is logged and the next tick tries again. Holds the monitor's lock."""
    with held(world.policy.state_dir / "monitor.lock", "monitor"):
        while not stop():
            began = time.monotonic()
            try:
                on_tick(tick(world))
            except GuardError as error:
                log.error("tick without action: %s", error)
            _wait(began + period_s, stop)


def _wait(until: float, stop: Callable[[], bool]) -> None:
    while not stop() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))
