"""The whole loop in the lab, as the demo tells it: drawn at random, and checked by what the ledger and Slurm say."""

from collections.abc import Iterator
from typing import Any

import pytest

from guardctl.words.records import EventKind
from tests.demo.draw import draw
from tests.demo.screen import Screen
from tests.demo.story import Story
from tests.lab import Lab, missing
from tests.site import Site

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[Story, dict[str, Any]]]:
    """The story once for all tests, with its seed in the output of a failure."""
    with Lab.start(nodes=8) as lab:
        story = Story(Site(lab), draw(lab.nodes, 6, None), Screen())
        print(f"SEED={story.draw.seed}")  # noqa: T201 - pytest shows it when a test fails
        yield story, story.tell()


def test_exactly_the_two_faulty_nodes_are_convicted_and_held(told: tuple[Story, dict[str, Any]]) -> None:
    story, summary = told
    faulty = sorted([story.draw.slow_cpu, story.draw.slow_link])
    assert summary["found"] == faulty
    assert summary["held"] == faulty


def test_the_one_that_only_looked_sick_came_back(told: tuple[Story, dict[str, Any]]) -> None:
    story, summary = told
    assert story.draw.passing in summary["released"]
    assert not set(summary["released"]) & set(summary["held"])


def test_the_job_is_faster_on_the_printed_hosts(told: tuple[Story, dict[str, Any]]) -> None:
    story, summary = told
    hosts = story.site.lab.run(["scontrol", "show", "hostnames", summary["hostlist"]]).stdout.split()
    assert len(hosts) == len(story.draw.job_nodes)
    assert not set(hosts) & set(summary["held"])
    assert summary["step_time_after_s"] < summary["step_time_before_s"] / 1.5


def test_every_drain_says_why_and_slurm_says_the_same(told: tuple[Story, dict[str, Any]]) -> None:
    story, summary = told
    drains = [event for event in story.site.events() if event.kind is EventKind.DRAINED]
    assert all(event.why and event.incident and event.policy_hash and event.version for event in drains)
    for node in summary["held"]:
        mark = [event for event in drains if event.node == node][-1].detail
        shown = story.site.lab.run(["scontrol", "show", "node", node]).stdout
        assert f"Reason={mark['reason']} [{mark['user']}@" in shown


def test_no_job_of_a_user_ran_on_a_quarantined_node(told: tuple[Story, dict[str, Any]]) -> None:
    story, _ = told
    reservations = story.site.lab.run(["scontrol", "show", "reservation"]).stdout
    assert "guardctl_" not in reservations


def test_the_ledger_knows_the_hardware(told: tuple[Story, dict[str, Any]]) -> None:
    story, _ = told
    standings = story.site.standings()
    assert all(len(standings[node].gpu_uuids) == 2 and standings[node].boot_id for node in story.site.lab.nodes)
