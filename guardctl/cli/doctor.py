"""What works here and what is missing, and how to get it. Each check is one small function that gives a `Check`."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from guardctl.cli.context import Context, user_name
from guardctl.cluster.commands import run
from guardctl.words.errors import CommandError, GuardError

CHILD_DEADLINE_S = 60.0


class Mark(StrEnum):
    """How a check ended; ABSENT: an optional part that is not here."""

    OK = "ok"
    ABSENT = "absent"
    WARN = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's report; `fix` says how to get what is missing."""

    name: str
    mark: Mark
    found: str
    fix: str = ""


def examine(context: Context) -> Iterator[Check]:
    """All checks, in the order in which a person would repair things."""
    for check in (_python, _policy, _state, _ledger, _slurm, _munge, _rights, _hooks, _agents, _nvml, _torch, _pyslurm,
                  _kill_switch):  # fmt: skip
        yield check(context)


def _guarded(name: str, fix: str) -> Callable[[Callable[[Context], Check]], Callable[[Context], Check]]:
    """A check whose GuardError is its bad news."""

    def wrap(check: Callable[[Context], Check]) -> Callable[[Context], Check]:
        def guarded(context: Context) -> Check:
            try:
                return check(context)
            except GuardError as error:
                return Check(name, Mark.BAD, str(error), error.hint or fix)

        return guarded

    return wrap


def _python(_context: Context) -> Check:
    return Check("Python", Mark.OK, f"{sys.version.split()[0]} at {sys.executable}")


@_guarded("policy", "guardctl init")
def _policy(context: Context) -> Check:
    policy = context.policy
    where = context.config_path or "the usual place or defaults"
    return Check("policy", Mark.OK, f"{where}, hash {policy.digest}, act.mode = {policy.act.mode}")


@_guarded("state folder", "guardctl init")
def _state(context: Context) -> Check:
    state = context.policy.state_dir
    fix = f"install -d -m 755 {state} && install -d -m 1777 {state}/steps  (on a file system that all nodes share)"
    if not state.is_dir():
        return Check("state folder", Mark.BAD, f"{state} does not exist", fix)
    if not os.access(state, os.W_OK):
        return Check("state folder", Mark.BAD, f"{state} cannot be written by {user_name()}", fix)
    steps = state / "steps"
    if not steps.is_dir() or not steps.stat().st_mode & 0o1000:
        return Check("state folder", Mark.WARN, f"{steps} is not a sticky folder that jobs can write", fix)
    return Check("state folder", Mark.OK, str(state))


@_guarded("ledger", "guardctl ledger upgrade")
def _ledger(context: Context) -> Check:
    return Check("ledger", Mark.OK, f"{context.policy.ledger_url}, {_last(context)}")


def _last(context: Context) -> str:
    newest = context.ledger.events(limit=1)
    return f"last event {newest[0].at:%Y-%m-%d %H:%M}" if newest else "no events yet"


@_guarded("Slurm", "apt-get install slurm-client, or put its commands on PATH")
def _slurm(context: Context) -> Check:
    from guardctl.cli.context import utc_now

    snapshot = context.cluster.snapshot(utc_now())
    num_gpus = sum(node.num_gpus for node in snapshot.nodes.values())
    return Check(
        "Slurm", Mark.OK, f"{snapshot.version}, {len(snapshot.nodes)} nodes, {num_gpus} GPUs, controller answers"
    )


def _munge(_context: Context) -> Check:
    if shutil.which("munge") is None:
        return Check("munge", Mark.WARN, "no munge command", "apt-get install munge")
    try:
        words = _slurm_config().get("AuthInfo", "").split(",")
        socket = [f"--socket={word.removeprefix('socket=')}" for word in words if word.startswith("socket=")]
        run(["munge", "--no-input", *socket], deadline_s=5)
    except CommandError as error:
        return Check("munge", Mark.BAD, error.stderr or str(error), error.hint or "systemctl status munge")
    return Check("munge", Mark.OK, "answers")


def _rights(_context: Context) -> Check:
    fix = "run the monitor as SlurmUser or root, or: sacctmgr modify user NAME set adminlevel=Admin"
    try:
        config = _slurm_config()
    except CommandError as error:
        return Check("rights", Mark.BAD, str(error), error.hint)
    slurm_user = config.get("SlurmUser", "").split("(")[0]
    if user_name() in {"root", slurm_user}:
        return Check("rights", Mark.OK, f"{user_name()} may drain and reserve (SlurmUser is {slurm_user})")
    return Check("rights", Mark.WARN, f"{user_name()} is neither root nor SlurmUser {slurm_user}", fix)


def _hooks(_context: Context) -> Check:
    fix = "copy slurm/*.sh and hook.py to each node and add the lines of slurm/guardctl.conf.slurm to slurm.conf"
    try:
        config = _slurm_config()
    except CommandError as error:
        return Check("hooks", Mark.BAD, str(error), error.hint)
    keys = ("Prolog", "Epilog", "HealthCheckProgram")
    found = [key for key in keys if config.get(key, "(null)") not in {"(null)", ""}]
    missing = [key for key in keys if key not in found]
    if missing:
        return Check("hooks", Mark.WARN, f"slurm.conf sets no {', '.join(missing)}", fix)
    return Check("hooks", Mark.OK, ", ".join(f"{key}={config[key]}" for key in found))


def _slurm_config() -> dict[str, str]:
    lines = run(["scontrol", "show", "config"], deadline_s=10).stdout.splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key.strip().removesuffix("[0]"): value.strip() for key, value in pairs}


def _agents(context: Context) -> Check:
    from guardctl.cli.context import utc_now
    from guardctl.observe import spool

    ages = spool.ages(context.policy.state_dir, utc_now())
    stale = sorted(node for node, age_s in ages.items() if age_s > 3 * context.policy.observe.period_s)
    if not ages:
        fix = "start `guardctl agent` on every node: slurm/guardctl-agent.service"
        return Check("agents", Mark.WARN, "no node has written telemetry yet", fix)
    if stale:
        return Check(
            "agents", Mark.WARN, f"silent: {', '.join(stale[:8])}", "systemctl status guardctl-agent, on those"
        )
    return Check("agents", Mark.OK, f"{len(ages)} nodes write telemetry")


def _nvml(_context: Context) -> Check:
    code = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount(), n.nvmlSystemGetDriverVersion())"
    return _child("NVML", sys.executable, code, "GPUs and driver", "needed on GPU nodes only: NVIDIA's driver")


def _torch(context: Context) -> Check:
    try:
        python = context.policy.sweep.python or sys.executable
    except GuardError:
        python = sys.executable
    code = "import torch; print(torch.__version__, 'CUDA' if torch.cuda.is_available() else 'CPU')"
    return _child(
        "torch", python, code, "for sweeps:", "pip install 'guardctl[sweep]', or set sweep.python in the policy"
    )


def _pyslurm(_context: Context) -> Check:
    fix = "pip install 'guardctl[pyslurm]' in the version of your Slurm; without it the commands do the work"
    code = "import pyslurm; print(pyslurm.__version__)"  # in a child: its import can end the process
    return _child("pyslurm", sys.executable, code, "version", fix)


def _child(name: str, python: str, code: str, what: str, fix: str) -> Check:
    try:
        return Check(name, Mark.OK, f"{what} {run([python, '-c', code], deadline_s=CHILD_DEADLINE_S).stdout.strip()}")
    except CommandError as error:
        reason = error.stderr.splitlines()[-1] if error.stderr else str(error)
        return Check(name, Mark.ABSENT, reason, fix)


def _kill_switch(context: Context) -> Check:
    try:
        switch: Path = context.policy.kill_switch
    except GuardError:
        return Check("kill switch", Mark.WARN, "not known: the policy cannot be read", "guardctl init")
    if switch.exists():
        return Check("kill switch", Mark.WARN, f"{switch} is there: nothing is changed", f"rm {switch}")
    return Check("kill switch", Mark.OK, f"off ({switch} is not there)")
