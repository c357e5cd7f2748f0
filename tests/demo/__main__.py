"""`make demo`: the whole loop on a real Slurm, shown. SEED repeats a draw of the faulty nodes."""

import argparse
import sys
from pathlib import Path

from tests.demo.draw import draw
from tests.demo.screen import Screen
from tests.demo.story import Story, fresh, write
from tests.lab import Lab, missing
from tests.site import Site

FOLDER = Path(".demo")


def main() -> int:
    """The demo's exit code: 0 if exactly the two faulty nodes were convicted and the job got faster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat a draw")
    parser.add_argument("--nodes", type=int, default=8)
    options = parser.parse_args()
    if (reason := missing()) is not None:
        sys.stderr.write(f"demo: {reason}\n")
        return 1
    fresh(FOLDER)
    screen = Screen()
    with screen.waiting("bringing up a Slurm cluster"):
        lab = Lab.start(nodes=options.nodes)
    with lab:
        drawn = draw(lab.nodes, options.nodes - 2, options.seed)
        screen.say(
            f"[bold]guardctl[/] on a real Slurm with {options.nodes} nodes (SEED={drawn.seed} repeats this draw)"
        )
        summary = Story(Site(lab, look=screen.look()), drawn, screen).tell()
    write(summary, FOLDER / "summary.json")
    return _close(screen, summary)


def _close(screen: Screen, summary: dict[str, object]) -> int:
    faulty = sorted([summary["slow_cpu_node"], summary["slow_link_node"]], key=str)
    right = summary["found"] == faulty == summary["held"]
    faster = float(str(summary["step_time_after_s"])) < float(str(summary["step_time_before_s"]))
    words = "\n".join(f"[bold]{key:<20}[/] {value}" for key, value in summary.items())
    screen.panel(words, "[bold green]the loop is closed" if right and faster else "[bold red]this run went wrong")
    return 0 if right and faster else 1


if __name__ == "__main__":
    sys.exit(main())
