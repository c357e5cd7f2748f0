"""The monitor's own rules, without a cluster: what is no whole answer, and what is kept for others."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from guardctl import monitor
from guardctl.act.perform import World
from guardctl.cluster.protocol import Cluster
from guardctl.cluster.records import Job, Node, Snapshot
from guardctl.ledger.store import Ledger
from guardctl.words.errors import ClusterError
from guardctl.words.policy import Act, Policy
from guardctl.words.records import Health, Kind, Level, Score, Standing, State, Verdict

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world with a real ledger; nothing here may touch its cluster."""
    policy = Policy(state_dir=tmp_path, act=Act(window_s=600))
    with Ledger.open(policy.ledger_url) as ledger:
        yield World(cast("Cluster", None), ledger, policy, lambda: NOW, "root", "ctl", "0")


def nodes(num: int, *, jobs: tuple[Job, ...] = ()) -> Snapshot:
    names = [f"n{i}" for i in range(num)]
    return Snapshot(NOW, {name: Node(name, "IDLE") for name in names}, {job.job_id: job for job in jobs})


def test_a_sudden_drop_is_an_answer_in_part_until_it_has_lasted(world: World) -> None:
    monitor._refuse_partial(world, nodes(100))
    monitor._refuse_partial(world, nodes(85))
    with pytest.raises(ClusterError, match="40 nodes, 85 before"):
        monitor._refuse_partial(world, nodes(40))
    later = replace(world, clock=lambda: NOW + timedelta(seconds=599))
    with pytest.raises(ClusterError):
        monitor._refuse_partial(later, nodes(40))
    monitor._refuse_partial(replace(world, clock=lambda: NOW + timedelta(seconds=600)), nodes(40))


def test_a_drop_that_was_a_hiccup_leaves_nothing_behind(world: World) -> None:
    monitor._refuse_partial(world, nodes(100))
    with pytest.raises(ClusterError):
        monitor._refuse_partial(world, nodes(10))
    monitor._refuse_partial(world, nodes(100))
    late = replace(world, clock=lambda: NOW + timedelta(days=1))
    with pytest.raises(ClusterError):
        monitor._refuse_partial(late, nodes(10))


def test_scores_are_kept_until_they_are_settled(world: World) -> None:
    slow = Score("n1", Kind.STEPS, "busy_s", relative=0.5)
    monitor.publish(world.policy, [slow], [], {}, NOW)
    monitor.publish(world.policy, [Score("n2", Kind.STEPS, "busy_s", relative=1.0)], [], {}, NOW)
    assert {each.node: each.relative for each in monitor.last_scores(world.policy, {})} == {"n1": 0.5, "n2": 1.0}
    swept = {"n1": Standing("n1", settled_at=NOW + timedelta(seconds=1))}
    assert [each.node for each in monitor.last_scores(world.policy, swept)] == ["n2"]


def test_a_damaged_score_file_is_no_score(world: World, caplog: pytest.LogCaptureFixture) -> None:
    (world.policy.state_dir / "scores.json").write_text('{"scores": [{"no')
    assert monitor.last_scores(world.policy, {}) == []
    assert "scores.json" in caplog.text


def test_the_agents_get_a_verdict_for_what_is_not_healthy(world: World) -> None:
    verdict = Verdict("n1", Health.FAULTY, Level.GPU, "GPU 3 is off the bus", (), NOW, hard=True, confirmed=True)
    standings = {"n2": Standing("n2", State.REPAIR, why="failed its sweep"), "n3": Standing("n3")}
    monitor.publish(world.policy, [], [verdict], standings, NOW)
    found = {path.stem: path.read_text() for path in (world.policy.state_dir / "verdicts").glob("*.json")}
    assert set(found) == {"n1", "n2"}
    assert "FAULTY" in found["n1"]
    assert "failed its sweep" in found["n2"]


def test_only_jobs_with_enough_nodes_of_their_own_are_compared() -> None:
    def job(number: str, *names: str) -> Job:
        return Job(number, "train", "RUNNING", "ann", 1000, names)

    policy = Policy()
    large, small = job("1", "n0", "n1", "n2", "n3"), job("2", "n4", "n5")
    view = nodes(8, jobs=(large, small))
    assert monitor._has_peers(large, view, policy)
    assert not monitor._has_peers(small, view, policy)
    shared = nodes(8, jobs=(large, job("3", "n3")))
    assert not monitor._has_peers(large, shared, policy)
