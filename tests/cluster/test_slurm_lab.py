"""Every question and every write on a real Slurm, each write read back."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from guardctl.cluster.protocol import Submission
from guardctl.cluster.records import Node
from guardctl.cluster.slurm import SlurmCommands, own_user
from guardctl.words.errors import ClusterError, CommandError
from tests.lab import Lab, missing

MISSING = missing()
pytestmark = [pytest.mark.lab, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]

REASON = "guardctl:4k2 GPU 3 at 0.71 of its peers (5 of 5 windows), a=b"
NOW = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.start(nodes=3) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> SlurmCommands:
    return SlurmCommands(env=lab.env, deadline_s=20)


def node(cluster: SlurmCommands, name: str) -> Node:
    found = cluster.node(name)
    assert found is not None
    return found


def script(lab: Lab, name: str, body: str) -> Path:
    path = lab.state / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def job_is(cluster: SlurmCommands, job_id: str, *states: str) -> Callable[[], bool]:
    def check() -> bool:
        found = cluster.job(job_id)
        return found is not None and found.state in states

    return check


def test_the_whole_cluster_at_once(lab: Lab, cluster: SlurmCommands) -> None:
    seen = cluster.snapshot(NOW)
    assert (seen.at, list(seen.nodes), seen.reservations) == (NOW, ["n1", "n2", "n3"], {})
    assert seen.version[:2].isdigit()
    for each in seen.nodes.values():
        assert (each.known, each.num_gpus, each.partitions, each.reason) == (True, 2, ("gpu",), None)
        assert each.boot_at is not None
        assert each.address == lab.layout.address(each.name)


def test_json_and_text_tell_the_same(lab: Lab, cluster: SlurmCommands) -> None:
    in_text = SlurmCommands(env=lab.env)
    in_text.__dict__["_speaks_json"] = False  # as in a Slurm that was built without it
    assert in_text.snapshot(NOW) == cluster.snapshot(NOW)
    assert in_text.node("n1") == cluster.node("n1")
    assert in_text.node("n99") is None
    assert in_text.job("4242") is None


def test_what_is_not_known(cluster: SlurmCommands) -> None:
    assert cluster.node("n99") is None
    assert cluster.job("4242") is None
    cluster.cancel(["4242"])
    cluster.unreserve("guardctl_gone")
    with pytest.raises(CommandError, match="Invalid node name"):
        cluster.drain("n99", REASON)
    with pytest.raises(CommandError, match="reservation is invalid"):
        cluster.renew("guardctl_gone", 60)


def test_drain_restamp_and_undrain(lab: Lab, cluster: SlurmCommands) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    cluster.drain("n1", REASON)
    drained = node(cluster, "n1")
    assert (drained.drained, drained.usable, drained.reason, drained.reason_user) == (True, False, REASON, own_user())
    assert drained.reason_at is not None
    assert before <= drained.reason_at <= datetime.now(UTC)
    cluster.set_reason("n1", "guardctl:4k3 another")
    assert node(cluster, "n1").reason == "guardctl:4k3 another"
    assert node(cluster, "n1").drained
    cluster.undrain("n1")
    assert not node(cluster, "n1").drained
    lab.wait(lambda: node(cluster, "n1").usable, what="n1 to answer again after its undrain")


def test_a_node_is_quarantined_while_a_job_runs_on_it(lab: Lab, cluster: SlurmCommands) -> None:
    """The way of a quarantine: reserve a busy node, the sweep waits, runs when it is empty, users stay out."""
    sleep = script(lab, "sleep.sh", "exec sleep 300")
    theirs = Submission("theirs", sleep, ("n2",), partition="gpu", comment='guardctl:signal "x"', time_limit_s=3600)
    first = cluster.submit(theirs)
    lab.wait(job_is(cluster, first, "RUNNING"), what="the first job to run")

    cluster.reserve("guardctl_4k2", ["n2"], 600)
    assert job_is(cluster, first, "RUNNING")()
    reservation = cluster.snapshot(NOW).reservations["guardctl_4k2"]
    assert (reservation.nodes, reservation.users) == (("n2",), (own_user(),))
    assert "IGNORE_JOBS" in reservation.flags

    output = lab.state / "sweep.out"
    sweep = Submission(
        "guardctl-sweep", script(lab, "sweep.sh", 'echo "$1 $FRUIT $SLURM_JOB_NODELIST $HOME_OF_CALLER"'), ("n2",),
        arguments=("a b",), environment={"FRUIT": "fig,pear"}, reservation="guardctl_4k2", time_limit_s=60,
        output=output, comment="guardctl:none",
    )  # fmt: skip
    second, third = cluster.submit(sweep), cluster.submit(theirs)
    pending = cluster.job(second)
    assert pending is not None
    assert (pending.state, pending.nodes, pending.start_at) == ("PENDING", (), None)
    assert (pending.reservation, pending.comment) == ("guardctl_4k2", "guardctl:none")

    seen = cluster.snapshot(NOW)
    assert [job.job_id for job in seen.jobs_on("n2")] == [first]
    assert seen.jobs[first].comment == 'guardctl:signal "x"'
    assert [each.name for each in seen.reservations_on("n2")] == ["guardctl_4k2"]

    cluster.cancel([first])
    lab.wait(job_is(cluster, second, "COMPLETED"), timeout_s=60, what="the sweep to run in the reservation")
    lab.wait(output.exists, what="the sweep's output")
    assert output.read_text() == "a b fig,pear n2 \n"
    assert job_is(cluster, third, "PENDING")()

    cluster.unreserve("guardctl_4k2")
    lab.wait(job_is(cluster, third, "RUNNING"), timeout_s=60, what="the user's job to start")
    cluster.cancel([first, third])
    lab.wait(job_is(cluster, third, "CANCELLED"), what="the cancel")
    assert not cluster.snapshot(NOW).jobs_on("n2")


def test_a_reservation_is_renewed_and_is_exclusive(cluster: SlurmCommands) -> None:
    cluster.reserve("guardctl_r", ["n3", "n1"], 600)
    cluster.renew("guardctl_r", 7200)
    found = cluster.snapshot(NOW).reservations["guardctl_r"]
    assert found.nodes == ("n1", "n3")
    assert found.end_at is not None
    assert timedelta(hours=1.9) < found.end_at - datetime.now(UTC) <= timedelta(hours=2)
    with pytest.raises(CommandError, match="overlaps"):
        cluster.reserve("guardctl_s", ["n1"], 600)
    cluster.unreserve("guardctl_r")
    assert cluster.snapshot(NOW).reservations == {}


def test_what_users_write_stays_theirs(lab: Lab, cluster: SlurmCommands) -> None:
    comment = "x\nJobId=1 UserId=root(0)\n   JobState=RUNNING | <b>"
    sleep = script(lab, "sleep.sh", "exec sleep 300")
    line = [
        "sbatch",
        "--parsable",
        "--hold",
        "--comment",
        comment,
        "--job-name",
        "a|b c",
        "--output=/dev/null",
        str(sleep),
    ]
    job_id = lab.run(line, user=lab.user).stdout.strip()
    in_text = SlurmCommands(env=lab.env)
    in_text.__dict__["_speaks_json"] = False
    for door in (cluster, in_text):
        found = door.job(job_id)
        assert found is not None
        assert (found.comment, found.name, found.user, found.state) == (comment, "a|b c", lab.user, "PENDING")
    cluster.cancel([job_id])


def test_the_environment_of_the_caller_does_not_count(lab: Lab) -> None:
    noisy = {
        **lab.env,
        "SLURM_CLUSTERS": "other",
        "SQUEUE_STATES": "CD",
        "SINFO_ALL": "0",
        "SLURM_TIME_FORMAT": "relative",
    }
    assert len(SlurmCommands(env=noisy).snapshot(NOW).nodes) == 3


def test_a_controller_that_is_away_means_unknown(lab: Lab, cluster: SlurmCommands) -> None:
    """Last in this file: Slurm 22.05 prints an empty list then, with exit code 0."""
    lab.stop_controller()
    quick = SlurmCommands(env=lab.env, deadline_s=2)
    quick.__dict__["_speaks_json"] = cluster._speaks_json
    start = time.monotonic()
    for question in (lambda: quick.snapshot(NOW), lambda: quick.node("n1"), lambda: quick.job("1")):
        with pytest.raises(ClusterError) as caught:
            question()
        assert "scontrol ping" in caught.value.hint
    with pytest.raises(ClusterError):
        quick.drain("n1", REASON)
    assert time.monotonic() - start < 4 * (2 + 3)
    lab.start_controller()
    lab.wait(lambda: len(cluster.snapshot(NOW).nodes) == 3, what="the controller's first whole answer")
