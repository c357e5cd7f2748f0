"""A step that is cut short: nothing is submitted twice, whatever line the monitor died at."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from guardctl.cluster.protocol import Cluster, Submission
from guardctl.cluster.records import Job, Snapshot
from guardctl.sweep import run, state
from guardctl.sweep.blame import Result
from guardctl.sweep.state import Phase
from guardctl.words.errors import ClusterError
from guardctl.words.policy import Policy
from tests.sweep.values import NOW


@dataclass
class Queue:
    """The part of a cluster that a sweep uses; sbatch fails once after `fails_after` jobs were accepted."""

    fails_after: int = 100
    jobs: dict[str, Job] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)

    def snapshot(self, now: datetime) -> Snapshot:
        return Snapshot(now, jobs=dict(self.jobs))

    def submit(self, job: Submission) -> str:
        if len(self.jobs) == self.fails_after:
            self.fails_after = 100
            raise ClusterError("sbatch gave no answer")
        job_id = str(len(self.jobs) + 1)
        self.jobs[job_id] = Job(job_id, job.name, "RUNNING", "guardctl", 1, job.nodes)
        return job_id

    def job(self, job_id: str) -> Job | None:
        return self.jobs.get(job_id)

    def cancel(self, job_ids: list[str]) -> None:
        self.cancelled += job_ids


def as_cluster(queue: Queue) -> Cluster:
    return cast("Cluster", cast("Any", queue))


def begin(tmp_path: Path) -> tuple[Policy, state.Sweep]:
    policy = Policy(state_dir=tmp_path)
    return policy, run.start(policy, suspects=["n1"], partners=["p1", "p2"], now=NOW)


def test_a_step_that_fails_half_way_goes_on_where_it_was(tmp_path: Path) -> None:
    policy, sweep = begin(tmp_path)
    queue = Queue(fails_after=2)
    with pytest.raises(ClusterError):
        run.step(sweep, as_cluster(queue), policy, NOW)
    after = run.step(sweep, as_cluster(queue), policy, NOW)
    assert [test.job_id for test in after.tests] == ["1", "2", "3"]
    assert len({job.name for job in queue.jobs.values()}) == len(queue.jobs) == 3


def test_a_job_that_was_not_written_down_is_found_by_its_name(tmp_path: Path) -> None:
    policy, sweep = begin(tmp_path)
    queue = Queue()
    queue.jobs["7"] = Job("7", sweep.tests[1].name, "PENDING", "guardctl", 1)
    after = run.step(sweep, as_cluster(queue), policy, NOW)
    assert after.tests[1].job_id == "7"
    assert len(queue.jobs) == 3


def test_a_cancelled_sweep_cancels_its_jobs_and_blames_nobody(tmp_path: Path) -> None:
    policy, sweep = begin(tmp_path)
    queue = Queue()
    run.step(sweep, as_cluster(queue), policy, NOW)
    ended = run.cancel(sweep, as_cluster(queue), policy, NOW)
    assert queue.cancelled == ["1", "2", "3"]
    assert [each.result for each in ended.outcomes] == [Result.INCONCLUSIVE]
    assert state.load(tmp_path, sweep.id) == ended
    assert run.step(sweep, as_cluster(queue), policy, NOW) == ended


def test_a_job_that_is_given_up_is_cancelled(tmp_path: Path) -> None:
    policy, sweep = begin(tmp_path)
    queue = Queue()
    after = run.step(sweep, as_cluster(queue), policy, NOW)
    ended = run.step(after, as_cluster(queue), policy, after.deadline_at)
    assert ended.done
    assert {test.phase for test in ended.tests} == {Phase.LOST}
    assert queue.cancelled == ["1", "2", "3"]


def test_a_person_who_cancels_one_job_is_heard(tmp_path: Path) -> None:
    policy, sweep = begin(tmp_path)
    queue = Queue()
    after = run.step(sweep, as_cluster(queue), policy, NOW)
    queue.jobs["1"] = replace(queue.jobs["1"], state="CANCELLED")
    assert run.step(after, as_cluster(queue), policy, NOW).tests[0].phase is Phase.CANCELLED
