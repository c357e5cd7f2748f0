"""A node as namespaces: its own network, mounts and host name, kept alive by one sleeping process.

Nothing is given a name on the host: when the last process of a node ends, the kernel takes the namespaces, the mounts
and the cable with it. (`ip netns exec` is not used: it mounts /sys anew, and slurmd dies without its cgroups.)
"""

import pwd
import shlex
import subprocess
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.layout import Layout

HOLDER = "sleep infinity"


def enter_group(group: Path, *argv: str) -> list[str]:
    """The command line, run inside the cgroup from its first instruction."""
    return ["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', str(group), *argv]


def enter_node(pid: int, folder: Path, *argv: str, network: bool) -> list[str]:
    """The command line, run inside the namespaces that process `pid` holds."""
    spaces = ["--net", "--uts"] if network else []
    return ["nsenter", f"--target={pid}", "--mount", *spaces, f"--wdns={folder}", "--", *argv]


def as_user(user: str | None, *argv: str) -> list[str]:
    """The command line as that user, with the user's own groups only. None: as root."""
    if user is None:
        return list(argv)
    try:
        account = pwd.getpwnam(user)
    except KeyError as error:
        raise LabError(f"no account {user!r} on this machine; `nobody` is one") from error
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups", "--", *argv]


def _bind(source: Path | str, target: Path | str, *, read_only: bool = False) -> str:
    bind = f"mount --bind {shlex.quote(str(source))} {shlex.quote(str(target))}"
    return f"{bind}\nmount -o remount,bind,ro {shlex.quote(str(target))}" if read_only else bind


def _script(lab: Layout, folder: Path, *lines: str) -> str:
    """Runs in the new namespaces: mounts, then a sign that it is ready, then sleep."""
    return "\n".join([
        "set -e",
        _bind(lab.checkout, lab.path / "src", read_only=True),
        _bind(lab.venv, lab.path / "venv", read_only=True),
        _bind(lab.path / "etc/hosts", "/etc/hosts"),
        *lines,
        f"echo $$ >{folder}/holder.part",
        f"mv {folder}/holder.part {folder}/holder",
        f"exec {HOLDER}",
    ])  # fmt: skip


def node_argv(lab: Layout, node: str, group: Path) -> list[str]:
    """Starts the process that holds a node's namespaces. A node's /run is its own, as on a real host."""
    folder = lab.node(node)
    script = _script(lab, folder, f"hostname {node}", _bind(folder / "run", "/run"))
    return enter_group(group, "unshare", "--net", "--mount", "--uts", "sh", "-c", script)


def login_argv(lab: Layout, group: Path) -> list[str]:
    """Starts the process that holds the operators' view: the host with the lab's mounts."""
    return enter_group(group, "unshare", "--mount", "sh", "-c", _script(lab, lab.path / "login"))


def holder_pid(folder: Path) -> int | None:
    """The holding process, once its namespaces are ready."""
    try:
        return int((folder / "holder").read_text())
    except FileNotFoundError:
        return None


def start(argv: list[str], output: Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Starts a process that outlives the terminal; what it prints goes to the file."""
    with output.open("a") as out:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                text=True, env=env, start_new_session=True)  # fmt: skip
