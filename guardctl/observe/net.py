"""The node's network as the kernel counts it: TCP, the interface, and the queue in front of the interface.

A slow link shows in the queue of its own node, which holds packets back (`qdisc_overlimits`) and drops them when it is
full, and as a long round trip of the node's connections. Retransmits are made by whoever sends *to* it, too.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from guardctl.words.policy import Policy
from guardctl.words.records import Reading, Source, Value

PROC = Path("/proc")
LATE: list[subprocess.Popen[str]] = []  # children that even SIGKILL has not ended yet: reaped when they do
DEADLINE_S = 5.0  # for one command of iproute2
SS_SOCKET = re.compile(r"\brtt:(?P<rtt_ms>[\d.]+)/.*?\bbytes_sent:(?P<sent>\d+)")
BULK_BYTES = 2**20  # a connection that has sent less says nothing about the link's queue
TCP = {"RetransSegs": "tcp_retransmits", "OutSegs": "tcp_out_segments", "InSegs": "tcp_in_segments"}
TCP_MORE = {"TCPTimeouts": "tcp_timeouts", "TCPLostRetransmit": "tcp_lost_retransmits"}
DEV = {0: "rx_bytes", 2: "rx_errors", 3: "rx_drops", 8: "tx_bytes", 10: "tx_errors", 11: "tx_drops"}
QDISC = {"drops": "qdisc_drops", "overlimits": "qdisc_overlimits", "requeues": "qdisc_requeues",
         "backlog": "qdisc_backlog_bytes"}  # fmt: skip
NUM_DEV_COLUMNS = 16
ROUTE_GATEWAY = 0x2


def parse_counters(text: str, prefix: str, names: Mapping[str, str]) -> dict[str, Value]:
    """Counters of one protocol in /proc/net/snmp or netstat: a line of names, then a line of numbers."""
    rows = [line.split() for line in text.splitlines() if line.startswith(f"{prefix}:")]
    found = dict(zip(rows[0][1:], rows[1][1:], strict=False)) if len(rows) > 1 else {}
    return {ours: _int(found.get(theirs)) for theirs, ours in names.items()}


def parse_dev(text: str, interface: str) -> dict[str, Value]:
    """The counters of one interface in /proc/net/dev; all None if it is not there."""
    for line in text.splitlines():
        name, colon, numbers = line.partition(":")
        columns = numbers.split()
        if colon and name.strip() == interface and len(columns) >= NUM_DEV_COLUMNS:
            return {ours: _int(columns[column]) for column, ours in DEV.items()}
    return dict.fromkeys(DEV.values())


def parse_default_interface(text: str) -> str | None:
    """The interface of the default route with the lowest metric in /proc/net/route; None if there is no such route."""
    routes = [row for row in (line.split() for line in text.splitlines()[1:]) if len(row) >= 8]  # noqa: PLR2004 - columns
    defaults = [row for row in routes if row[1] == "00000000" and row[7] == "00000000" and int(row[3], 16) & 1]
    return min(defaults, key=lambda row: int(row[6]))[0] if defaults else None


def parse_qdisc(text: str) -> dict[str, Value]:
    """Sums over the root queues that `tc -s -j qdisc show` prints; a root counts what its children count."""
    try:
        queues: list[Mapping[str, Any]] = json.loads(text)
    except json.JSONDecodeError:
        return dict.fromkeys(QDISC.values())
    roots = [queue for queue in queues if queue.get("root")] or queues
    return {ours: sum(queue.get(theirs, 0) for queue in roots) if roots else None for theirs, ours in QDISC.items()}


def parse_rtt_ms(text: str) -> float | None:
    """Mean smoothed round trip in ms of the connections in `ss -ti`, by bytes sent; None without a busy connection."""
    found = [(float(match["rtt_ms"]), int(match["sent"])) for match in SS_SOCKET.finditer(text)]
    bulk = [(rtt_ms, sent) for rtt_ms, sent in found if sent >= BULK_BYTES]
    total = sum(sent for _, sent in bulk)
    return sum(rtt_ms * sent for rtt_ms, sent in bulk) / total if total else None


def interface_of(policy: Policy) -> str:
    """The interface to watch: the policy's, the default route's, or eth0."""
    return policy.observe.interface or parse_default_interface(_text(PROC / "net/route")) or "eth0"


def read(policy: Policy, node: str, boot_id: str | None, now: datetime) -> Reading:
    """One reading of the node's interface. What cannot be read is None."""
    interface = interface_of(policy)
    values = {
        **parse_counters(_text(PROC / "net/snmp"), "Tcp", TCP),
        **parse_counters(_text(PROC / "net/netstat"), "TcpExt", TCP_MORE),
        **parse_dev(_text(PROC / "net/dev"), interface),
        **parse_qdisc(_said("tc", "-s", "-j", "qdisc", "show", "dev", interface)),
        "tcp_rtt_ms": parse_rtt_ms(_said("ss", "--tcp", "--info", "--numeric", "--no-header", "state", "established")),
        **_link(policy.observe.sysfs / "class/net" / interface),
    }
    return Reading(node, now, Source.NET, interface, boot_id=boot_id, values=values)


def _link(folder: Path) -> dict[str, Value]:
    """How often the carrier came and went, and the speed in Mbit/s (virtual and unplugged interfaces say -1)."""
    speed_mbps = _int(_text(folder / "speed"))
    return {
        "carrier_changes": _int(_text(folder / "carrier_changes")),
        "speed_mbps": speed_mbps if speed_mbps and speed_mbps > 0 else None,
    }


def _said(*argv: str) -> str:
    """What a command printed; empty if it is not here, fails or is late: then it is killed, and not waited for."""
    try:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 text=True, start_new_session=True)  # fmt: skip
    except OSError:
        return ""
    try:
        printed, _ = child.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        LATE.append(child)
        LATE[:] = [each for each in LATE if each.poll() is None]
        return ""
    return printed if child.returncode == 0 else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _int(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
