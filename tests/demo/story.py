"""The demo step by step. Every value in its summary is taken from the run."""

import json
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from guardctl.report import tables
from guardctl.report.rows import StepRow
from guardctl.words.records import EventKind, State
from tests.demo.draw import Draw
from tests.demo.screen import Screen
from tests.site import Site

MODEL = Path(__file__).resolve().parents[2] / "docs" / "examples" / "model.toml"
SHOWN_STEPS = 12  # the last steps that a step time is the median of
OUT = frozenset({State.REPAIR, State.HELD, State.RETIRED})


@dataclass
class Story:
    """What the demo knows on its way."""

    site: Site
    draw: Draw
    screen: Screen
    began: float = field(default_factory=time.monotonic)
    num_told: int = 0
    times: dict[str, float] = field(default_factory=dict)

    # ---- the parts ----

    def tell(self) -> dict[str, Any]:
        """The whole story; gives the summary."""
        self.set_up()
        job = self.break_things()
        self.find(job)
        self.test(job)
        self.return_healthy()
        self.explain()
        hosts = self.plan()
        self.train_again(hosts)
        return self.summary(hosts)

    def set_up(self) -> None:
        """Agents, monitor, a training job."""
        self.screen.chapter("A cluster, an agent on every node, a monitor, and somebody who trains")
        with self.screen.waiting("starting an agent on every node and the monitor"):
            self.site.start_agents()
            self.site.start_monitor()
        self.show("doctor", codes=(0, 1))

    def break_things(self) -> str:
        """The job runs well, then three things go wrong at once."""
        nodes = self.draw.job_nodes
        job = self.site.train(nodes)
        self.screen.say(f"{self.site.lab.user} starts job {job} on {len(nodes)} nodes: {', '.join(nodes)}")
        with self.screen.waiting("the first steps"):
            self.site.lab.wait(lambda: len(self.site.step_times(job)) >= SHOWN_STEPS, 120, "the first steps of the job")
        self.times["healthy"] = self.step_time(job)
        self.screen.say(f"a step takes [bold]{self.times['healthy']:.2f} s[/] while all is well")
        self.screen.chapter("Three things go wrong, none of which stops the job")
        for node, fault in self.draw.faults.items():
            self.site.lab.fault(node, fault)
            passing = " (for a while: it will be gone when it is tested)" if node == self.draw.passing else ""
            self.screen.say(f"  [bold]{node}[/]  {fault}{passing}")
        broken_at = datetime.now(UTC)
        with self.screen.waiting("training with the faults"):
            self.site.lab.wait(lambda: len(self.site.step_times(job, broken_at)) > SHOWN_STEPS, 180, "slow steps")
        self.times["before"] = self.step_time(job)
        self.screen.say(f"a step takes [bold red]{self.times['before']:.2f} s[/] now; every rank shows the same time")
        return job

    def find(self, job: str) -> None:
        """The monitor finds and drains; the job goes on."""
        self.screen.chapter("The monitor compares equals, finds the suspects, and drains them")
        suspects = list(self.draw.faults)
        self.follow(
            lambda: all(self.has(node, EventKind.DRAINED) for node in suspects), 150, "the suspects to be drained"
        )
        self.show("status", codes=(1,))
        self.screen.say(f"job {job} goes on: a drain never kills a job. Its owner ends it at his next checkpoint.")
        self.site.lab.heal(self.draw.passing)
        self.screen.say(f"[dim]meanwhile the hot GPU of {self.draw.passing} has cooled down[/]")
        self.site.end_job(job)
        with self.screen.waiting("the job saves its checkpoint and ends"):
            self.site.lab.wait(lambda: not self.site.running(job), 60, f"job {job} to end")

    def test(self, job: str) -> None:
        """Quarantine and sweeps, until each suspect has its outcome."""
        del job
        self.screen.chapter("Quarantine and sweeps: each node alone, then in pairs, beside idle healthy nodes")
        suspects = list(self.draw.faults)
        self.follow(lambda: all(self.state(node) in {*OUT, State.PROBATION, State.HEALTHY} for node in suspects), 300,
                    "the sweeps to end")  # fmt: skip
        for sweep in self.sweeps():
            self.show("sweep", "show", sweep)

    def return_healthy(self) -> None:
        """Probation, and back."""
        self.screen.chapter("What passed comes back, through probation")
        self.follow(lambda: self.state(self.draw.passing) in {State.HEALTHY, *OUT}, 90, "the end of the probation")
        self.show("status", codes=(0, 1))

    def explain(self) -> None:
        """The ledger tells why."""
        self.screen.chapter("The ledger explains each step")
        for node in (self.draw.slow_cpu, self.draw.slow_link):
            self.show("explain", self.site.standings()[node].incident or node)
        report = Path(".demo/report.html").resolve()
        report.parent.mkdir(exist_ok=True)
        self.show("report", "--output", str(report))

    def plan(self) -> str:
        """The next job's hosts, and a parallel plan for them."""
        self.screen.chapter("The next job's host list leaves them out")
        count = str(len(self.draw.job_nodes))
        hosts = self.site.guardctl("hostlist", "-N", count).stdout.strip()
        self.screen.command(f"guardctl hostlist -N {count}", hosts)
        self.show("plan", "make", "--model", str(MODEL), "--hosts", hosts)
        return hosts

    def train_again(self, hosts: str) -> None:
        """The same job on the printed hosts."""
        self.screen.chapter("The job runs again, on as many nodes, and is faster")
        names = self.site.lab.run(["scontrol", "show", "hostnames", hosts]).stdout.split()
        job = self.site.train(names)
        with self.screen.waiting(f"job {job} goes on from its checkpoint on {hosts}"):
            self.site.lab.wait(lambda: len(self.site.step_times(job)) > SHOWN_STEPS + 3, 150, "steps of the second job")
        self.times["after"] = self.step_time(job)
        self.screen.show(tables.steps([StepRow("a training step", self.times["before"], self.times["after"])]))
        self.site.end_job(job)
        self.site.lab.wait(lambda: not self.site.running(job), 60, f"job {job} to end")

    def summary(self, hosts: str) -> dict[str, Any]:
        """The summary file's content."""
        standings = self.site.standings()
        events = self.site.events()
        return {
            "seed": self.draw.seed,
            "slow_cpu_node": self.draw.slow_cpu,
            "slow_link_node": self.draw.slow_link,
            "found": sorted({each.node for each in events if each.kind is EventKind.SWEEP_FAILED}),
            "held": sorted(node for node, each in standings.items() if each.state in OUT),
            "released": sorted(node for node, each in standings.items() if self.came_back(node, each.state)),
            "hostlist": hosts,
            "step_time_healthy_s": round(self.times["healthy"], 3),
            "step_time_before_s": round(self.times["before"], 3),
            "step_time_after_s": round(self.times["after"], 3),
            "seconds": round(time.monotonic() - self.began, 1),
        }

    # ---- small things ----

    def came_back(self, node: str, state: State) -> bool:
        """Released by us, and in service now."""
        return state in {State.PROBATION, State.HEALTHY} and self.has(node, EventKind.RELEASED)

    def step_time(self, job: str) -> float:
        """Median of the job's last steps, in s."""
        return statistics.median(self.site.step_times(job)[-SHOWN_STEPS:])

    def state(self, node: str) -> State:
        """Its state in the ledger now."""
        (state,) = self.site.states(node)
        return state

    def has(self, node: str, kind: EventKind) -> bool:
        """Whether the ledger has such an event of the node."""
        return any(event.kind is kind for event in self.site.events(node))

    def sweeps(self) -> list[str]:
        """Ids of all sweeps so far, in order."""
        return [line.split()[0] for line in self.site.guardctl("sweep", "show").stdout.splitlines()]

    def follow(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Show the ledger's lines as they come, until the condition holds."""

        def look() -> bool:
            events = self.site.events()
            for event in events[self.num_told :]:
                self.screen.event(event)
            self.num_told = len(events)
            return condition()

        self.site.lab.wait(look, timeout_s, what)

    def show(self, *words: str, codes: tuple[int, ...] = (0,)) -> None:
        """Run a command and show it with what it printed."""
        done = self.site.guardctl(*words, codes=codes)
        self.screen.command(f"guardctl {' '.join(words)}", done.stdout)


def write(summary: dict[str, Any], path: Path) -> None:
    """Write the summary file."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def fresh(folder: Path) -> None:
    """An empty folder for what the demo leaves."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
