"""What the step timer adds to a training step."""

import tempfile
import time
from typing import Any

from guardctl.steptimer import StepTimer


def measure(steps: int = 20_000, tries: int = 5) -> dict[str, Any]:
    """Microseconds of processor time per step with one `wait` in it, the writing included."""
    return {"us_per_step": round(1e6 * min(_seconds(steps) for _ in range(tries)) / steps, 2)}


def _seconds(steps: int) -> float:
    with tempfile.TemporaryDirectory(prefix="guardctl-bench-") as folder:
        began = time.process_time()
        with StepTimer(folder, job_id="1", rank=0, node="n1") as timer:
            for _ in range(steps):
                with timer.step(), timer.wait():
                    pass
        return time.process_time() - began
