"""Whose drain is this? Ours only if the tag, the words, the user and the time are the ones in the ledger."""

import re
from datetime import timedelta
from enum import StrEnum

from guardctl.cluster.records import Node
from guardctl.words.records import DrainMark, Standing

TAG = re.compile(r"^guardctl:([0-9a-z]+)\b")
MAX_REASON = 99  # characters; Slurm's commands and tables cut longer ones
CLOCK_STEP = timedelta(seconds=2)  # Slurm keeps whole seconds, and the controller's clock is not ours


class Claim(StrEnum):
    """Who owns the drain on a node."""

    NONE = "none"  # not drained
    OURS = "ours"  # exactly as we recorded it
    INTENDED = "intended"  # as we were about to make it; the record of the outcome is missing
    FOREIGN = "foreign"  # without our tag
    DISPUTED = "disputed"  # with our tag, but not as we left it


def claim(node: Node, standing: Standing) -> Claim:
    """Who owns the drain on `node`, by what the ledger remembers of it in `standing`."""
    if not node.drained:
        return Claim.NONE
    if not TAG.match(node.reason or ""):
        return Claim.FOREIGN
    if _as_recorded(node, standing.drain):
        return Claim.OURS
    return Claim.INTENDED if _as_intended(node, standing.intent) else Claim.DISPUTED


def _as_recorded(node: Node, mark: DrainMark | None) -> bool:
    return mark is not None and (node.reason, node.reason_user, node.reason_at) == (mark.reason, mark.user, mark.at)


def _as_intended(node: Node, intent: DrainMark | None) -> bool:
    if intent is None or (node.reason, node.reason_user) != (intent.reason, intent.user):
        return False
    return intent.at is None or node.reason_at is None or node.reason_at >= intent.at - CLOCK_STEP


def reason(incident: str, words: str) -> str:
    """The Slurm reason for a drain: our tag and plain words, one line without quotes, under 100 characters."""
    plain = " ".join(re.sub(r"[\"'`\\|]", "", words).split())
    text = f"guardctl:{incident} {plain}"
    return text if len(text) <= MAX_REASON else text[: MAX_REASON - 3].rstrip() + "..."


def mark_of(node: Node) -> DrainMark:
    """What stands on a drained node now, as we keep it in the ledger."""
    return DrainMark(reason=node.reason or "", user=node.reason_user or "", at=node.reason_at)


def as_detail(mark: DrainMark) -> dict[str, str | None]:
    """A mark as a DRAINED event carries it."""
    return {"reason": mark.reason, "user": mark.user, "at": mark.at.isoformat() if mark.at else None}
