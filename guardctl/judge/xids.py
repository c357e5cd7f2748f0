"""What each Xid of the NVIDIA driver means for the node that logged it. One table, to be edited.

Source: NVIDIA's Xid catalogue and field reports. An Xid that an application can cause by itself is never evidence
against a node; 45 follows other errors (one job made 672 of them on three sound nodes). From 144 to 150 the line itself
says whether it was fatal. Codes that are not here are watched, no more.
"""

from enum import StrEnum


class XidClass(StrEnum):
    """What to make of an Xid."""

    HARD = "hard"  # the GPU is out of use until a reset, a reboot or a repair
    SOFT = "soft"  # to be watched, or reset after the job
    APPLICATION = "application"  # the job's own fault first: no evidence


XIDS: dict[int, tuple[XidClass, str]] = {
    13: (XidClass.APPLICATION, "graphics engine exception"),
    31: (XidClass.APPLICATION, "memory page fault"),
    43: (XidClass.APPLICATION, "GPU stopped processing"),
    45: (XidClass.APPLICATION, "channel torn down after another error"),
    48: (XidClass.SOFT, "double bit ECC error"),
    62: (XidClass.HARD, "internal micro-controller halt"),
    63: (XidClass.SOFT, "row remap recorded, reset needed"),
    64: (XidClass.HARD, "row remap failed"),
    68: (XidClass.APPLICATION, "video processor exception"),
    69: (XidClass.APPLICATION, "graphics engine class error"),
    74: (XidClass.SOFT, "NVLink error"),
    79: (XidClass.HARD, "GPU has fallen off the bus"),
    92: (XidClass.SOFT, "high single bit ECC error rate"),
    94: (XidClass.SOFT, "contained ECC error"),
    95: (XidClass.HARD, "uncontained ECC error"),
    119: (XidClass.HARD, "GSP does not answer, reboot needed"),
    120: (XidClass.HARD, "GSP error, reboot needed"),
    140: (XidClass.HARD, "unrecovered ECC error"),
    143: (XidClass.HARD, "GPU initialisation failed"),
}
LINK_XIDS = range(144, 151)  # NVLink 5: fatal and not, by the words of the line


def classify(code: int, fatal: bool | None) -> tuple[XidClass, str]:
    """The class of an Xid and what it is in plain words; `fatal`: what the line says, None where it does not."""
    if code in LINK_XIDS:
        kind = {True: XidClass.HARD, False: XidClass.APPLICATION, None: XidClass.SOFT}[fatal]
        return kind, f"NVLink event, {'fatal' if fatal else 'not fatal' if fatal is False else 'severity not said'}"
    return XIDS.get(code, (XidClass.SOFT, "not in the table"))
