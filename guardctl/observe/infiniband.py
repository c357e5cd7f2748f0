"""InfiniBand ports as sysfs shows them: state, rate and error counters.

Some counters stop at their greatest value (link_downed at 255, on older cards); a reader of rates sees no change then.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from guardctl.words.records import Reading, Source, Value

RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")
COUNTERS = (
    "link_downed", "link_error_recovery", "symbol_error", "local_link_integrity_errors", "port_rcv_errors",
    "port_rcv_remote_physical_errors", "port_xmit_discards", "port_xmit_wait", "excessive_buffer_overrun_errors",
    "VL15_dropped", "port_rcv_data", "port_xmit_data",
)  # fmt: skip
HW_COUNTERS = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "roce_slow_restart")


def parse_state(text: str) -> str | None:
    """`ACTIVE` of "4: ACTIVE", `LinkUp` of "5: LinkUp"."""
    return text.rpartition(":")[2].strip() or None


def parse_rate_gbps(text: str) -> float | None:
    """400.0 of "400 Gb/sec (4X NDR)"."""
    match = RATE.match(text.strip())
    return float(match[1]) if match else None


def read(sysfs: Path, node: str, boot_id: str | None, now: datetime) -> list[Reading]:
    """One reading per port, device "mlx5_0/1"; none on a node without InfiniBand or RoCE."""
    return [
        Reading(node, now, Source.IB, f"{port.parent.parent.name}/{port.name}", boot_id=boot_id, values=_port(port))
        for port in sorted(_ports(sysfs / "class/infiniband"))
    ]


def _ports(folder: Path) -> Iterator[Path]:
    for device in _entries(folder):
        yield from _entries(device / "ports")


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder; a device that is being reset has none for a moment, and hides no other."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _port(folder: Path) -> dict[str, Value]:
    state: dict[str, Value] = {
        "state": parse_state(_text(folder / "state")),
        "phys_state": parse_state(_text(folder / "phys_state")),
        "rate_gbps": parse_rate_gbps(_text(folder / "rate")),
        "link_layer": _text(folder / "link_layer") or None,
    }
    counters = {name: _number(folder / "counters" / name) for name in COUNTERS}
    return state | counters | {name: _number(folder / "hw_counters" / name) for name in HW_COUNTERS}


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
