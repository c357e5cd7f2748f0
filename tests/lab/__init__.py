"""The lab: a real Slurm cluster on one machine, with faults on request.

Every node is a slurmd in namespaces of its own (network, mounts, host name) with its own address, a share of the
processors and GPUs that a scenario file describes to NVML. By hand: `python -m tests.lab up`; from a test:

    with Lab.start(nodes=8, gpus=2) as lab:
        lab.fault("n3", "slow-link=50mbit")
        lab.run(["sbatch", "job.sh"], user=lab.user)

Needs root and Debian's Slurm packages; `missing()` says in one line what is not there.
"""

from tests.lab.errors import LabError
from tests.lab.lab import Lab
from tests.lab.needs import missing

__all__ = ["Lab", "LabError", "missing"]
