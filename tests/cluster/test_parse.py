"""Parsers against what real commands printed: our recordings (the release is in the name) and other people's."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from guardctl.cluster.parse_jobs import columns, parse_job_text, parse_jobs, parse_reservations
from guardctl.cluster.parse_nodes import parse_nodes
from guardctl.cluster.parse_text import parse_node_text, parse_reservation_text
from guardctl.cluster.records import Node, Reservation
from guardctl.words.errors import ClusterError

GOLDEN = Path(__file__).parent / "golden"
BOOT_AT = datetime(2026, 11, 29, 15, 33, 46, tzinfo=UTC)


def golden(name: str) -> str:
    return (GOLDEN / name).read_text()


# --- nodes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nodes",
    [
        parse_nodes(golden("sinfo_22.05.8.json")),
        parse_node_text(golden("scontrol_show_nodes_22.05.8.txt")),
    ],
    ids=["json", "text"],
)
def test_nodes_of_22_05(nodes: dict[str, Node]) -> None:
    """Both forms tell the same, line ends in reasons and comments included."""
    assert list(nodes) == ["c1", "c2", "n1", "n2", "n3", "n4"]
    assert nodes["n2"] == Node(
        name="n2", base="IDLE", flags=frozenset({"DRAIN"}), reason='gets "hot" [twice]\nlines=State=IDLE x',
        reason_user="root", reason_at=datetime(2026, 11, 29, 16, 16, 24, tzinfo=UTC), boot_at=BOOT_AT,
        partitions=("gpu", "all"), features=("h100", "ib"), num_gpus=8, cpus=8, address="localhost",
    )  # fmt: skip
    assert (nodes["c1"].base, nodes["c1"].reason) == ("DOWN", "drain a down node")
    assert nodes["c2"].partitions == ("all", "secret")
    assert nodes["n1"].flags == {"RESERVED"}
    assert (nodes["n3"].reason, nodes["n3"].reason_user, nodes["n3"].reason_at) == (None, None, None)


@pytest.mark.parametrize(
    "nodes",
    [
        parse_nodes(golden("scontrol_show_nodes_24.11.5.json")),
        parse_node_text(golden("scontrol_show_nodes_24.11.5.txt")),
        parse_nodes(golden("sinfo_24.11.5.json")),
    ],
    ids=["scontrol json", "text", "sinfo json"],
)
def test_nodes_of_24_11(nodes: dict[str, Node]) -> None:
    """The same in all three forms; reason_set_by_user stands there even without a reason."""
    assert (nodes["n1"].base, nodes["n1"].flags) == ("IDLE", frozenset({"DRAIN", "RESERVED"}))
    assert nodes["n1"].reason == "guardctl:4k2 GPU 3 slow (5 of 5 windows)"
    assert (nodes["n1"].reason_user, nodes["n1"].num_gpus) == ("root", 8)
    assert nodes["n1"].reason_at == datetime(2026, 11, 29, 16, 10, 8, tzinfo=UTC)
    assert (nodes["c1"].reason, nodes["c1"].partitions) == ("dead=yes, State=IDLE", ("all", "secret"))
    assert (nodes["n2"].reason, nodes["n2"].reason_user) == (None, None)
    assert all(node.known for node in nodes.values())


def test_every_recorded_node_of_other_clusters(data_dir: Path) -> None:
    folder = data_dir / "slurm" / "node_json"
    files = sorted(folder.glob("slurmweb_*.json"))
    if not files:
        pytest.skip(f"no samples in {folder}")
    for file in files:
        kind = file.stem.partition("slurm-node-")[2]
        text = file.read_text()
        if kind == "unfound":
            with pytest.raises(ClusterError, match="unexisting-node"):
                parse_nodes(text)
            continue
        (node,) = parse_nodes(text).values()
        assert node.known, file.name
        assert node.drained == (kind in {"drain", "draining"}), file.name
        assert (node.base == "DOWN") == (kind == "down"), file.name
        assert "PLANNED" in node.flags or kind != "planned", file.name
        assert node.num_gpus or kind != "with-gpus-model-allocated", file.name
        assert not node.num_gpus or kind != "without-gpu", file.name
        assert node.boot_at is not None, file.name
        assert (node.reason is None) == (node.reason_at is None), file.name


def test_drain_stands_in_the_flags_of_older_releases(data_dir: Path) -> None:
    nodes = parse_nodes((data_dir / "slurm/node_json/telegraf_22.05.9_v0.0.38_nodes.json").read_text())
    assert all(node.drained and node.reason == "Kill task failed" for node in nodes.values() if node.reason)
    assert nodes["naboo145"].reason_at == datetime.fromtimestamp(1723077306, UTC)


def test_sentinels_are_unknown(data_dir: Path) -> None:
    nodes = parse_nodes((data_dir / "slurm/node_json/clockwork_21.08_v0.0.37_sinfo_2.json").read_text())
    node = nodes["test-node-1"]
    assert (node.base, node.flags, node.boot_at) == ("DOWN", frozenset({"NOT_RESPONDING"}), None)
    assert (node.num_gpus, node.features) == (1, ("test_features",))


def test_one_node_of_a_rest_server(data_dir: Path) -> None:
    record = json.loads((data_dir / "slurm/node_json/soperator_usual_node_rest.json").read_text())
    (node,) = parse_nodes(json.dumps({"nodes": [record], "errors": []})).values()
    assert (node.name, node.flags, node.num_gpus, node.reason) == ("worker-1", frozenset({"DYNAMIC_NORM"}), 1, None)


def test_text_of_20_11(data_dir: Path) -> None:
    nodes = parse_node_text((data_dir / "slurm/scontrol/clockwork_20.11.8_scontrol_node_3.txt").read_text())
    assert [node.num_gpus for node in nodes.values()] == [0, 8, 8, 8, 0]
    assert {node.base for node in nodes.values()} == {"MIXED"}
    assert nodes["test-node-2"].cpus_allocated == 34


def test_text_from_public_posts(data_dir: Path) -> None:
    text = (data_dir / "slurm/scontrol/collected_states.txt").read_text().partition("## S5")[0]
    nodes = parse_node_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("#")))
    hot = nodes["n23g0003"]
    assert (hot.base, hot.flags, hot.boot_at) == ("DOWN", frozenset({"DRAIN", "NOT_RESPONDING"}), None)
    assert (hot.reason, hot.reason_user) == ("gets too hot", "mw445520")
    assert (nodes["med0304"].num_gpus, nodes["med0304"].busy) == (4, True)
    assert nodes["yigou-dev-102-68"].reason == "gres/gpu count reported lower than configured (0 < 1)"


def test_an_unknown_node_is_an_empty_answer() -> None:
    assert parse_nodes(golden("scontrol_show_node_unknown_24.11.5.json")) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (golden("sinfo_controller_down_22.05.8.json"), "Unspecified error"),
        ("", "not JSON"),
        ('{"nodes": [{"name": "n1", "sta', "not JSON"),
        ("[]", "not an object"),
        ("{}", "no list `nodes`"),
        ('{"nodes": null}', "no list `nodes`"),
        ('{"nodes": [1]}', "no list `nodes`"),
        ('{"nodes": [{"name": "n1"}]}', "'n1' has no `state`"),
        ('{"nodes": [{"name": "n1", "state": "idle"}]}', "'n1' has no `reason`"),
        ('{"nodes": [{"name": "", "state": "idle", "reason": "", "partitions": []}]}', "not a name"),
        ('{"sinfo": [{"node": {"state": ["IDLE"]}}]}', "has no `nodes`"),
    ],
)
def test_a_partial_answer_is_an_error(text: str, words: str) -> None:
    with pytest.raises(ClusterError, match=words) as caught:
        parse_nodes(text)
    assert caught.value.exit_code == 3


def test_text_that_is_cut_is_an_error() -> None:
    text = golden("scontrol_show_nodes_22.05.8.txt")
    with pytest.raises(ClusterError, match="'n4' has no"):
        parse_node_text(text[: text.rindex("NodeName=n4") + 30])
    with pytest.raises(ClusterError, match="twice"):
        parse_node_text(text + text)


# --- jobs -----------------------------------------------------------------------------------------------------------


def test_jobs_of_22_05() -> None:
    jobs = parse_jobs(golden("squeue_22.05.8.json"))
    assert list(jobs) == ["1", "2", "5", "4", "6", "7", "3"]
    job = jobs["1"]
    assert (job.name, job.state, job.user, job.uid, job.nodes) == ("my job", "RUNNING", "root", 0, ("n4",))
    assert job.comment == 'guardctl:signal "x"=1\nJobId=99 UserId=root(0)'
    assert job.start_at == datetime(2026, 11, 29, 16, 0, 11, tzinfo=UTC)
    assert (jobs["2"].nodes, jobs["2"].start_at, jobs["2"].reason) == ((), None, "Resources")
    assert (jobs["5"].state, jobs["5"].running) == ("COMPLETED", False)


def test_jobs_of_24_11() -> None:
    jobs = parse_jobs(golden("squeue_24.11.5.json"))
    assert [(job.state, job.nodes, job.start_at is None) for job in jobs.values()] == [
        ("RUNNING", ("n3",), False), ("PENDING", (), True), ("PENDING", (), True),
    ]  # fmt: skip


def test_a_forgotten_job_is_an_empty_answer_and_a_dead_controller_is_not() -> None:
    assert parse_jobs(golden("scontrol_show_job_unknown_24.11.5.json")) == {}
    with pytest.raises(ClusterError, match="Failed while looking for jobs") as caught:
        parse_jobs(golden("squeue_controller_down_22.05.8.json"))
    assert "scontrol ping" in caught.value.hint


@pytest.mark.parametrize(
    "record",
    [
        {"nodes": "n[1-2]"},
        {"job_resources": {"nodes": "n[1-2]", "allocated_nodes": []}},
        {"job_resources": {"allocated_nodes": [{"nodename": "n1"}, {"nodename": "n2"}]}},
        {"job_resources": {"allocated_nodes": {"n1": {"cores": {}}, "n2": {"cores": {}}}}},
        {"job_resources": {"nodes": {"count": 2, "allocation": [{"name": "n1"}, {"name": "n2"}]}}},
    ],
)
def test_the_nodes_of_a_job_in_every_form(record: dict[str, object]) -> None:
    text = json.dumps({"jobs": [{"job_id": 7, "job_state": ["RUNNING", "SIGNALING"], **record}]})
    assert parse_jobs(text)["7"].nodes == ("n1", "n2")
    assert parse_jobs(text)["7"].running


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("COMPLETING", "COMPLETING"),
        (["COMPLETED", "COMPLETING"], "COMPLETING"),
        (["RUNNING", "CONFIGURING"], "CONFIGURING"),
        (["PENDING", "REQUEUED"], "PENDING"),
        ([], "UNKNOWN"),
    ],
)
def test_the_state_of_a_job(state: object, expected: str) -> None:
    assert parse_jobs(json.dumps({"jobs": [{"job_id": 7, "job_state": state}]}))["7"].state == expected


def test_a_job_with_a_bad_host_list_is_an_error() -> None:
    with pytest.raises(ClusterError, match="nodes of 7"):
        parse_jobs('{"jobs": [{"job_id": 7, "job_state": "RUNNING", "nodes": "n[1"}]}')


def test_job_columns_survive_what_users_write() -> None:
    mark = "<b0a1>"
    assert columns(mark).startswith("<b0a1>%A<b0a1>%T<b0a1>")
    cells = ["1", "RUNNING", "ann", "1001", "n[1-2]", "gpu", "(null)", "2026-11-29T16:00:11", "None", "a|b"]
    row = mark + mark.join([*cells, "two\n<lines> RUNNING|root"]) + mark + "\n"
    jobs = parse_job_text(row + row.replace(f"{mark}1{mark}", f"{mark}2{mark}", 1), mark)
    assert list(jobs) == ["1", "2"]
    assert (jobs["1"].name, jobs["1"].comment) == ("a|b", "two\n<lines> RUNNING|root")
    assert (jobs["2"].uid, jobs["2"].nodes, jobs["2"].reservation) == (1001, ("n1", "n2"), "")
    assert parse_job_text("", mark) == {}
    with pytest.raises(ClusterError, match="not whole"):
        parse_job_text(row[:-20], mark)


# --- reservations ---------------------------------------------------------------------------------------------------


def test_reservations_of_22_05() -> None:
    found = parse_reservation_text(golden("scontrol_show_reservation_22.05.8.txt"))
    assert list(found) == ["guardctl_4k2", "maint"]
    assert found["guardctl_4k2"] == Reservation(
        name="guardctl_4k2", nodes=("n1", "n4"), users=("root",), flags=frozenset({"IGNORE_JOBS", "SPEC_NODES"}),
        start_at=datetime(2026, 11, 29, 16, 1, 21, tzinfo=UTC), end_at=datetime(2026, 11, 29, 17, 31, 21, tzinfo=UTC),
    )  # fmt: skip
    assert found["maint"].users == ("root", "nobody")


def test_reservations_of_24_11_are_the_same_in_both_forms() -> None:
    in_text = parse_reservation_text(golden("scontrol_show_reservation_24.11.5.txt"))
    assert parse_reservations(golden("scontrol_show_reservation_24.11.5.json")) == in_text
    assert in_text["maint"].flags == {"MAINT", "IGNORE_JOBS", "SPEC_NODES"}


def test_no_reservations_are_said_so_and_silence_is_an_error() -> None:
    assert parse_reservation_text(golden("scontrol_show_reservation_none_22.05.8.txt")) == {}
    with pytest.raises(ClusterError, match="neither lists reservations"):
        parse_reservation_text("")
    with pytest.raises(ClusterError, match="'g' has no"):
        parse_reservation_text("ReservationName=g StartTime=2026-11-29T16:01:21\n")
