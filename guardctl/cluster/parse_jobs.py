"""Jobs and reservations from Slurm's JSON of every shape, and jobs from `squeue` text cut by a mark.

What a user wrote (name, comment) can hold anything, line ends too. In JSON that is harmless; in text the columns are
cut by a mark made of random digits that nobody could write in advance.
"""

from collections.abc import Iterable
from typing import Any

from guardctl.cluster import answers, values
from guardctl.cluster.records import Job, Reservation
from guardctl.words.errors import ClusterError

COLUMNS = ("%A", "%T", "%u", "%U", "%N", "%P", "%v", "%S", "%r", "%j", "%k")  # see squeue(1); the user's words last
PASSING = ("COMPLETING", "CONFIGURING", "SUSPENDED")  # in a list of states these tell more than the first word


def parse_jobs(text: str, what: str = "squeue --json") -> dict[str, Job]:
    """The jobs by id, ended ones that Slurm still remembers among them; none is an empty dict.

    `start_at` is None while a job pends: Slurm's forecast is no fact. Raises ClusterError for an answer with errors,
    without its list, or with a record that is not whole.
    """
    jobs = (_job(row, what) for row in answers.records(text, ("jobs",), what))
    return {job.job_id: job for job in jobs}


def parse_reservations(text: str, what: str = "scontrol show reservation --json") -> dict[str, Reservation]:
    """The reservations by name; none is an empty dict. Raises ClusterError as `parse_jobs` does."""
    found = (_reservation(row, what) for row in answers.records(text, ("reservations",), what))
    return {reservation.name: reservation for reservation in found}


def columns(mark: str) -> str:
    """The `squeue --format` whose output `parse_job_text` reads: the mark before every column and after the last."""
    return mark + mark.join(COLUMNS) + mark


def parse_job_text(text: str, mark: str, what: str = "squeue") -> dict[str, Job]:
    """The jobs by id in the output of `squeue --noheader --format=columns(mark)`."""
    cells = text.split(mark)
    width = len(COLUMNS) + 1  # a row's cells, and the line end before the next row
    if len(cells) % width != 1:
        raise ClusterError(f"`{what}`: {len(cells)} cells are not rows of {len(COLUMNS)}: the answer is not whole")
    rows = [cells[start : start + len(COLUMNS)] for start in range(1, len(cells) - 1, width)]
    return {row[0]: _text_job(row, what) for row in rows}


def _job(row: dict[str, Any], what: str) -> Job:
    state = _state(answers.field(row, "job_state", what))
    uid = values.number(row.get("user_id"))
    return Job(
        job_id=str(answers.field(row, "job_id", what)),
        name=row.get("name") or "",
        state=state,
        user=values.word(row.get("user_name")) or "",
        uid=uid,
        nodes=_nodes(row, state, what),
        partition=row.get("partition") or "",
        comment=_comment(row.get("comment")),
        reservation=values.word(row.get("resv_name")) or "",
        start_at=None if state == "PENDING" else values.moment(row.get("start_time")),
        reason=values.word(row.get("state_reason")) or "",
    )


def _text_job(row: list[str], what: str) -> Job:
    job_id, state, user, uid, nodes, partition, reservation, start, reason, name, comment = row
    return Job(
        job_id=job_id,
        name=name,
        state=_state(state),
        user=user,
        uid=values.number(uid),
        nodes=() if state == "PENDING" else answers.hosts(nodes, job_id, what),
        partition=partition,
        comment="" if comment == "(null)" else comment,
        reservation=values.word(reservation) or "",
        start_at=None if state == "PENDING" else values.moment(start),
        reason=values.word(reason) or "",
    )


def _state(value: Any) -> str:
    words = [value] if isinstance(value, str) else list(value)
    if not words:
        return "UNKNOWN"
    return next((state for state in PASSING if state in words), str(words[0]))


def _nodes(row: dict[str, Any], state: str, what: str) -> tuple[str, ...]:
    """The names in `nodes`; where that is missing, in `job_resources`, whose form changed with every release."""
    if state == "PENDING":
        return ()
    if isinstance(row.get("nodes"), str):
        return answers.hosts(row["nodes"], row["job_id"], what)
    resources = row.get("job_resources") or {}
    inner = resources.get("nodes") or resources.get("allocated_nodes") or ()
    if isinstance(inner, dict) and "allocation" in inner:
        inner = inner["allocation"]
    if isinstance(inner, str):
        return answers.hosts(inner, row["job_id"], what)
    return tuple(_allocated(inner))


def _allocated(allocation: Iterable[Any]) -> Iterable[str]:
    """Names in a map by name, or in a list of records."""
    for item in allocation:
        name = item if isinstance(item, str) else item.get("nodename") or item.get("name") or item.get("hostname")
        if name:
            yield name


def _comment(value: Any) -> str:
    """The user's words: a text, or in some shapes {administrator, job, system}."""
    return str((value.get("job") if isinstance(value, dict) else value) or "")


def _reservation(row: dict[str, Any], what: str) -> Reservation:
    name = answers.name_of(row, "name", what)
    return Reservation(
        name=name,
        nodes=answers.hosts(answers.field(row, "node_list", what), name, what),
        start_at=values.moment(answers.field(row, "start_time", what)),
        end_at=values.moment(answers.field(row, "end_time", what)),
        users=values.words(row.get("users")),
        flags=frozenset(values.words(row.get("flags"))),
    )
