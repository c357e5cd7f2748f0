"""The exact command lines, what is refused before Slurm sees it, and the dry run."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.cluster import argv
from guardctl.cluster.dryrun import DryRun
from guardctl.cluster.protocol import Cluster, Submission
from guardctl.cluster.records import Job, Node
from guardctl.cluster.slurm import SlurmCommands, check_whole
from guardctl.words.errors import ClusterError, InputError

REASON = "guardctl:4k2 GPU 3 at 0.71 of its peers, 5 of 5 windows"
RESERVE = (
    "scontrol create reservation ReservationName=g Nodes=n1 StartTime=now Duration=1 Users=slurmadm Flags=IGNORE_JOBS"
)
SUBMIT = (
    "env 'A=b c' sbatch --parsable --exclusive --no-requeue --job-name=x"
    " --nodelist=n1 --nodes=1 --time=15 --export=A /x"
)


def test_drains() -> None:
    assert argv.drain("n1", REASON) == ("scontrol", "update", "NodeName=n1", "State=DRAIN", f"Reason={REASON}")
    assert argv.undrain("n1") == ("scontrol", "update", "NodeName=n1", "State=UNDRAIN")
    assert argv.set_reason("n1", REASON) == ("scontrol", "update", "NodeName=n1", f"Reason={REASON}")


def test_reservations() -> None:
    assert argv.reserve("guardctl_4k2", ["n2", "n1"], 3601, "slurmadm") == (
        "scontrol", "create", "reservation", "ReservationName=guardctl_4k2", "Nodes=n[1-2]", "StartTime=now",
        "Duration=61", "Users=slurmadm", "Flags=IGNORE_JOBS",
    )  # fmt: skip
    assert argv.renew("g", 3600) == ("scontrol", "update", "ReservationName=g", "EndTime=now+60minutes")
    assert argv.unreserve("g") == ("scontrol", "delete", "ReservationName=g")


def test_a_submission_asks_for_exactly_its_nodes() -> None:
    job = Submission(
        name="guardctl-sweep", script=Path("/opt/node.sbatch"), nodes=("n2", "n1"), arguments=("--seconds", "60"),
        environment={"PATH": "/bin", "A": "x,y"}, reservation="guardctl_4k2", partition="gpu", time_limit_s=900,
        output=Path("/shared/out"), comment="guardctl:none",
    )  # fmt: skip
    assert argv.submit(job) == (
        "sbatch", "--parsable", "--exclusive", "--no-requeue", "--job-name=guardctl-sweep", "--nodelist=n[1-2]",
        "--nodes=2", "--time=15", "--export=A,PATH", "--reservation=guardctl_4k2", "--partition=gpu",
        "--output=/shared/out", "--comment=guardctl:none", "/opt/node.sbatch", "--seconds", "60",
    )  # fmt: skip


def test_a_bare_submission_takes_nothing_along() -> None:
    line = argv.submit(Submission(name="x", script=Path("-x.sbatch"), nodes=("n1",)))
    assert line[-1] == "./-x.sbatch"
    assert "--export=NIL" in line
    assert not [word for word in line if word.startswith(("--reservation", "--partition", "--output", "--comment"))]


@pytest.mark.parametrize(
    "reason", ["", "  ", "x" * 100, 'gets "hot"', "it's hot", "`x`", "two\nlines", "tab\there", "nul\0", "\x1b[1m"]
)
def test_reasons_that_are_refused(reason: str) -> None:
    with pytest.raises(InputError, match="reason"):
        argv.drain("n1", reason)


@pytest.mark.parametrize("node", ["ALL", "n[1-1000]", "n1,n2", "", "n1 State=RESUME"])
def test_a_drain_is_for_one_node(node: str) -> None:
    with pytest.raises(InputError, match="not the name of one node"):
        argv.drain(node, REASON)
    with pytest.raises(InputError, match="not the name of one node"):
        argv.undrain(node)
    with pytest.raises(InputError, match="not the name of one node"):
        argv.set_reason(node, REASON)


def test_other_values_that_are_refused() -> None:
    for name in ("", "a,b", "a b", "-a", "a=b"):
        with pytest.raises(InputError, match="not a name"):
            argv.unreserve(name)
    for job_id in ("", "-u", "1 2", "1_3", "root", "--user=root"):
        with pytest.raises(InputError, match="not a job id"):
            argv.cancel([job_id])
    with pytest.raises(InputError, match="no node named"):
        argv.submit(Submission(name="x", script=Path("x"), nodes=()))
    with pytest.raises(InputError, match="environment variable"):
        argv.submit(Submission(name="x", script=Path("x"), nodes=("n1",), environment={"A,ALL": "1"}))
    with pytest.raises(InputError, match="comment"):
        argv.submit(Submission(name="x", script=Path("x"), nodes=("n1",), comment="a\nb"))


@given(st.text(max_size=120))
def test_a_reason_is_refused_or_stays_one_plain_line(reason: str) -> None:
    try:
        line = argv.drain("n1", reason)
    except InputError:
        return
    assert line[-1] == f"Reason={reason}"
    assert len(reason) < 100
    assert not set("\"'`\n\r\t\0") & set(reason)


def test_a_dry_run_notes_and_does_not_write() -> None:
    dry = DryRun(SlurmCommands(user="slurmadm", env={"PATH": "/nowhere"}))
    cluster: Cluster = dry
    cluster.drain("n1", REASON)
    cluster.reserve(
        "g",
        ["n1"],
        60,
    )
    cluster.undrain("n1")
    cluster.renew("g", 60)
    assert cluster.submit(Submission(name="x", script=Path("/x"), nodes=("n1",), environment={"A": "b c"})) == "0"
    cluster.cancel(["7", "8"])
    cluster.cancel([])
    cluster.unreserve("g")
    cluster.set_reason("n1", REASON)
    assert dry.commands == (
        f"scontrol update NodeName=n1 State=DRAIN 'Reason={REASON}'",
        RESERVE,
        "scontrol update NodeName=n1 State=UNDRAIN",
        "scontrol update ReservationName=g EndTime=now+1minutes",
        SUBMIT,
        "scancel 7 8",
        "scontrol delete ReservationName=g",
        f"scontrol update NodeName=n1 'Reason={REASON}'",
    )
    with pytest.raises(ClusterError, match="command not found"):
        dry.node("n1")


def test_what_cannot_be_all_there_is() -> None:
    job = Job("7", "x", "RUNNING", "ann", 1001, ("n1", "n9"))
    with pytest.raises(ClusterError, match="no node at all"):
        check_whole({}, {})
    with pytest.raises(ClusterError, match="runs on 'n9'"):
        check_whole({"n1": Node("n1", "IDLE")}, {"7": job})
    check_whole({"n1": Node("n1", "IDLE"), "n9": Node("n9", "IDLE")}, {"7": job})
