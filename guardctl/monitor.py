"""The background monitor. Read `tick` first: observe, judge, decide, act, record.

One tick asks Slurm once for nodes, jobs and reservations, reads the spool, and does what follows. All that it knows
lies in the ledger, in Slurm and in the spool, so it may be killed at any line and started again; one runs at a time.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import pandas as pd

from guardctl.act import outcomes
from guardctl.act.decide import decide
from guardctl.act.lock import held
from guardctl.act.perform import World, perform, rehearse
from guardctl.act.reconcile import reconcile
from guardctl.cluster.dryrun import DryRun
from guardctl.cluster.records import Job, Snapshot
from guardctl.judge import checks, inventory, score, tables, verdict
from guardctl.ledger.hardware import Gpu
from guardctl.observe import spool, steps, verdict_file
from guardctl.sweep import run as sweep_run
from guardctl.sweep.state import Sweep
from guardctl.words.errors import BusyError, ClusterError, GuardError
from guardctl.words.policy import Policy
from guardctl.words.records import Action, Event, EventKind, Finding, Health, Kind, Score, Standing, State, Verdict

log = logging.getLogger(__name__)
SCORES = "scores.json"
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
    happened += take_inventory(telemetry, world, now)
    scores, findings, verdicts = conclude(telemetry, step_table, snapshot, standings, world.policy, now)
    actions = decide(verdicts, standings, snapshot, world.policy, now,
                     drains_at=_drains_at(world, now), stopped=world.policy.kill_switch.exists())  # fmt: skip
    done = perform(actions, standings, world)
    standings = world.ledger.standings(now)
    publish(world.policy, scores, verdicts, standings, now)
    return Tick(now, snapshot, standings, tuple(scores), tuple(findings), tuple(verdicts), actions, (*happened, *done))


# --- what is true now -----------------------------------------------------------------------------------------------


def _refuse_partial(world: World, snapshot: Snapshot) -> None:
    """A sudden drop in the number of nodes is an answer in part (PrivateData, hidden partitions), no small cluster."""
    num_nodes, now = len(snapshot.nodes), world.clock()
    known = world.ledger.meta(NUM_NODES) or {"count": num_nodes}
    since = datetime.fromisoformat(known["fewer_since"]) if known.get("fewer_since") else now
    settled = now - since >= timedelta(seconds=world.policy.act.window_s)
    if num_nodes >= known["count"] * (1 - world.policy.act.max_lost_percent / 100) or settled:
        world.ledger.set_meta(NUM_NODES, {"count": num_nodes})
        return
    world.ledger.set_meta(NUM_NODES, {**known, "fewer_since": since.isoformat()})
    raise ClusterError(
        f"Slurm shows {num_nodes} nodes, {known['count']} before: taken for an answer in part, nothing was done",
        hint=f"if nodes were really removed, the new number counts after {world.policy.act.window_s:g} s",
    )


def _catch_up(world: World, snapshot: Snapshot, now: datetime) -> list[Event]:
    """What happened since the last tick: by people, by Slurm, and in our own sweeps."""
    prefix = world.policy.quarantine.reservation_prefix
    events = world.record(*reconcile(snapshot, world.ledger.standings(now), now, prefix=prefix))
    if world.policy.kill_switch.exists():
        return events  # a step of a sweep submits and cancels jobs
    for sweep in sweep_run.active(world.policy):
        try:
            with sweep_run.locked(sweep, world.policy):
                events += advance(sweep, world, snapshot, now)
        except BusyError:
            log.debug("sweep %s is in the hands of a person", sweep.id)
        except ClusterError as error:
            log.error("sweep %s waits: %s", sweep.id, error)
    return events


def advance(sweep: Sweep, world: World, snapshot: Snapshot, now: datetime) -> list[Event]:
    """One step of a sweep; when it is done, its outcomes go to the ledger."""
    if not sweep.done and _is_orphaned(sweep, world.ledger.standings(now), snapshot):
        sweep = sweep_run.cancel(sweep, world.cluster, world.policy, now)
    sweep = sweep_run.step(sweep, world.cluster, world.policy, now, snapshot=snapshot)
    if not sweep.done:
        return []
    return sweep_ended(sweep, world)


def _is_orphaned(sweep: Sweep, standings: Mapping[str, Standing], snapshot: Snapshot) -> bool:
    """A sweep of a quarantine that is over: its reservation is gone, or people took all of its suspects over."""
    waiting = [node for node in sweep.nodes if standings.get(node, Standing(node)).sweep == sweep.id]
    return bool(sweep.reservation) and (sweep.reservation not in snapshot.reservations or not waiting)


def _drains_at(world: World, now: datetime) -> list[datetime]:
    """When we took nodes out lately, once per incident: a quarantined node that fails its sweep was out already."""
    since = now - timedelta(seconds=world.policy.act.window_s)
    drains = world.ledger.events(since=since, kinds=[EventKind.DRAINED])
    return list({event.incident: event.at for event in reversed(drains)}.values())


# --- what it means --------------------------------------------------------------------------------------------------


def take_inventory(telemetry: pd.DataFrame, world: World, now: datetime) -> Sequence[Event]:
    """Which GPU is where, by UUID: news of it is in the ledger, so that a moved card keeps its past."""
    seen = [
        Gpu(str(each["uuid"]), str(each["node"]), str(each["slot"]), each["serial"], each["board"], each["name"],
            each["boot_id"])
        for each in inventory.gpus(telemetry)
    ]  # fmt: skip
    return world.ledger.record_hardware(
        seen, now, actor=f"{world.user}@{world.host}", version=world.version, policy_hash=world.policy.digest
    )


def conclude(
    telemetry: pd.DataFrame,
    step_table: pd.DataFrame,
    snapshot: Snapshot,
    standings: Mapping[str, Standing],
    policy: Policy,
    now: datetime,
) -> tuple[list[Score], list[Finding], list[Verdict]]:
    """Scores, findings and verdicts, from what `look` gave."""
    findings = checks.latest(telemetry, policy)
    scores = judge_scores(telemetry, step_table, snapshot, policy, now)
    return scores, findings, verdict.judge(scores, findings, standings, policy, now)


def look(
    snapshot: Snapshot, standings: Mapping[str, Standing], policy: Policy, now: datetime
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Telemetry and steps of the windows that count, without evidence that is spent or from before the node's job."""
    since = now - timedelta(seconds=policy.judge.window_s * (policy.judge.windows + 1))
    telemetry = spool.read(policy.state_dir, list(snapshot.nodes), since)
    owners = {
        job.job_id: steps.Owner(job.uid, frozenset(job.nodes))
        for job in snapshot.jobs.values()
        if job.running and job.uid is not None
    }
    step_table, warnings = steps.read(policy.state_dir, owners, since, policy.observe.max_step_file_bytes)
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
    policy: Policy,
    scores: Sequence[Score],
    verdicts: Sequence[Verdict],
    standings: Mapping[str, Standing],
    now: datetime,
) -> None:
    """The monitor's view for agents (a verdict per node, with an expiry) and for people (the last scores)."""
    worst = {each.node: each for each in sorted(verdicts, key=lambda each: each.hard) if each.node}
    for node in sorted({*worst, *(name for name, each in standings.items() if each.state is not State.HEALTHY)}):
        found, standing = worst.get(node), standings.get(node, Standing(node))
        health = found.health if found else Health.HEALTHY if standing.state is State.HEALTHY else Health.SUSPECT
        why = found.cause if found else standing.why
        expires_at = now.timestamp() + policy.hook.verdict_ttl_s
        said = {"schema": verdict_file.SCHEMA, "node": node, "health": health, "why": why, "expires_at": expires_at}
        verdict_file.replace(policy.state_dir / "verdicts" / f"{node}.json", said)
    _keep_scores(policy, scores, now)


def _keep_scores(policy: Policy, scores: Sequence[Score], now: datetime) -> None:
    """The newest score of each node, device and signal; those of nodes that are idle now stay."""
    kept = {_key(each): (each, at) for each, at in _kept_scores(policy)} | {_key(each): (each, now) for each in scores}
    rows = [{**asdict(each), "at": at.isoformat()} for each, at in kept.values()]
    verdict_file.replace(policy.state_dir / SCORES, {"scores": rows})


def _key(each: Score) -> tuple[str, int | None, str]:
    return each.node, each.gpu, each.signal


def last_scores(policy: Policy, standings: Mapping[str, Standing]) -> list[Score]:
    """The last scores of each node, without what a sweep or a person has settled since."""
    settled = {name: standing.settled_at for name, standing in standings.items() if standing.settled_at}
    return [each for each, at in _kept_scores(policy) if each.node not in settled or at > settled[each.node]]


def _kept_scores(policy: Policy) -> list[tuple[Score, datetime]]:
    """What `_keep_scores` wrote; nothing where there is no such file yet, or not a whole one."""
    try:
        rows = json.loads((policy.state_dir / SCORES).read_text(encoding="utf-8"))["scores"]
        return [(_score(row), datetime.fromisoformat(row["at"])) for row in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s: left out: %s", policy.state_dir / SCORES, error)
        return []


def _score(row: Mapping[str, Any]) -> Score:
    fields: dict[str, Any] = {key: value for key, value in row.items() if key != "at"}
    return Score(**{**fields, "kind": Kind(fields["kind"])})


# --- what people ask for --------------------------------------------------------------------------------------------


def sweep_started(sweep: Sweep, world: World) -> list[Event]:
    """Events for a sweep that a person started."""
    standings, now = world.ledger.standings(world.clock()), world.clock()
    detail = {"sweep": sweep.id, "partners": list(sweep.partners)}
    return [Event(node, now, EventKind.SWEEP_STARTED, f"a sweep asked for by {world.user}",
                  standings.get(node, Standing(node)).incident, detail) for node in sweep.nodes]  # fmt: skip


def sweep_ended(sweep: Sweep, world: World) -> list[Event]:
    """The outcomes of a sweep that a person waited for, recorded."""
    values, now = sweep_run.passed_values(sweep, world.policy), world.clock()
    events = world.record(*outcomes.events(sweep, values, world.ledger.standings(now), now))
    sweep_run.collect(sweep, world.policy)
    return events


def dry_run(world: World, dry: DryRun) -> list[str]:
    """What a tick would decide now, and the exact commands; nothing is changed, recorded or published."""
    now = world.clock()
    snapshot, standings = world.cluster.snapshot(now), world.ledger.standings(now)
    telemetry, step_table = look(snapshot, standings, world.policy, now)
    _, _, verdicts = conclude(telemetry, step_table, snapshot, standings, world.policy, now)
    lines = []
    for action in decide(verdicts, standings, snapshot, world.policy, now, drains_at=_drains_at(world, now)):
        before = len(dry.commands)
        rehearse(action, dry, world.policy)
        lines += [f"# {action.kind} {','.join(action.nodes)}: {action.why}", *dry.commands[before:]]
    return lines or ["# nothing to do"]


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
