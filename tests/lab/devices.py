"""A node's kernel log and sysfs tree, as files of the lab.

The log is in the format of /dev/kmsg: `priority,sequence,microseconds since boot,-;text`. The tree holds an InfiniBand
port with the counters that an H100 host has.
"""

import time
from pathlib import Path

from tests.lab import gpus

ERROR = 3  # kernel facility, severity "err"
INFO = 6
XID_TEXTS = {
    13: "pid={pid}, name=python3, Graphics SM Warp Exception on (GPC 1, TPC 2, SM 0): Out Of Range Address",
    31: "pid={pid}, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f3c_e5a00000.",
    48: "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU",
    63: "pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "pid='<unknown>', name=<unknown>, Row Remapper: Failed to remap a row",
    74: "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0)",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    94: "pid={pid}, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
    95: "pid='<unknown>', name=<unknown>, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    119: "pid={pid}, name=python3, Timeout after 6s of waiting for RPC response from GSP! Expected function 76",
}
PORT = {"link_layer": "InfiniBand", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "state": "4: ACTIVE"}
COUNTERS = [
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
    "local_link_integrity_errors", "multicast_rcv_packets", "multicast_xmit_packets", "port_rcv_constraint_errors",
    "port_rcv_data", "port_rcv_errors", "port_rcv_packets", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_xmit_data", "port_xmit_discards",
    "port_xmit_packets", "port_xmit_wait", "symbol_error", "unicast_rcv_packets", "unicast_xmit_packets",
]  # fmt: skip
HW_COUNTERS = [
    "duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "out_of_buffer", "out_of_sequence",
    "packet_seq_err", "roce_slow_restart", "rnr_nak_retry_err",
]  # fmt: skip


def make_log(file: Path) -> None:
    """A kernel log as it is after boot."""
    log(file, INFO, "Linux version 6.1.0-28-amd64 (builder@example.org)")
    log(file, INFO, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06")


def log(file: Path, priority: int, text: str) -> None:
    """Appends one record."""
    sequence = len(file.read_text().splitlines()) if file.exists() else 0
    microseconds = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    with file.open("a") as out:
        out.write(f"{priority},{sequence},{microseconds},-;{text}\n")


def log_xid(file: Path, xid: int, gpu: int) -> None:
    """Appends what the driver logs for this Xid on this GPU."""
    text = XID_TEXTS.get(xid, "pid='<unknown>', name=<unknown>, unknown error").format(pid=4242)
    log(file, ERROR, f"NVRM: Xid ({gpus.xid_address(gpu)}): {xid}, {text}")


def make_sysfs(root: Path) -> None:
    """class/infiniband with one healthy port."""
    port = root / "class/infiniband/mlx5_0/ports/1"
    for folder, names in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
        (port / folder).mkdir(parents=True)
        for name in names:
            (port / folder / name).write_text("0\n")
    for name, value in PORT.items():
        (port / name).write_text(f"{value}\n")
