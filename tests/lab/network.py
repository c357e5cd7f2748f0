"""Cables and switches: a bridge per lab, a veth pair per node, and `tc tbf` where a link is to be slow.

The bridge is also the lab's lock: `ip link add` gives a name to one caller only.
"""

import shutil
import subprocess
from pathlib import Path

from tests.lab import layout, needs
from tests.lab.errors import LabError
from tests.lab.layout import Layout

MAX_LABS = 255
SLOW = "root tbf rate {rate} burst 64kb latency 50ms"


def _tool(name: str) -> str:
    return shutil.which(name, path=needs.PATH) or name


def _run(*argv: str, text: str = "") -> None:
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)} failed: {done.stderr.strip()}")


def claim_number() -> int:
    """Takes the first lab number whose bridge does not exist yet, by making that bridge."""
    for number in range(MAX_LABS):
        argv = [_tool("ip"), "link", "add", layout.bridge(number), "type", "bridge"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            return number
        if "exists" not in done.stderr:
            raise LabError(f"cannot make a bridge: {done.stderr.strip()}")
    raise LabError(f"all {MAX_LABS} lab numbers are taken: python -m tests.lab down --all")


def raise_bridge(lab: Layout) -> None:
    """Gives the host its address in the lab's subnet."""
    batch = f"addr add {lab.controller_address}/24 dev {lab.bridge}\nlink set {lab.bridge} up\n"
    _run(_tool("ip"), "-batch", "-", text=batch)


def plug_in(lab: Layout, pids: dict[str, int]) -> None:
    """Runs a cable from the bridge into each node's network namespace, and gives the node its address."""
    lines = []
    for node, pid in pids.items():
        veth = lab.veth(node)
        lines += [
            f"link add {veth} type veth peer name eth0 netns {pid}",
            f"link set {veth} master {lab.bridge}",
            f"link set {veth} up",
        ]
    _run(_tool("ip"), "-batch", "-", text="\n".join([*lines, ""]))
    for node, pid in pids.items():
        batch = f"addr add {lab.address(node)}/24 dev eth0\nlink set eth0 up\nlink set lo up\n"
        _run(_tool("nsenter"), f"--net=/proc/{pid}/ns/net", _tool("ip"), "-batch", "-", text=batch)


def set_rate(lab: Layout, node: str, pid: int, rate: str | None) -> None:
    """Shapes the node's link in both directions ("50mbit"), or takes the shaping away (None)."""
    inside = (_tool("nsenter"), f"--net=/proc/{pid}/ns/net", _tool("tc"))
    for tc, device in ((inside, "eth0"), ((_tool("tc"),), lab.veth(node))):
        if rate is not None:
            _run(*tc, "qdisc", "replace", "dev", device, *SLOW.format(rate=rate).split())
        elif _shaped(tc, device):
            _run(*tc, "qdisc", "del", "dev", device, "root")


def _shaped(tc: tuple[str, ...], device: str) -> bool:
    argv = [*tc, "qdisc", "show", "dev", device]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return " tbf " in done.stdout


def remove(number: int) -> None:
    """Pulls all cables and removes the bridge. The bridge goes last: it is the lock on the lab's number."""
    devices = sorted(path.name for path in Path("/sys/class/net").glob(f"{layout.bridge(number)}n*"))
    if devices:
        batch = "".join(f"link del {name}\n" for name in devices)
        # A cable may go by itself as its namespace ends: -force carries on.
        argv = [_tool("ip"), "-force", "-batch", "-"]
        subprocess.run(argv, input=batch, capture_output=True, text=True, timeout=60, check=False)
    if Path("/sys/class/net", layout.bridge(number)).exists():
        _run(_tool("ip"), "link", "del", layout.bridge(number))
