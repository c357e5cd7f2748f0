"""The node's network as the kernel counts it: TCP, the interface, and the queue in front of the interface.

A NIC or a cable that is slow shows as retransmits at the sender, and as drops or a backlog in its queue.
"""

import json
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from guardctl.words.policy import Policy
from guardctl.words.records import Reading, Source, Value

PROC = Path("/proc")
TC_DEADLINE_S = 5.0
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
        **parse_qdisc(_tc(interface)),
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


def _tc(interface: str) -> str:
    argv = ["tc", "-s", "-j", "qdisc", "show", "dev", interface]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TC_DEADLINE_S, check=False,
                              stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


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
