"""The shell around a sweep: start it, take it a step further, cancel it, say how far it is.

Everything a sweep knows is in its folder `<state>/sweeps/<id>/`, so whoever takes it further (under its lock) may be
killed at any line: a job that was submitted but not yet written down is found again by its name.
"""

import fcntl
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from guardctl.cluster.protocol import Cluster, Submission
from guardctl.cluster.records import Job, Snapshot
from guardctl.sweep import baseline, blame, files, state, steps
from guardctl.sweep.results import GemmResult, PairResult, Result, read
from guardctl.sweep.state import Phase, Stage, Sweep, Test
from guardctl.sweep.submit import Place, gemm_submission, pair_submission
from guardctl.words.errors import BusyError, GuardError, InputError
from guardctl.words.policy import Policy

log = logging.getLogger(__name__)


def start(
    policy: Policy,
    *,
    suspects: Sequence[str],
    partners: Sequence[str] = (),
    reservation: str = "",
    now: datetime,
    kinds: Mapping[str, Sequence[str]] | None = None,
    baselines: baseline.Baselines | None = None,
) -> Sweep:
    """A new sweep, written to its folder; the first `step` submits its jobs. Arguments and errors as for `new`."""
    sweep = new(policy, suspects=suspects, partners=partners, reservation=reservation, now=now, kinds=kinds,
                baselines=baselines)  # fmt: skip
    return state.save(steps.first(sweep), policy.state_dir)


def new(
    policy: Policy,
    *,
    suspects: Sequence[str],
    partners: Sequence[str] = (),
    reservation: str = "",
    now: datetime,
    kinds: Mapping[str, Sequence[str]] | None = None,
    baselines: baseline.Baselines | None = None,
) -> Sweep:
    """A new sweep as a value, nothing planned yet.

    `kinds`: kinds of signal behind each suspect. `baselines`: from `guardctl.sweep.baseline.from_events`. Raises
    InputError if a node is named twice or there is no suspect.
    """
    names = (*suspects, *partners)
    if not suspects or len(set(names)) < len(names):
        raise InputError(f"a sweep needs suspects, and every node once: {', '.join(names) or 'no node'}")
    longest_s = policy.sweep.time_limit_s * (1 + policy.sweep.max_rounds)
    return Sweep(
        id=state.new_id(now),
        nodes=tuple(suspects),
        partners=tuple(partners),
        reservation=reservation,
        started_at=now,
        deadline_at=now + timedelta(seconds=longest_s + policy.sweep.time_limit_s),
        kinds={node: tuple(each) for node, each in (kinds or {}).items()},
        baselines=dict(baselines or {}),
    )


@contextmanager
def locked(sweep: Sweep, policy: Policy) -> Iterator[None]:
    """Nobody else takes this sweep a step further within the block. Raises BusyError if somebody does just now."""
    folder = state.folder_of(policy.state_dir, sweep.id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("a")
    except OSError as error:
        raise GuardError(f"{folder}/lock: cannot be opened: {error.strerror}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            hint = "`guardctl sweep show` says how far it is"
            raise BusyError(f"sweep {sweep.id} is in other hands now", hint=hint) from error
        yield


def active(policy: Policy) -> list[Sweep]:
    """Sweeps that run, or whose outcomes nobody has collected yet; one that cannot be read is logged and left out."""
    found = []
    for sweep_id in state.ids(policy.state_dir):
        try:
            sweep = state.load(policy.state_dir, sweep_id)
        except GuardError as error:
            log.warning("left out: %s", error)
            continue
        found += [] if sweep.done and sweep.collected else [sweep]
    return found


def collect(sweep: Sweep, policy: Policy) -> Sweep:
    """The sweep, marked as one whose outcomes are in the ledger."""
    return state.save(replace(sweep, collected=True), policy.state_dir) if sweep.done else sweep


def results_of(sweep: Sweep, policy: Policy) -> list[Result]:
    """What the sweep's jobs have written so far."""
    return read(state.folder_of(policy.state_dir, sweep.id))


def gemm_results(results: Iterable[Result]) -> list[GemmResult]:
    """Of each GPU alone, the faster attempt."""
    return blame.best(each for each in results if isinstance(each, GemmResult))


def pair_results(results: Iterable[Result]) -> list[PairResult]:
    """Of the pairs."""
    return [each for each in results if isinstance(each, PairResult)]


def references(sweep: Sweep, results: Sequence[Result]) -> tuple[baseline.References, baseline.References]:
    """What the results of GPUs alone, and of pairs, are measured against in this sweep."""
    alone = baseline.gemm_references(gemm_results(results), sweep.partners, sweep.baselines)
    return alone, steps.judged_pairs(sweep, results)[1]


def passed_values(sweep: Sweep, policy: Policy) -> list[tuple[str, dict[str, object]]]:
    """Node and `detail` of a BASELINE event for each value of nodes that passed, partners too."""
    passed = [each.node for each in (*sweep.outcomes, *sweep.partner_outcomes) if each.result == "PASSED"]
    return baseline.details(results_of(sweep, policy), passed) if sweep.done else []


# --- one step -------------------------------------------------------------------------------------------------------


def advance(
    sweep: Sweep,
    job_states: Mapping[str, Job | None],
    results: Sequence[Result],
    policy: Policy,
    now: datetime,
    *,
    place: Place,
) -> tuple[Sweep, tuple[Submission, ...]]:
    """The sweep one step further and the jobs to submit for it, in the order of its planned tests. Pure."""
    further = steps.follow(sweep, job_states, results, policy, now)
    planned = [test for test in further.tests if test.phase is Phase.PLANNED]
    return further, tuple(_submission(test, place, policy) for test in planned)


def _submission(test: Test, place: Place, policy: Policy) -> Submission:
    if test.round == 0:
        return gemm_submission(test.name, test.nodes[0], test.attempt, place, policy)
    return pair_submission(test.name, (test.nodes[0], test.nodes[1]), test.round, place, policy)


def step(sweep: Sweep, cluster: Cluster, policy: Policy, now: datetime, *, snapshot: Snapshot | None = None) -> Sweep:
    """One step for real: look, decide, write down, submit, write down. Raises `ClusterError` if Slurm is silent.

    Goes on from the sweep's file, because the value may be older. `snapshot`: of this tick, where there is one.
    """
    sweep = state.load(policy.state_dir, sweep.id)
    if sweep.done:
        return sweep
    place = place_of(sweep, policy)
    snapshot = snapshot or cluster.snapshot(now)
    sweep = _recovered(sweep, snapshot, results_of(sweep, policy), now)
    jobs = _job_states(sweep, snapshot, cluster)
    sweep, submissions = advance(sweep, jobs, results_of(sweep, policy), policy, now, place=place)
    state.save(sweep, policy.state_dir)
    _cancel_lost(sweep, cluster, jobs)
    for submission in submissions:
        sweep = state.save(_submitted(sweep, submission.name, cluster.submit(submission), now), policy.state_dir)
    return sweep


def place_of(sweep: Sweep, policy: Policy) -> Place:
    """Where this sweep's jobs find what they need. Absolute paths, because jobs start somewhere else."""
    folder = state.folder_of(policy.state_dir, sweep.id).absolute()
    return Place(files.folder(), policy.sweep.python or sys.executable, Path(folder), sweep.reservation)


def _recovered(sweep: Sweep, snapshot: Snapshot, results: Sequence[Result], now: datetime) -> Sweep:
    """Planned tests that were submitted already, by the name of their job, or because their result is there."""
    by_name = {job.name: job.job_id for job in snapshot.jobs.values()}
    for test in sweep.tests:
        if test.phase is not Phase.PLANNED:
            continue
        if test.name in by_name:
            sweep = _submitted(sweep, test.name, by_name[test.name], now)
        elif steps.has_result(test, results):
            sweep = sweep.with_test(replace(test, phase=Phase.ENDED, since_at=now))
    return sweep


def _submitted(sweep: Sweep, name: str, job_id: str, now: datetime) -> Sweep:
    test = next(each for each in sweep.tests if each.name == name)
    return sweep.with_test(replace(test, phase=Phase.SUBMITTED, job_id=job_id, since_at=now))


def _job_states(sweep: Sweep, snapshot: Snapshot, cluster: Cluster) -> dict[str, Job | None]:
    """What Slurm says about the jobs that are still to end; one that the bulk query lacks is asked for by its id."""
    waiting = [test.job_id for test in sweep.tests if test.phase is Phase.SUBMITTED and test.job_id is not None]
    return {job_id: snapshot.jobs.get(job_id) or cluster.job(job_id) for job_id in waiting}


def _cancel_lost(sweep: Sweep, cluster: Cluster, jobs: Iterable[str]) -> None:
    """Jobs that the sweep has given up must not run later, when the node is somebody else's again."""
    asked = set(jobs)
    lost = [test.job_id for test in sweep.tests if test.phase is Phase.LOST and test.job_id in asked]
    if lost:
        cluster.cancel([job_id for job_id in lost if job_id is not None])


def cancel(sweep: Sweep, cluster: Cluster, policy: Policy, now: datetime) -> Sweep:
    """The sweep, ended: its jobs are cancelled and what they had not answered is inconclusive."""
    sweep = state.load(policy.state_dir, sweep.id)
    running = [test.job_id for test in sweep.tests if test.phase is Phase.SUBMITTED and test.job_id is not None]
    if running:
        cluster.cancel(running)
    words = "was cancelled by a person"
    stopped = (t if t.over else replace(t, phase=Phase.CANCELLED, words=words, since_at=now) for t in sweep.tests)
    sweep = replace(sweep, tests=tuple(stopped), deadline_at=min(now, sweep.deadline_at))
    return state.save(steps.follow(sweep, {}, results_of(sweep, policy), policy, now), policy.state_dir)


def progress(sweep: Sweep, now: datetime) -> tuple[int, int, str]:
    """Tests that are over, tests known so far, and a line for a person."""
    num_over, num_tests = sum(test.over for test in sweep.tests), len(sweep.tests)
    if sweep.done:
        return num_tests, num_tests, f"done: {', '.join(f'{each.node} {each.result}' for each in sweep.outcomes)}"
    waiting = [",".join(test.nodes) for test in sweep.tests if not test.over]
    what = "each node alone" if sweep.stage is Stage.GEMM else f"pairs, round {sweep.round}"
    minutes = (now - sweep.started_at).total_seconds() / 60
    return num_over, num_tests, f"{what}: {num_over} of {num_tests} tests over, {minutes:.0f} min; {' '.join(waiting)}"
