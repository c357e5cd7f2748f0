"""What /proc, sysfs and cgroups look like, and what is made of it."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from guardctl.observe import cgroup, host, identity, infiniband, net
from guardctl.words.errors import InputError
from guardctl.words.policy import Policy

NOW = datetime(2026, 1, 2, tzinfo=UTC)

# --- the network ----------------------------------------------------------------------------------------------------

SNMP = """\
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs
Tcp: 1 200 120000 -1 11 2 3 4 5 1234 5678 90
Udp: InDatagrams NoPorts
Udp: 7 0
"""  # noqa: E501 - as the kernel writes it
DEV = """\
Inter-|   Receive                                       |  Transmit
 face |bytes packets errs drop fifo frame compr multicast|bytes packets errs drop fifo colls carrier compressed
    lo:  100       1    0    0    0     0     0        0    100       1    0    0    0     0       0          0
eth0:123 4 1 2 0 0 0 0 567 8 3 4 0 0 0 0
"""
ROUTE = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t00000000\t0101A8C0\t0003\t0\t0\t200\t00000000\t0\t0\t0
eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
ib0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0
"""
QDISC = """[{"kind":"tbf","handle":"8001:","root":true,"bytes":9,"drops":12,"overlimits":34,"requeues":5,"backlog":678},
{"kind":"bfifo","handle":"1:","parent":"8001:1","bytes":9,"drops":12,"overlimits":0,"requeues":0,"backlog":678}]"""


def test_tcp_counters_stand_under_their_names() -> None:
    found = net.parse_counters(SNMP, "Tcp", net.TCP)
    assert found == {"tcp_retransmits": 90, "tcp_out_segments": 5678, "tcp_in_segments": 1234}


@pytest.mark.parametrize("text", ["", "Tcp: RetransSegs\n", "Tcp: Other\nTcp: 1\n", "Tcp: RetransSegs\nTcp: x\n"])
def test_counters_that_are_not_there_are_unknown(text: str) -> None:
    assert set(net.parse_counters(text, "Tcp", net.TCP).values()) == {None}


def test_the_interface_has_its_own_row() -> None:
    found = net.parse_dev(DEV, "eth0")
    assert found == {"rx_bytes": 123, "rx_errors": 1, "rx_drops": 2, "tx_bytes": 567, "tx_errors": 3, "tx_drops": 4}
    assert set(net.parse_dev(DEV, "eth").values()) == {None}


def test_the_default_route_with_the_lowest_metric_counts() -> None:
    assert net.parse_default_interface(ROUTE) == "eth0"
    assert net.parse_default_interface("".join(ROUTE.splitlines(keepends=True)[::3])) is None
    assert net.parse_default_interface("") is None


def test_a_queue_and_its_parent_are_counted_once() -> None:
    found = net.parse_qdisc(QDISC)
    assert found == {"qdisc_drops": 12, "qdisc_overlimits": 34, "qdisc_requeues": 5, "qdisc_backlog_bytes": 678}


@pytest.mark.parametrize("text", ["", "[]", "Cannot find device"])
def test_no_queue_is_unknown(text: str) -> None:
    assert set(net.parse_qdisc(text).values()) == {None}


def test_a_reading_of_this_host_has_tcp_and_the_interface_asked_for() -> None:
    reading = net.read(Policy.model_validate({"observe": {"interface": "lo"}}), "n1", "boot", NOW)
    assert (reading.device, reading.boot_id) == ("lo", "boot")
    assert isinstance(reading.values["tcp_out_segments"], int)
    assert isinstance(reading.values["rx_bytes"], int)
    assert reading.values["speed_mbps"] is None


# --- control groups -------------------------------------------------------------------------------------------------


def test_both_kinds_of_cgroup_count_in_seconds() -> None:
    v2 = "usage_usec 2500000\nuser_usec 1\nnr_periods 10\nnr_throttled 4\nthrottled_usec 1500000\n"
    v1 = "nr_periods 10\nnr_throttled 4\nthrottled_time 1500000000\n"
    expected = {"periods": 10, "throttled_periods": 4, "throttled_s": 1.5, "usage_s": 2.5}
    assert cgroup.parse_cpu_stat(v2) == pytest.approx(expected)
    assert cgroup.parse_cpu_stat(v1, "2500000000") == pytest.approx(expected)


def test_never_throttled_is_zero_and_no_quota_is_unknown() -> None:
    assert cgroup.parse_cpu_stat("throttled_usec 0\nusage_usec 0\n")["throttled_s"] == 0.0
    assert cgroup.parse_cpu_stat("usage_usec 0\n") == {**cgroup.EMPTY, "usage_s": 0.0}


@pytest.mark.parametrize(("own", "mounts", "folder"), [
    ("0::/system.slice/agent.service\n", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
     "/sys/fs/cgroup/system.slice/agent.service"),
    ("4:cpu,cpuacct:/n3\n1:name=systemd:/x\n0::/y\n",
     "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
     "/sys/fs/cgroup/cpu,cpuacct/n3"),
    ("4:cpuset:/n3\n", "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n", None),
    ("", "", None),
])  # fmt: skip
def test_our_own_group_is_found(own: str, mounts: str, folder: str | None) -> None:
    assert cgroup.parse_own_folder(own, mounts) == (Path(folder) if folder else None)


def test_a_group_that_is_gone_is_unknown(tmp_path: Path) -> None:
    assert cgroup.read(str(tmp_path)) == cgroup.EMPTY
    (tmp_path / "cpu.stat").write_text("nr_periods 3\nnr_throttled 1\nthrottled_time 5000000\n", encoding="ascii")
    (tmp_path / "cpuacct.usage").write_text("7000000000\n", encoding="ascii")
    assert cgroup.read(str(tmp_path)) == {"periods": 3, "throttled_periods": 1, "throttled_s": 0.005, "usage_s": 7.0}


# --- InfiniBand -----------------------------------------------------------------------------------------------------


def test_ports_of_a_recorded_h100_host(tmp_path: Path, data_dir: Path) -> None:
    for line in (data_dir / "ib/gpud_sysfs_infiniband_h100_flat.tsv").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("\t")
        file = tmp_path / "class/infiniband" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value + "\n", encoding="utf-8")
    ports = {each.device: each.values for each in infiniband.read(tmp_path, "n1", "boot", NOW)}
    assert len(ports) == 9
    assert {port["state"] for port in ports.values()} == {"ACTIVE"}
    assert sorted({port["rate_gbps"] for port in ports.values()}) == [200.0, 400.0]  # type: ignore[type-var]
    assert ports["mlx5_0/1"]["phys_state"] == "LinkUp"
    assert ports["mlx5_0/1"]["port_rcv_errors"] == 14
    assert ports["mlx5_1/1"]["link_downed"] == 255


def test_a_node_without_infiniband_has_no_ports(tmp_path: Path) -> None:
    assert infiniband.read(tmp_path, "n1", "boot", NOW) == []
    (tmp_path / "class/infiniband/mlx5_0/ports/1").mkdir(parents=True)
    (bare,) = infiniband.read(tmp_path, "n1", "boot", NOW)
    assert set(bare.values.values()) == {None}


# --- the host -------------------------------------------------------------------------------------------------------


def test_memory_is_in_bytes_and_unknown_where_it_is_not_said() -> None:
    text = "MemTotal:       16384 kB\nMemFree:   1 kB\nMemAvailable:    8192 kB\n"
    assert host.parse_meminfo(text) == {"mem_total_bytes": 2**24, "mem_available_bytes": 2**23}
    assert host.parse_meminfo("MemTotal: many kB\n") == {"mem_total_bytes": None, "mem_available_bytes": None}


@pytest.mark.parametrize("name", ["", "../x", "n1/..", "n 1", ".n", "-n", "n" * 300, "n\n"])
def test_a_name_that_could_leave_its_folder_is_none(name: str) -> None:
    assert not identity.is_node_name(name)
    with pytest.raises(InputError):
        identity.checked(name)


def test_the_node_is_who_slurm_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "gpu-07.rack1")
    assert identity.node_name() == "gpu-07.rack1"


# --- commands that do not end ---------------------------------------------------------------------------------------


def test_a_command_that_hangs_is_killed_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "DEADLINE_S", 0.2)
    began = time.monotonic()
    assert net._said("sh", "-c", "trap '' TERM; echo half; sleep 60 & wait") == ""
    assert time.monotonic() - began < 5
    for child in net.LATE:
        child.wait(timeout=10)


def test_round_trips_are_weighted_by_what_was_sent() -> None:
    text = (
        "0 0 10.77.1.2:40000 10.77.1.3:29500\n\t cubic wscale:7,7 rto:204 rtt:20.0/3 mss:1448 bytes_sent:30000000 x\n"
        "0 0 10.77.1.2:40001 10.77.1.4:29500\n\t cubic rto:204 rtt:4.0/1 mss:1448 bytes_sent:10000000 x\n"
        "0 0 10.77.1.2:6818 10.77.1.254:33000\n\t cubic rto:204 rtt:900.0/1 mss:1448 bytes_sent:800 x\n"
    )
    assert net.parse_rtt_ms(text) == pytest.approx(16.0)
    assert net.parse_rtt_ms(text[-120:]) is None
    assert net.parse_rtt_ms("") is None
