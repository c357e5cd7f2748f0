"""Bad days, in the lab: each ends with a clear message, no wrong action and nothing lost."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from guardctl.words.records import EventKind, State
from tests.lab import Lab, missing
from tests.lab.errors import LabError
from tests.site import Site

pytestmark = [pytest.mark.lab, pytest.mark.skipif(missing() is not None, reason=missing() or "")]
FAST = {"sweep": {"seconds": 2.0, "pair_seconds": 2.0, "size": 256, "pair_bytes": 2**20, "partner_wait_s": 0.0,
                  "time_limit_s": 120.0},
        "act": {"max_out": 4, "max_out_percent": 100.0}}  # fmt: skip


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Lab.start(nodes=4) as lab:
        yield Site(lab, FAST)


@pytest.fixture
def n1(site: Site) -> Iterator[str]:
    """A node that is healthy, idle and nobody's before the test, and again after it."""
    yield "n1"
    clean(site, "n1")


def state_of(site: Site, node: str) -> State:
    (state,) = site.states(node)
    return state


def clean(site: Site, node: str) -> None:
    """Back to service by an admin's hand, and a tick that notices."""
    if "DRAIN" in slurm_state(site, node):
        site.lab.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"])
    site.lab.run(["scancel", *jobs_running(site, "R,PD")], check=False)
    site.lab.wait(lambda: not jobs_running(site, "R,PD,CG"), 60, "all jobs to go")
    for line in site.lab.run(["scontrol", "show", "reservation", "--oneliner"]).stdout.splitlines():
        if line.startswith("ReservationName="):
            site.lab.run(["scontrol", "delete", line.split()[0]], check=False)
    site.tick()
    site.tick()
    site.lab.wait(lambda: slurm_state(site, node) == "IDLE", 30, f"{node} to be idle")
    assert site.states(node) == [State.HEALTHY]


def slurm_state(site: Site, node: str) -> str:
    text = site.lab.run(["scontrol", "show", "node", node]).stdout
    return next(word.removeprefix("State=") for word in text.split() if word.startswith("State="))


def reason(site: Site, node: str) -> str:
    lines = site.lab.run(["scontrol", "show", "node", node]).stdout.splitlines()
    return next((line.split("Reason=")[1].split(" [")[0] for line in lines if "Reason=" in line), "")


def sweep_of(site: Site, node: str) -> str:
    """Tick until the drained node is in its sweep; the sweep's id."""
    site.lab.wait(lambda: site.tick() and site.states(node) == [State.SWEEPING], 60, f"{node} to be swept")
    sweep = site.standings()[node].sweep
    assert sweep is not None
    return sweep


def jobs_running(site: Site, state: str = "R") -> list[str]:
    return site.lab.run(["squeue", "--noheader", "--format=%i", f"--states={state}"]).stdout.split()


def tick_until(site: Site, node: str, *states: State, timeout_s: float = 280) -> None:
    def look() -> bool:
        site.tick()
        return site.states(node)[0] in states

    try:
        site.lab.wait(look, timeout_s, f"{node} to be {' or '.join(states)}")
    except LabError as error:
        story = site.guardctl("ledger", "history", "--limit", "25").stdout
        raise AssertionError(f"{error}\n{story}\n{site.guardctl('sweep', 'show').stdout}") from error


def test_controller_down(site: Site) -> None:
    before = len(site.events())
    site.lab.stop_controller()
    try:
        done = site.guardctl("monitor", "--once", codes=(3,))
        assert "controller" in done.stderr
        assert "scontrol ping" in done.stderr
        assert "nodes out" in site.guardctl("report", "--format", "markdown").stdout  # the report goes on without it
    finally:
        site.lab.start_controller()
    assert len(site.events()) == before
    site.tick()


def test_munge_down(site: Site) -> None:
    before = len(site.events())
    site.lab.stop_munge()
    try:
        done = site.guardctl("monitor", "--once", codes=(3,))
        assert "munge" in done.stderr
    finally:
        site.lab.start_munge()
    assert len(site.events()) == before
    site.lab.wait(lambda: site.guardctl("monitor", "--once", codes=(0, 1, 3)).returncode != 3, 30, "munge to answer")


def test_second_monitor(site: Site) -> None:
    site.start_monitor(period_s=0.5)
    try:
        site.lab.wait(site.log("monitor").read_text, 30, "the first monitor to tick")
        done = site.guardctl("monitor", "--once", codes=(1,))
        assert "another monitor runs: pid" in done.stderr
        assert "stop it first" in done.stderr
    finally:
        site.stop("monitor")


def test_spool_full_or_unwritable(site: Site, tmp_path: Path) -> None:
    """A spool on a file system of four pages, full, then emptied: the agent says so once, goes on, and recovers."""
    spool = tmp_path / "tiny"
    spool.mkdir()
    site.lab.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", spool])  # seen in the lab's own mounts only
    config = tmp_path / "guardctl.toml"
    config.write_text(site.config.read_text().replace(f'"{site.lab.state}"', f'"{spool}"'))
    filled = site.lab.run(["dd", "if=/dev/zero", f"of={spool}/ballast", "bs=4k", "count=16"], check=False)
    assert "No space left" in filled.stderr
    log = tmp_path / "agent.log"
    argv = site.argv("--config", config, "agent", "--node", "n1", "--period", "0.3", config=False)
    agent = site.lab.spawn(argv, stdout=log)
    try:
        site.lab.wait(lambda: "No space left" in log.read_text(), 60, "the agent to say that the spool is full")
        site.lab.run(["rm", spool / "ballast"])
        site.lab.wait(lambda: "can be written again" in log.read_text(), 60, "the agent to write again")
        assert log.read_text().count("No space left") == 1
        assert agent.poll() is None
        assert "guardctl.telemetry/1" in site.lab.run(["sh", "-c", f"cat {spool}/telemetry/n1/*.jsonl"]).stdout
    finally:
        agent.terminate()
        agent.wait(timeout=30)
        site.lab.run(["umount", "--lazy", spool])


def test_torn_lines(site: Site) -> None:
    """Half a line at the end of one file, rubbish in the middle of another: the tick goes on and names the rubbish."""
    telemetry = site.lab.state / "telemetry" / "n1"
    site.guardctl("agent", "--once", "--node", "n1")
    (path,) = telemetry.glob("*.jsonl")
    whole = path.read_text()
    path.write_text(whole + "this is no JSON\n" + whole.splitlines()[-1] + "\n" + whole.splitlines()[-1][:20])
    done = site.guardctl("monitor", "--once", "--json", codes=(0, 1))
    number = whole.count("\n") + 1
    assert f"{path}:{number}" in done.stderr
    assert json.loads(done.stdout)["schema"] == "guardctl.tick/1"
    path.write_text(whole)


def test_an_admins_drain_is_never_touched(site: Site, n1: str) -> None:
    site.lab.run(["scontrol", "update", f"NodeName={n1}", "State=DRAIN", "Reason=dimm 3"])
    assert "drained meanwhile" in site.guardctl("drain", n1, "--why", "slow", codes=(1,)).stdout
    assert "not ours to release" in site.guardctl("release", n1, codes=(1,)).stdout
    site.tick()
    assert reason(site, n1) == "dimm 3"
    assert site.states(n1) == [State.HEALTHY]


def test_an_admin_who_rewrites_or_resumes_our_drain_wins(site: Site, n1: str) -> None:
    site.guardctl("drain", n1, "--why", "looks slow")
    assert reason(site, n1).startswith("guardctl:")
    site.lab.run(["scontrol", "update", f"NodeName={n1}", "Reason=mine now"])
    site.tick()
    assert site.states(n1) == [State.HEALTHY]
    assert reason(site, n1) == "mine now"
    site.lab.run(["scontrol", "update", f"NodeName={n1}", "State=RESUME"])
    site.guardctl("drain", n1, "--why", "looks slow")
    site.lab.run(["scontrol", "update", f"NodeName={n1}", "State=RESUME"])
    site.tick()
    assert site.states(n1) == [State.HEALTHY]
    assert "DRAIN" not in slurm_state(site, n1)
    assert site.events(n1)[-1].kind is EventKind.RESUMED_BY_OTHER


def test_release_undoes_our_own_drain(site: Site, n1: str) -> None:
    site.guardctl("drain", n1, "--why", "looks slow")
    assert "released" in site.guardctl("release", n1).stdout
    assert "DRAIN" not in slurm_state(site, n1)
    assert site.states(n1) == [State.PROBATION]
    site.guardctl("drain", n1, "--why", "again")
    site.lab.run(["scontrol", "update", f"NodeName={n1}", "State=RESUME"])


def test_an_admin_drains_during_the_quarantine(site: Site, n1: str) -> None:
    site.guardctl("drain", n1, "--why", "looks slow")
    sweep_of(site, n1)
    site.lab.run(["scontrol", "update", f"NodeName={n1}", "State=DRAIN", "Reason=mine"])
    tick_until(site, n1, State.HEALTHY, timeout_s=30)
    assert reason(site, n1) == "mine"
    site.lab.wait(lambda: site.tick() and not jobs_running(site), 150, "the sweep's jobs to go")
    site.lab.wait(lambda: site.tick() and "guardctl_" not in reservations(site), 60, "our reservation to go")
    assert reason(site, n1) == "mine"


def reservations(site: Site) -> str:
    return site.lab.run(["scontrol", "show", "reservation"]).stdout


def about(site: Site, job: str) -> str:
    return site.lab.run(["scontrol", "show", "job", job], env={"TZ": "UTC"}).stdout


def test_a_reservation_of_somebody_else_with_our_prefix_is_left_alone(site: Site) -> None:
    site.lab.run(["scontrol", "create", "reservation", "ReservationName=guardctl_of_ann", "Nodes=n4", "StartTime=now",
                  "Duration=60", "Users=root"])  # fmt: skip
    try:
        for _ in range(2):
            site.tick()
        assert "ReservationName=guardctl_of_ann" in reservations(site)
    finally:
        site.lab.run(["scontrol", "delete", "ReservationName=guardctl_of_ann"])


def test_a_user_job_waits_outside_a_quarantine(site: Site, n1: str) -> None:
    site.guardctl("drain", n1, "--why", "looks slow")
    sweep_of(site, n1)
    job = site.lab.run(
        ["sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", f"--nodelist={n1}", "--wrap", "true"],
        user=site.lab.user,
    ).stdout.strip()
    tick_until(site, n1, State.PROBATION, State.REPAIR, State.HELD)
    assert site.states(n1) == [State.PROBATION], site.events(n1)[-3:]
    site.lab.wait(lambda: "JobState=COMPLETED" in about(site, job), 30, "the user's job to have run")
    released = next(event.at for event in reversed(site.events(n1)) if event.kind is EventKind.RELEASED)
    words = about(site, job).split()
    began = next(word.removeprefix("StartTime=") for word in words if word.startswith("StartTime="))
    assert began >= released.strftime("%Y-%m-%dT%H:%M:%S")[:-1]  # Slurm keeps whole seconds
    site.guardctl("drain", n1, "--why", "again")
    site.lab.run(["scontrol", "update", f"NodeName={n1}", "State=RESUME"])


def test_a_cancelled_sweep_job_convicts_nobody(site: Site, n1: str) -> None:
    site.guardctl("drain", n1, "--why", "looks slow")
    sweep_of(site, n1)
    site.lab.wait(lambda: site.tick() and jobs_running(site), 60, "the sweep's jobs to run")
    site.lab.run(["scancel", *jobs_running(site), *jobs_running(site, "PD")])
    tick_until(site, n1, State.HELD)
    kinds = {event.kind for event in site.events() if event.kind in {EventKind.SWEEP_FAILED, EventKind.SWEEP_PASSED}}
    assert EventKind.SWEEP_FAILED not in kinds
    assert site.standings()[n1].triages_at == ()
    site.lab.wait(lambda: site.tick() and "guardctl_" not in reservations(site), 30, "our reservation to go")
    assert reason(site, n1).startswith("guardctl:")


def test_a_node_that_vanishes_during_its_sweep_is_held(site: Site) -> None:
    node = "n2"
    site.guardctl("drain", node, "--why", "looks slow")
    sweep_of(site, node)
    site.lab.wait(lambda: site.tick() and jobs_running(site), 60, "the sweep's jobs to run")
    site.lab.kill_node(node)
    tick_until(site, node, State.HELD, State.REPAIR)
    assert site.standings()[node].outcome is EventKind.SWEEP_INCONCLUSIVE
    assert not [event for event in site.events(node) if event.kind is EventKind.SWEEP_PASSED]
    site.lab.wait(lambda: site.tick() and "DRAIN" in slurm_state(site, node), 60, f"{node} to be drained")
    assert reason(site, node).startswith("guardctl:")
    site.lab.revive_node(node)
    site.lab.wait(lambda: "NOT_RESPONDING" not in slurm_state(site, node), 60, f"{node} to answer again")
    site.tick()
    assert "DRAIN" in slurm_state(site, node)  # back, and not in service before somebody looked at it
    clean(site, node)


def wait_for_news(site: Site, node: str) -> None:
    before = len(site.events())
    site.lab.wait(lambda: len(site.events()) > before or state_of(site, node) is State.PROBATION, 120, "news")


def test_a_killed_monitor_goes_on_where_it_was(site: Site) -> None:
    """Kill -9 at any moment of a quarantine, again and again: the node still ends in service, and nothing is left."""
    node = "n3"
    site.guardctl("drain", node, "--why", "looks slow")
    for _ in range(4):
        site.start_monitor(period_s=0.3)
        wait_for_news(site, node)
        site.stop("monitor", 9)
    tick_until(site, node, State.PROBATION)
    assert slurm_state(site, node) == "IDLE"
    assert [event.kind for event in site.events(node)].count(EventKind.DRAINED) == 1
    site.lab.wait(lambda: site.tick() and "guardctl_" not in reservations(site), 30, "our reservation to go")


def test_the_kill_switch_stops_everything(site: Site) -> None:
    node = "n4"
    site.guardctl("drain", node, "--why", "looks slow")
    site.policy.kill_switch.touch()
    try:
        for _ in range(3):
            assert site.tick()["actions"] == []
        assert site.states(node) == [State.DRAINING]
    finally:
        site.policy.kill_switch.unlink()
    site.tick()
    assert site.states(node) == [State.QUARANTINED]
    tick_until(site, node, State.PROBATION)


def test_ctrl_c_of_a_sweep_leaves_the_cluster_clean(site: Site) -> None:
    child = site.lab.spawn(site.argv("sweep", "run", "n1", "--partners", "n2"), stdout=site.log("sweep"))
    site.lab.wait(lambda: jobs_running(site), 60, "the sweep's jobs to run")
    child.send_signal(2)
    assert child.wait(timeout=60) == 130
    site.lab.wait(lambda: not jobs_running(site, "R,PD,CG"), 60, "its jobs to go")
    assert "cancelled" in site.log("sweep").read_text()
    assert "guardctl_" not in reservations(site)
    site.tick()
    assert site.states("n1", "n2") == [State.HEALTHY, State.HEALTHY]
