"""The exact command line of every question and every write: pure, so that a dry run prints what would be run.

In: names, reasons, seconds. Out: argv tuples, never a shell line. A value that Slurm could misread is an InputError.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from guardctl.cluster import nodesets
from guardctl.cluster.protocol import Submission
from guardctl.words.errors import InputError

Argv = tuple[str, ...]

MAX_REASON = 99  # under 100 characters: what sinfo, dashboards and mails show whole
QUOTES = "\"'`"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
JOB_ID = re.compile(r"\d+")  # an array task has a number of its own too
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

VERSION: Argv = ("scontrol", "--version")
# --all: hidden partitions count; --local: a federation's other clusters do not
SHOW_NODES: Argv = ("scontrol", "--all", "--local", "show", "nodes")
SHOW_NODES_JSON: Argv = (*SHOW_NODES, "--json")
SINFO_JSON: Argv = ("sinfo", "--all", "--local", "--json")
SQUEUE_JSON: Argv = ("squeue", "--all", "--local", "--json")
SHOW_RESERVATIONS: Argv = ("scontrol", "--all", "--local", "show", "reservation")
SHOW_RESERVATIONS_JSON: Argv = (*SHOW_RESERVATIONS, "--json")


def show_node(node: str, *, json: bool) -> Argv:
    """One node."""
    argv = ("scontrol", "--all", "--local", "show", "node", nodesets.check_name(node))
    return (*argv, "--json") if json else argv


def show_job(job_id: str) -> Argv:
    """One job, as JSON."""
    return ("scontrol", "--all", "--local", "show", "job", _job_id(job_id), "--json")


def squeue_text(columns: str, job_id: str = "") -> Argv:
    """All jobs, or one, in columns."""
    one = (f"--jobs={_job_id(job_id)}",) if job_id else ()
    return ("squeue", "--all", "--local", "--noheader", "--states=all", f"--format={columns}", *one)


def drain(node: str, reason: str) -> Argv:
    """DRAIN with a reason."""
    return ("scontrol", "update", f"NodeName={nodesets.check_name(node)}", "State=DRAIN", f"Reason={_reason(reason)}")


def undrain(node: str) -> Argv:
    """The DRAIN flag off; a node that is DOWN stays so."""
    return ("scontrol", "update", f"NodeName={nodesets.check_name(node)}", "State=UNDRAIN")


def set_reason(node: str, reason: str) -> Argv:
    """Another reason, the same state."""
    return ("scontrol", "update", f"NodeName={nodesets.check_name(node)}", f"Reason={_reason(reason)}")


def reserve(name: str, nodes: Sequence[str], duration_s: float, user: str) -> Argv:
    """A reservation for `user` from now on that leaves running jobs alone; never OVERLAP."""
    return (
        "scontrol", "create", "reservation", f"ReservationName={_name(name)}", f"Nodes={_host_list(nodes)}",
        "StartTime=now", f"Duration={_minutes(duration_s)}", f"Users={user}", "Flags=IGNORE_JOBS",
    )  # fmt: skip


def renew(name: str, duration_s: float) -> Argv:
    """The end of a reservation, counted from now."""
    return ("scontrol", "update", f"ReservationName={_name(name)}", f"EndTime=now+{_minutes(duration_s)}minutes")


def unreserve(name: str) -> Argv:
    """The reservation goes."""
    return ("scontrol", "delete", f"ReservationName={_name(name)}")


def cancel(job_ids: Sequence[str]) -> Argv:
    """These jobs, and by id only."""
    return ("scancel", *map(_job_id, job_ids))


def submit(job: Submission) -> Argv:
    """The batch job on exactly its nodes.

    --nodelist alone may allocate more, and --nodes alone others. The job's environment goes by name, its values in
    the environment of sbatch itself, so that a comma in a value cannot cut it.
    """
    options = {
        "job-name": _line(job.name, "job name"),
        "nodelist": _host_list(job.nodes),
        "nodes": str(len(set(job.nodes))),
        "time": str(_minutes(job.time_limit_s)),
        "export": ",".join(map(_variable, sorted(job.environment))) or "NIL",
        "reservation": _name(job.reservation) if job.reservation else "",
        "partition": _name(job.partition) if job.partition else "",
        "output": str(job.output or ""),
        "comment": _line(job.comment, "comment"),
    }
    given = (f"--{name}={value}" for name, value in options.items() if value)
    return ("sbatch", "--parsable", "--exclusive", "--no-requeue", *given, _script(job.script), *job.arguments)


def _script(path: Path) -> str:
    return str(path) if path.is_absolute() else f"./{path}"  # a name with a dash in front is no option


def _reason(reason: str) -> str:
    line = _line(reason, "reason")
    if not line.strip():
        raise InputError("a drain needs a reason: `sinfo -R` is where people look first")
    if len(line) > MAX_REASON:
        raise InputError(f"reason {line!r} has {len(line)} characters: at most {MAX_REASON} are shown everywhere")
    if any(sign in line for sign in QUOTES):
        raise InputError(f"reason {line!r} holds a quote: tools that match reasons then fail")
    return line


def _line(text: str, what: str) -> str:
    if not text.isprintable():
        raise InputError(f"{what} {text!r} is not one line of plain characters")
    return text


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a name that Slurm takes: letters, digits, `_`, `.` and `-`")
    return name


def _job_id(job_id: str) -> str:
    if not JOB_ID.fullmatch(job_id):
        raise InputError(f"{job_id!r} is not a job id")
    return job_id


def _variable(name: str) -> str:
    if not VARIABLE.fullmatch(name):
        raise InputError(f"{name!r} is not the name of an environment variable")
    return name


def _host_list(nodes: Sequence[str]) -> str:
    if not nodes:
        raise InputError("no node named: Slurm would choose by itself")
    return nodesets.fold(nodes)


def _minutes(seconds: float) -> int:
    """Whole minutes, rounded up: Slurm's unit for limits and reservations."""
    return max(1, math.ceil(seconds / 60))
