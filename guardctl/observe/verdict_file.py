"""The verdict on a node as a small file: from the monitor to the agent, and from the agent to the hook.

The hook reads `<run>/verdict.json` and nothing else (guardctl/hook.py names its fields). A verdict has an expiry and a
boot id; one that is late or from before the last boot counts as none.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from guardctl.words.errors import SpoolError
from guardctl.words.policy import Policy
from guardctl.words.records import Finding, Health

SCHEMA = "guardctl.verdict/1"
MAX_BYTES = 65536


def document(
    node: str,
    boot_id: str | None,
    findings: Sequence[Finding],
    monitor: Mapping[str, Any] | None,
    policy: Policy,
    now: datetime,
) -> dict[str, Any]:
    """What the hook may know: the agent's own hard findings first, else what the monitor said, else all is well."""
    hard = [each for each in findings if each.hard]
    said = monitor or {"health": Health.HEALTHY.value, "why": ""}
    return {
        "schema": SCHEMA,
        "node": node,
        "boot_id": boot_id,
        "at": now.timestamp(),
        "expires_at": now.timestamp() + policy.hook.verdict_ttl_s,
        "health": Health.FAULTY.value if hard else said["health"],
        "hard": bool(hard),
        "refuse": policy.hook.refuse,
        "why": _said(hard[0]) if hard else said["why"],
        "kill_switch": str(policy.kill_switch),
        "findings": [{"check": e.check, "gpu": e.gpu, "detail": e.detail, "hard": e.hard} for e in findings],
    }


def _said(finding: Finding) -> str:
    return finding.detail if finding.gpu is None else f"GPU {finding.gpu}: {finding.detail}"


def replace(path: Path, content: Mapping[str, Any]) -> None:
    """Put `content` at `path` so that a reader sees the old file or the new one. Raises SpoolError."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(content), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise SpoolError(f"{path}: {error.strerror}", hint="look at the folder, its owner and its disk") from error


def fresh(path: Path, now: datetime) -> dict[str, Any] | None:
    """What the monitor said of a node, if it is readable and not expired."""
    try:
        found = json.loads(path.read_bytes()[:MAX_BYTES])
        ok = found["schema"] == SCHEMA and found["health"] in set(Health) and isinstance(found["why"], str)
        return found if ok and float(found["expires_at"]) > now.timestamp() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
