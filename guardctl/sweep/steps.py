"""How a sweep goes on: from what Slurm and the result files say to what is tested next. Pure.

    every node alone, at once -> slow ones once more -> who failed or went silent drops out
    -> pairs, round by round -> outcomes

One slow measurement may be somebody else's doing, so a GPU is slow if it was slow twice.

A person who cancels a job ends that question: nobody is convicted by it, and it is not asked again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from guardctl.cluster.records import Job
from guardctl.sweep import baseline, blame, pairing
from guardctl.sweep.blame import Outcome
from guardctl.sweep.results import GemmResult, PairResult
from guardctl.sweep.results import Result as Line
from guardctl.sweep.state import Phase, Stage, Sweep, Test
from guardctl.words.policy import Policy
from guardctl.words.records import Kind

# Slurm's job states that end a job; any other, also one that is new, is waited for until the sweep's deadline.
ENDS = frozenset({
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "PREEMPTED", "BOOT_FAIL",
    "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL",
})  # fmt: skip
LATE_FILE_S = 60.0  # a shared file system may show a result some seconds after the job that wrote it ended
NEVER_STARTS_S = 120.0  # a job that waits for a node that is down waits for ever
NETWORK = frozenset({Kind.TRANSPORT.value, Kind.LINK.value})


def first(sweep: Sweep) -> Sweep:
    """A new sweep with its first tests planned: every node alone."""
    tests = tuple(
        Test(f"guardctl-{sweep.id}-gemm-{node}", (node,), since_at=sweep.started_at) for node in sweep.everybody
    )
    return replace(sweep, stage=Stage.GEMM, tests=tests)


def follow(
    sweep: Sweep, jobs: Mapping[str, Job | None], results: Sequence[Line], policy: Policy, now: datetime
) -> Sweep:
    """The sweep one step further. `jobs`: by job id what Slurm says now, None: it has forgotten the job.

    The tests that the result holds as PLANNED are to be submitted; nothing else follows from it.
    """
    if sweep.done:
        return sweep
    sweep = replace(sweep, tests=tuple(_followed(test, jobs, results, policy, now) for test in sweep.tests))
    if now >= sweep.deadline_at:
        return _finish(_given_up(sweep, now), results, policy)
    if not all(test.over for test in sweep.tests):
        return sweep
    again = _again(sweep, results, policy, now)
    if again:
        return replace(sweep, tests=(*sweep.tests, *again))
    pairs = _next_pairs(sweep, results, policy)
    if not pairs or sweep.round >= policy.sweep.max_rounds:
        return _finish(sweep, results, policy)
    number = sweep.round + 1
    planned = tuple(Test(f"guardctl-{sweep.id}-r{number}-{a}-{b}", (a, b), number, since_at=now) for a, b in pairs)
    return replace(sweep, stage=Stage.PAIRS, round=number, tests=(*sweep.tests, *planned))


# --- one test -------------------------------------------------------------------------------------------------------


def _followed(
    test: Test, jobs: Mapping[str, Job | None], results: Sequence[Line], policy: Policy, now: datetime
) -> Test:
    if test.phase is not Phase.SUBMITTED or test.job_id is None or test.job_id not in jobs:
        return test
    job = jobs[test.job_id]
    age_s = (now - test.since_at).total_seconds() if test.since_at else 0.0
    if job is not None and job.state.split()[0].rstrip("+") not in ENDS:
        return _waiting(test, job, age_s, policy)
    state = job.state.split()[0].rstrip("+") if job else "COMPLETED"
    if state == "CANCELLED":
        return replace(test, phase=Phase.CANCELLED, words="was cancelled by a person", since_at=now)
    if state == "COMPLETED" and not has_result(test, results):
        return _without_result(test, now)
    words = "" if state == "COMPLETED" else f"ended as {state}"
    return replace(test, phase=Phase.ENDED, words=words, since_at=now)


def _waiting(test: Test, job: Job, age_s: float, policy: Policy) -> Test:
    """A pending job is given up when its node is down, or after the time that one job may take."""
    down = any(word in job.reason.upper().replace("_", "") for word in ("DOWN", "NOTAVAIL", "DRAIN"))
    limit_s = NEVER_STARTS_S if down else policy.sweep.time_limit_s
    if job.state == "PENDING" and age_s > limit_s:
        return replace(
            test, phase=Phase.LOST, words=f"did not start within {limit_s:g} s ({job.reason or 'no reason'})"
        )
    return test


def _without_result(test: Test, now: datetime) -> Test:
    """Ended, as Slurm says, but there is no line: wait a while for the file, then call it lost."""
    if not test.words:
        return replace(test, words="ended without a result", since_at=now)
    late = test.since_at is not None and now - test.since_at > timedelta(seconds=LATE_FILE_S)
    return replace(test, phase=Phase.LOST, since_at=now) if late else test


def has_result(test: Test, results: Iterable[Line]) -> bool:
    """Whether a test has written at least one line."""
    return any(_belongs(each, test) for each in results)


def _belongs(result: Line, test: Test) -> bool:
    if isinstance(result, GemmResult):
        return test.round == 0 and test.nodes == (result.node,) and test.attempt == result.attempt
    return test.round == result.round and set(test.nodes) == result.nodes


def _given_up(sweep: Sweep, now: datetime) -> Sweep:
    words = "did not end before the sweep's deadline"
    tests = (test if test.over else replace(test, phase=Phase.LOST, words=words, since_at=now) for test in sweep.tests)
    return replace(sweep, tests=tuple(tests))


# --- what follows ---------------------------------------------------------------------------------------------------


def _again(sweep: Sweep, results: Sequence[Line], policy: Policy, now: datetime) -> tuple[Test, ...]:
    """A second test alone for every node that was slow in its first; a fault that a GPU reports needs none."""
    if sweep.stage is not Stage.GEMM or any(test.attempt > 1 for test in sweep.tests):
        return ()
    faulty = {each.node for each in results if isinstance(each, GemmResult) and each.fault}
    failed = [each.node for each in alone(sweep, results, policy) if each.result is blame.Result.FAILED]
    return tuple(
        Test(f"guardctl-{sweep.id}-gemm2-{node}", (node,), attempt=2, since_at=now)
        for node in failed if node not in faulty
    )  # fmt: skip


def _next_pairs(sweep: Sweep, results: Sequence[Line], policy: Policy) -> tuple[pairing.Pair, ...]:
    """The next round's pairs among the nodes that passed alone and whose question no person has ended."""
    passed = {each.node for each in alone(sweep, results, policy) if each.result is not blame.Result.FAILED}
    passed -= {
        test.nodes[0] for test in sweep.tests if test.round == 0 and (test.words or test.phase is not Phase.ENDED)
    }
    passed -= _withdrawn(sweep)
    suspects = [node for node in sweep.nodes if node in passed]
    partners = [node for node in sweep.partners if node in passed]
    if not suspects:
        return ()
    if sweep.round == 0:
        return pairing.first_round(suspects, partners)
    pairs, references = judged_pairs(sweep, results)
    heard = blame.tried(pairs, references, policy)
    silent = [
        pairing.Tried(frozenset(test.nodes), None) for test in sweep.tests if test.round and _is_silent(test, pairs)
    ]
    fit = [each for each in (*heard, *silent) if each.nodes <= passed]
    return pairing.next_round(fit, suspects, partners)


def _withdrawn(sweep: Sweep) -> set[str]:
    """Nodes of cancelled jobs, and of jobs that never started: the sweep asks nothing more of them."""
    return {node for test in sweep.tests if test.phase in {Phase.CANCELLED, Phase.LOST} for node in test.nodes}


def _is_silent(test: Test, pairs: Iterable[PairResult]) -> bool:
    return not has_result(test, list(pairs))


def alone(sweep: Sweep, results: Iterable[Line], policy: Policy) -> list[Outcome]:
    """The outcomes of the nodes alone; lines of a cancelled test do not count."""
    cancelled = {test.nodes[0] for test in sweep.tests if test.phase is Phase.CANCELLED and test.round == 0}
    lines = blame.best([each for each in results if isinstance(each, GemmResult) and each.node not in cancelled])
    references = baseline.gemm_references(lines, sweep.partners, sweep.baselines)
    ended = {test.nodes[0]: test.words for test in sweep.tests if test.round == 0 and test.words}
    return blame.gemm(sweep.everybody, lines, references, policy, ended)


def judged_pairs(sweep: Sweep, results: Iterable[Line]) -> tuple[list[PairResult], baseline.References]:
    """The pair results that count, and what they are measured against."""
    ended = [test for test in sweep.tests if test.round and test.phase is not Phase.CANCELLED]
    lines = [each for each in results if isinstance(each, PairResult) and any(_belongs(each, test) for test in ended)]
    return lines, baseline.pair_references(lines, sweep.partners, sweep.baselines)


# --- the end --------------------------------------------------------------------------------------------------------


def _finish(sweep: Sweep, results: Sequence[Line], policy: Policy) -> Sweep:
    """The sweep with its outcomes: alone and in pairs together."""
    single = {each.node: each for each in alone(sweep, results, policy)}
    pairs, references = judged_pairs(sweep, results)
    paired = {each.node: each for each in blame.pairs(sweep.everybody, pairs, references, policy)}
    asked = {node for test in sweep.tests if test.round for node in test.nodes}
    final = {node: _final(sweep, single[node], paired[node], asked, policy) for node in sweep.everybody}
    return replace(
        sweep,
        stage=Stage.DONE,
        outcomes=tuple(final[node] for node in sweep.nodes),
        partner_outcomes=tuple(final[node] for node in sweep.partners),
    )


def _final(sweep: Sweep, single: Outcome, paired: Outcome, asked: Collection[str], policy: Policy) -> Outcome:
    node = single.node
    words = [f"{'+'.join(test.nodes)} {test.words}" for test in sweep.tests if node in test.nodes and test.words]
    cancelled = any(test.phase is Phase.CANCELLED for test in sweep.tests if node in test.nodes)
    if node in asked:
        outcome = blame.combine(single, paired)
    elif single.result is blame.Result.PASSED and not _may_pass_alone(sweep, node, policy):
        outcome = replace(single, result=blame.Result.INCONCLUSIVE, culprit="good alone, but its links were not tested",
                          next_step="sweep it again beside two idle healthy nodes")  # fmt: skip
    else:
        outcome = single
    if cancelled:
        outcome = replace(outcome, result=blame.Result.INCONCLUSIVE, culprit="a person cancelled its test",
                          next_step="sweep it again when the reason is gone")  # fmt: skip
    return replace(outcome, evidence=(*outcome.evidence, *words))


def _may_pass_alone(sweep: Sweep, node: str, policy: Policy) -> bool:
    """Without any pair. A partner may.

    A suspect only if the operator wants no partners, or if the suspicion is known and not about the network.
    """
    if node in sweep.partners:
        return True
    kinds = set(sweep.kinds.get(node, ()))
    return policy.sweep.partners == 0 or (bool(kinds) and not kinds & NETWORK)
