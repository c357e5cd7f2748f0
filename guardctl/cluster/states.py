"""A node's state as base and flags, from every way in which Slurm writes it.

    MIXED+DRAIN   IDLE* DRAIN in `state_flags`   ["IDLE", "DRAIN"]   drained$   mix-   drng

A word that is not known here is kept and makes `known` False: such a node is left alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

BASES = frozenset({"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE"})
FLAGS = frozenset({
    "BLOCKED", "CLOUD", "COMPLETING", "DRAIN", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "EXTERNAL", "FAIL", "INVALID_REG",
    "MAINT", "NOT_RESPONDING", "PERFCTRS", "PLANNED", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN",
    "POWER_DRAIN", "POWER_UP", "REBOOT_CANCEL", "REBOOT_ISSUED", "REBOOT_REQUESTED", "RESERVED", "RESUME", "UNDRAIN",
})  # fmt: skip
# sinfo(1), NODE STATE CODES: what the sign after a state means
SUFFIXES = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINT", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}  # fmt: skip
# one word for base and flag together, as sinfo prints it, long and short
COMPOUND: dict[str, tuple[str, ...]] = {
    "ALLOC": ("ALLOCATED",), "MIX": ("MIXED",), "UNK": ("UNKNOWN",), "FUTR": ("FUTURE",), "ERR": ("ERROR",),
    "DRAINED": ("IDLE", "DRAIN"), "DRAINING": ("ALLOCATED", "DRAIN"), "DRNG": ("ALLOCATED", "DRAIN"),
    "FAILING": ("ALLOCATED", "FAIL"), "FAILG": ("ALLOCATED", "FAIL"),
    "COMP": ("COMPLETING",), "MAINTENANCE": ("MAINT",), "RESV": ("RESERVED",), "PLND": ("PLANNED",),
    "INVAL": ("INVALID_REG",), "NO_RESPOND": ("NOT_RESPONDING",), "NPC": ("PERFCTRS",), "BLOCK": ("BLOCKED",),
    "BOOT": ("REBOOT_ISSUED",), "REBOOT": ("REBOOT_ISSUED",), "POW_UP": ("POWERING_UP",),
    "POW_DN": ("POWERING_DOWN",),
}  # fmt: skip

# sinfo leaves the base out of these: the node is idle as far as Slurm is concerned
IDLE_FLAGS = frozenset({"DRAIN", "FAIL", "MAINT", "RESERVED", "PLANNED", "COMPLETING", "BLOCKED"})


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of one node, taken apart."""

    base: str
    flags: frozenset[str]
    known: bool


def node_state(state: str | Iterable[str], flags: Iterable[str] = ()) -> NodeState:
    """Base and flags of a state: one text, or a list of words, and the separate `state_flags` of older releases."""
    parts = state.split("+") if isinstance(state, str) else list(state)
    found = [name for part in (*parts, *flags) for name in _names(part)]
    bases = {name for name in found if name in BASES}
    if not bases and IDLE_FLAGS.intersection(found):
        bases = {"IDLE"}
    strange = any(name not in BASES and name not in FLAGS for name in found)
    base = next(iter(bases)) if len(bases) == 1 else "UNKNOWN"
    return NodeState(base, frozenset(found) - {base}, known=len(bases) == 1 and not strange)


def _names(part: str) -> list[str]:
    """The names in one word: `drained$` gives IDLE, DRAIN and MAINT."""
    text = part.strip().upper()
    bare = text.rstrip("".join(SUFFIXES))
    signs = [SUFFIXES[sign] for sign in text[len(bare) :]]
    return [*COMPOUND.get(bare, (bare,) if bare else ()), *signs]
