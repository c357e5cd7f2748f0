"""Who this node is: its name as Slurm knows it, and the id of its present boot."""

import os
import re
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

from guardctl.words.errors import InputError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def node_name() -> str:
    """The node's name: Slurm's, where slurmd started us, else the short host name."""
    return checked(os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0])


def is_node_name(name: object) -> bool:
    """Whether this could name a node: letters, digits, dot, dash and underscore. It becomes part of paths."""
    return isinstance(name, str) and NODE_NAME.fullmatch(name) is not None


def checked(name: str) -> str:
    """The name itself, or InputError if it cannot name a node."""
    if not is_node_name(name):
        raise InputError(f"node name {name!r}: letters, digits, `.`, `-` and `_` only", hint="set SLURMD_NODENAME")
    return name


def boot_id() -> str | None:
    """The kernel's id of this boot; None where the kernel does not say."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except OSError:
        return None


def boot_at() -> datetime:
    """When the node booted, as the kernel's log counts (time asleep included, like dmesg's)."""
    return datetime.fromtimestamp(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME), UTC)
