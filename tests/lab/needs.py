"""What a machine must have before the lab can run on it, said in one line."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.lab import cgroups

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = (
    "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo", "munged",
    "ip", "tc", "nsenter", "unshare", "setpriv", "mount", "cc",
)  # fmt: skip
HEADER = Path("/usr/include/dlfcn.h")
PACKAGES = (
    "apt-get install --no-install-recommends slurmctld slurmd slurm-client slurm-wlm-basic-plugins "
    "munge iproute2 util-linux gcc libc6-dev"
)


def missing() -> str | None:
    """None if the lab can run here; else one line: what is missing and how to get it."""
    if os.geteuid() != 0:
        return "the lab needs root (namespaces, cgroups and slurmd): run it with sudo"
    programs = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if not HEADER.exists():
        programs.append("the C library's headers")
    if programs:
        return f"the lab needs {', '.join(programs)}: {PACKAGES}"
    if cgroups.find() is None:
        return "the lab needs a writable cgroup cpu controller (v1 or v2): run it outside an unprivileged container"
    return _namespaces()


@cache
def _namespaces() -> str | None:
    """What keeps a process from having namespaces of its own, in the words of the system."""
    done = subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], env={"PATH": PATH}, capture_output=True,
                          text=True, check=False, timeout=10)  # fmt: skip
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()[-1:] or ["unshare fails"]
    return f"the lab needs namespaces of its own ({said[0]}): run it on a machine, not in a chroot or a plain container"
