"""The files of a lab: folders, configuration, hooks, device nodes, GPU library, kernel logs and sysfs trees."""

import os
import secrets
import socket
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab import conf, devices, gpus, needs
from tests.lab.errors import LabError
from tests.lab.layout import Layout

CHECKOUT = Path(__file__).resolve().parents[2]
HOOKS = ("slurm/prolog.sh", "slurm/epilog.sh", "slurm/health.sh", "guardctl/hook.py")
NULL_DEVICE = os.makedev(1, 3)


def plan(name: str, number: int, num_nodes: int, num_gpus: int, switches: int) -> Layout:
    """The layout of a new lab on this machine."""
    return Layout(
        name=name, number=number, num_nodes=num_nodes, num_gpus=num_gpus, cores=len(os.sched_getaffinity(0)),
        hostname=socket.gethostname().split(".")[0], checkout=str(CHECKOUT), venv=sys.prefix, switches=switches,
    )  # fmt: skip


def hook_files(folder: Path | None) -> list[Path]:
    """The prolog, the epilog, the health program and hook.py. LabError if one is not there."""
    files = [CHECKOUT / name if folder is None else folder / Path(name).name for name in HOOKS]
    absent = [str(file) for file in files if not file.is_file()]
    if absent:
        raise LabError(f"the lab runs the real hooks, and these are not there: {', '.join(absent)}")
    return files


def python_of(plan: Layout) -> Path:
    """The Python of the checkout's environment, by a path that every user can walk."""
    return plan.path / "venv" / Path(sys.executable).relative_to(sys.prefix)


def operator_env(plan: Layout) -> dict[str, str]:
    """The environment of commands that operators and users run; nothing of the caller's own gets in."""
    return {
        **conf.task_env(plan),
        "SLURM_CONF": str(plan.path / "etc/slurm.conf"),
        "PATH": needs.PATH,
        "HOME": str(plan.path / "home"),
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
    }


def folders(plan: Layout) -> None:
    """Makes what is below the lab's folder."""
    plain = ("etc", "lib", "dev", "log", "login", "src", "venv", "munge", "slurmctld", "state", "nodes")
    for name in plain:
        (plan.path / name).mkdir()
    for name in ("home", "state/steps"):
        (plan.path / name).mkdir()
        (plan.path / name).chmod(0o1777)
    for node in plan.nodes:
        _node_folder(plan.node(node))


def _node_folder(folder: Path) -> None:
    for name in ("spool", "run", "run/guardctl", "run/lock", "sys"):
        (folder / name).mkdir(parents=True)
    (folder / "faults").touch()
    devices.make_log(folder / "kmsg")
    devices.make_sysfs(folder / "sys")


def files(plan: Layout, scripts: Sequence[Path]) -> None:
    """Writes the configuration, the hooks, the devices and the library."""
    etc = plan.path / "etc"
    (etc / "slurm.conf").write_text(conf.slurm_conf(plan))
    (etc / "gres.conf").write_text(conf.gres_conf(plan))
    (etc / "hosts").write_text(conf.hosts(plan))
    if plan.switches:
        (etc / "topology.conf").write_text(conf.topology_conf(plan))
    _script(etc / "task-prolog.sh", conf.task_prolog(plan))
    for script in scripts:
        _script(etc / script.name, script.read_text())
    _key(plan.path / "munge/key")
    for gpu in range(plan.num_gpus):
        os.mknod(plan.path / f"dev/nvidia{gpu}", stat.S_IFCHR | 0o666, NULL_DEVICE)
    gpus.compile_library(plan.path / "lib")


def _script(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def _key(file: Path) -> None:
    file.touch(mode=0o600)
    file.write_bytes(secrets.token_bytes(128))


def last_words(plan: Layout) -> str:
    """The last lines that the daemons wrote."""
    logs = sorted((plan.path / "log").glob("*"), key=lambda file: file.stat().st_mtime)
    return "\n".join(f"{file.name}: {line}" for file in logs[-3:] for line in file.read_text().splitlines()[-3:])
