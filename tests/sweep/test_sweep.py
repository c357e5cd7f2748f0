"""A sweep from its start to its outcomes, through values: Slurm's answers and result lines in, submissions out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from guardctl.cluster.protocol import Submission
from guardctl.cluster.records import Job
from guardctl.sweep import files, run, state, steps
from guardctl.sweep.blame import Outcome
from guardctl.sweep.blame import Result as Ended
from guardctl.sweep.results import Result
from guardctl.sweep.state import Phase, Stage, Sweep
from guardctl.sweep.submit import Place, gemm_submission, pair_submission
from guardctl.words.errors import BusyError, GuardError, InputError
from guardctl.words.policy import Policy
from tests.sweep.values import NOW, gpus, pair

POLICY = Policy()
PLACE = Place(Path("/opt/sweeps"), "/usr/bin/python3", Path("/state/sweeps/s1"), "guardctl_4k2")


def new(suspects: str, partners: str = "", kinds: Mapping[str, tuple[str, ...]] | None = None) -> Sweep:
    return steps.first(
        Sweep("s1", tuple(suspects.split()), tuple(partners.split()), "guardctl_4k2", NOW, NOW + timedelta(hours=1),
              kinds=kinds or {})
    )  # fmt: skip


@dataclass
class World:
    """What a cluster would do with the jobs: the speed of each node alone and of its link."""

    slow: frozenset[str] = frozenset()
    slow_once: frozenset[str] = frozenset()
    slow_link: frozenset[str] = frozenset()
    ends: Mapping[str, str] = field(default_factory=dict)  # job name -> Slurm's state, where not COMPLETED
    results: list[Result] = field(default_factory=list)
    jobs: dict[str, Job | None] = field(default_factory=dict)

    def does(self, job: Submission) -> str:
        """Runs a job to its end and gives its id."""
        job_id = str(100 + len(self.jobs))
        ended = self.ends.get(job.name, "COMPLETED")
        self.jobs[job_id] = Job(job_id, job.name, ended, "guardctl", 1)
        if ended == "COMPLETED" and len(job.nodes) == 1:
            attempt = int(job.arguments[job.arguments.index("--attempt") + 1])
            slow = job.nodes[0] in self.slow or (attempt == 1 and job.nodes[0] in self.slow_once)
            values = gpus(job.nodes[0], [50, 50] if slow else [100, 101])
            self.results += [replace(each, attempt=attempt) for each in values]
        elif ended == "COMPLETED":
            number = int(job.arguments[job.arguments.index("--round") + 1])
            self.results.append(
                pair(job.nodes[0], job.nodes[1], 0.01 if set(job.nodes) & self.slow_link else 1.0, number)
            )
        return job_id


def play(sweep: Sweep, world: World, policy: Policy = POLICY) -> Sweep:
    """The sweep, taken to its end one minute per step."""
    for minute in range(60):
        now = NOW + timedelta(minutes=minute)
        sweep, submissions = run.advance(sweep, world.jobs, world.results, policy, now, place=PLACE)
        assert state.from_json(state.to_json(sweep)) == sweep
        for job in submissions:
            sweep = sweep.with_test(replace(
                next(test for test in sweep.tests if test.name == job.name),
                phase=Phase.SUBMITTED, job_id=world.does(job), since_at=now,
            ))  # fmt: skip
        if sweep.done:
            return sweep
    raise AssertionError(f"never done: {sweep}")


def outcome(sweep: Sweep, node: str) -> Outcome:
    return next(each for each in sweep.outcomes if each.node == node)


def test_healthy_suspects_pass_alone_and_in_one_round_of_pairs() -> None:
    sweep = play(new("n1 n2", "p1 p2"), World())
    assert {each.result for each in sweep.outcomes} == {Ended.PASSED}
    assert sweep.round == 1
    assert [each.node for each in sweep.outcomes] == ["n1", "n2"]


def test_a_slow_node_fails_alone_and_is_not_paired() -> None:
    sweep = play(new("n1 n2", "p1 p2"), World(slow=frozenset({"n1"})))
    assert outcome(sweep, "n1").result is Ended.FAILED
    assert outcome(sweep, "n2").result is Ended.PASSED
    assert not any("n1" in test.nodes for test in sweep.tests if test.round)


def test_a_node_that_was_slow_once_is_tested_again_and_passes() -> None:
    sweep = play(new("n1 n2", "p1 p2"), World(slow_once=frozenset({"n1"})))
    assert outcome(sweep, "n1").result is Ended.PASSED
    assert [test.nodes for test in sweep.tests if test.attempt == 2] == [("n1",)]


def test_a_partner_that_no_pair_needed_passes_alone() -> None:
    sweep = play(new("n1", "p1 p2"), World(slow=frozenset({"n1"})))
    assert [each.result for each in sweep.partner_outcomes] == [Ended.PASSED, Ended.PASSED]
    assert sweep.round == 0


def test_a_slow_link_is_found_by_the_second_partner() -> None:
    sweep = play(new("n1", "p1 p2 p3"), World(slow_link=frozenset({"n1"})))
    assert outcome(sweep, "n1").result is Ended.FAILED
    assert "link" in outcome(sweep, "n1").culprit
    assert outcome(sweep, "n1").numbers["busbw_ratio"] == pytest.approx(0.01)
    assert {each.result for each in sweep.partner_outcomes} == {Ended.PASSED}


def test_a_job_that_a_person_cancels_convicts_nobody_and_is_not_asked_again() -> None:
    world = World(
        slow=frozenset({"n1"}), ends={"guardctl-s1-gemm-n1": "CANCELLED", "guardctl-s1-r1-n2-p1": "CANCELLED"}
    )
    sweep = play(new("n1 n2", "p1 p2 p3"), world)
    for node in ("n1", "n2"):
        assert outcome(sweep, node).result is Ended.INCONCLUSIVE
        assert outcome(sweep, node).culprit == "a person cancelled its test"
    assert not any("n2" in test.nodes for test in sweep.tests if test.round > 1)


@pytest.mark.parametrize("ended", ["NODE_FAIL", "TIMEOUT", "FAILED"])
def test_a_node_that_dies_alone_is_inconclusive(ended: str) -> None:
    sweep = play(new("n1", "p1 p2"), World(ends={"guardctl-s1-gemm-n1": ended}))
    assert outcome(sweep, "n1").result is Ended.INCONCLUSIVE
    assert outcome(sweep, "n1").culprit.startswith("node stopped answering during the sweep")
    assert ended in outcome(sweep, "n1").culprit


def test_without_partners_a_node_whose_link_is_not_suspected_may_pass_by_the_ledger() -> None:
    known = {gpus("n1", [1])[0].key: (100.0,) * 6}
    alone = replace(new("n1", kinds={"n1": ("steps", "host")}), baselines=known)
    assert outcome(play(alone, World()), "n1").result is Ended.PASSED
    for kinds in ({}, {"n1": ("steps", "link")}):
        sweep = play(replace(new("n1", kinds=kinds), baselines=known), World())
        assert outcome(sweep, "n1").result is Ended.INCONCLUSIVE


def test_a_job_that_waits_for_a_node_that_is_down_is_given_up() -> None:
    sweep, submissions = run.advance(new("n1", "p1 p2"), {}, [], POLICY, NOW, place=PLACE)
    assert [job.nodes for job in submissions] == [("n1",), ("p1",), ("p2",)]
    waits = Job("1", "x", "PENDING", "guardctl", 1, reason="ReqNodeNotAvail, UnavailableNodes:n1")
    test = replace(sweep.tests[0], phase=Phase.SUBMITTED, job_id="1", since_at=NOW)
    sweep = sweep.with_test(test)
    soon = steps.follow(sweep, {"1": waits}, [], POLICY, NOW + timedelta(seconds=60))
    later = steps.follow(sweep, {"1": waits}, [], POLICY, NOW + timedelta(seconds=121))
    assert soon.tests[0].phase is Phase.SUBMITTED
    assert later.tests[0].phase is Phase.LOST


def test_a_late_result_file_is_waited_for() -> None:
    test = replace(new("n1").tests[0], phase=Phase.SUBMITTED, job_id="1")
    sweep = new("n1").with_test(test)
    jobs = {"1": Job("1", test.name, "COMPLETED", "guardctl", 1)}
    follow: Callable[[Sweep, list[Result], int], Sweep] = lambda each, results, seconds: steps.follow(  # noqa: E731
        each, jobs, results, POLICY, NOW + timedelta(seconds=seconds)
    )
    waiting = follow(sweep, [], 0)
    assert not waiting.tests[0].over
    assert follow(waiting, list(gpus("n1", [1])), 30).tests[0].phase is Phase.ENDED
    assert follow(waiting, [], 61).tests[0].phase is Phase.LOST


def test_the_deadline_ends_a_sweep_without_blame() -> None:
    sweep = steps.follow(new("n1", "p1 p2"), {}, [], POLICY, NOW + timedelta(hours=1))
    assert sweep.stage is Stage.DONE
    assert outcome(sweep, "n1").result is Ended.INCONCLUSIVE


def test_a_sweep_lies_in_its_folder_and_is_active_until_it_is_collected(tmp_path: Path) -> None:
    policy = Policy(state_dir=tmp_path)
    sweep = run.start(policy, suspects=["n1"], partners=["p1"], reservation="r", now=NOW)
    assert run.active(policy) == [sweep]
    done = state.save(replace(sweep, stage=Stage.DONE), tmp_path)
    assert run.active(policy) == [done]
    run.collect(done, policy)
    assert run.active(policy) == []
    assert state.load(tmp_path, sweep.id).collected


def test_a_sweep_file_that_cannot_be_read_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    policy = Policy(state_dir=tmp_path)
    sweep = run.start(policy, suspects=["n1"], now=NOW)
    path = state.folder_of(tmp_path, sweep.id) / state.FILE
    path.write_text('{"version": 1')
    assert run.active(policy) == []
    assert str(path) in caplog.text
    with pytest.raises(GuardError, match="no such sweep"):
        state.load(tmp_path, "none")


def test_two_do_not_step_the_same_sweep(tmp_path: Path) -> None:
    policy = Policy(state_dir=tmp_path)
    sweep = run.start(policy, suspects=["n1"], now=NOW)
    with run.locked(sweep, policy), pytest.raises(BusyError, match="other hands"), run.locked(sweep, policy):
        pass
    with run.locked(sweep, policy):
        pass


def test_a_node_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="every node once"):
        run.start(Policy(state_dir=tmp_path), suspects=["n1"], partners=["n1"], now=NOW)


def test_ids_are_short_unique_and_in_the_order_of_time() -> None:
    ids = [state.new_id(NOW + timedelta(seconds=second)) for second in range(100)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 100
    assert max(map(len, ids)) <= 8


def test_submissions_hold_everything_that_the_programs_read() -> None:
    policy = Policy.model_validate({"sweep": {"pair_bytes": 4_194_304, "size": 256, "seconds": 4, "partition": "gpu"}})
    alone = gemm_submission("guardctl-s1-gemm-n1", "n1", 1, PLACE, policy)
    assert alone.script == Path("/opt/sweeps/gemm_burnin.sbatch")
    assert alone.arguments == (
        "--seconds",
        "4",
        "--size",
        "256",
        "--attempt",
        "1",
        "--output",
        "/state/sweeps/s1/gemm-1-n1.jsonl",
    )
    assert alone.environment == {"GUARDCTL_PYTHON": "/usr/bin/python3", "GUARDCTL_SWEEPS": "/opt/sweeps"}
    assert (alone.reservation, alone.partition, alone.nodes) == ("guardctl_4k2", "gpu", ("n1",))
    both = pair_submission("x", ("n1", "n2"), 2, PLACE, policy)
    assert both.arguments[2:6] == ("--bytes", "65536,524288,4194304", "--round", "2")


def test_the_programs_are_found() -> None:
    assert (files.folder() / "pair_allreduce.py").is_file()


def test_progress_says_what_is_waited_for() -> None:
    assert run.progress(new("n1", "p1"), NOW + timedelta(minutes=3)) == (
        0, 2, "each node alone: 0 of 2 tests over, 3 min; n1 p1",
    )  # fmt: skip
    assert run.progress(play(new("n1", "p1 p2 p3"), World()), NOW)[2] == "done: n1 PASSED"
