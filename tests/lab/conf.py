"""Text of the files that Slurm and its nodes read. Pure: a layout in, text out."""

from tests.lab.layout import Layout

CPUS_PER_NODE = 8


def slurm_conf(lab: Layout) -> str:
    """slurm.conf with short timeouts: a lab shows in seconds what a cluster shows in minutes."""
    etc, log = lab.path / "etc", lab.path / "log"
    return f"""\
ClusterName={lab.name}
SlurmctldHost={lab.hostname}({lab.controller_address})
SlurmctldPort={lab.controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={lab.path}/munge/socket
CredType=cred/munge
StateSaveLocation={lab.path}/slurmctld
SlurmdSpoolDir={lab.path}/nodes/%n/spool
SlurmctldPidFile={lab.path}/slurmctld/pid
SlurmdPidFile={lab.path}/nodes/%n/slurmd.pid
SlurmctldLogFile={log}/slurmctld.log
SlurmdLogFile={log}/slurmd-%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={log}/jobcomp.txt

Prolog={etc}/prolog.sh
Epilog={etc}/epilog.sh
PrologFlags=Alloc
PrologEpilogTimeout=30
TaskProlog={etc}/task-prolog.sh
HealthCheckProgram={etc}/health.sh
HealthCheckInterval=15
HealthCheckNodeState=ANY

SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=8
InactiveLimit=0
KillWait=2
UnkillableStepTimeout=45
BatchStartTimeout=30
EpilogMsgTime=1
CompleteWait=0
MinJobAge=300
ReturnToService=1
RebootProgram=/bin/false

SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=1,sched_min_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
{_topology(lab)}{_gres_type(lab)}
{_node_lines(lab)}
PartitionName=gpu Nodes={_host_list(lab)} Default=YES State=UP MaxTime=INFINITE OverSubscribe=NO
"""


def _host_list(lab: Layout) -> str:
    return f"n[1-{lab.num_nodes}]"


def _gres_type(lab: Layout) -> str:
    return "GresTypes=gpu\n" if lab.num_gpus else ""


def _topology(lab: Layout) -> str:
    return "TopologyPlugin=topology/tree\n" if lab.switches else ""


def _node_lines(lab: Layout) -> str:
    gres = f" Gres=gpu:{lab.num_gpus}" if lab.num_gpus else ""
    return "\n".join(
        f"NodeName={node} NodeAddr={lab.address(node)} Port=6818 CPUs={CPUS_PER_NODE} Boards=1 SocketsPerBoard=1"
        f" CoresPerSocket={CPUS_PER_NODE} ThreadsPerCore=1 RealMemory=16000{gres} State=UNKNOWN"
        for node in lab.nodes
    )


def gres_conf(lab: Layout) -> str:
    """gres.conf: every node has the same device files, plain ones that nothing opens."""
    if not lab.num_gpus:
        return "AutoDetect=off\n"
    return f"AutoDetect=off\nNodeName={_host_list(lab)} Name=gpu File={lab.path}/dev/nvidia[0-{lab.num_gpus - 1}]\n"


def topology_conf(lab: Layout) -> str:
    """Leaf switches s1, s2, ... with equal runs of nodes below a spine."""
    size = -(-lab.num_nodes // lab.switches)
    starts = range(1, lab.num_nodes + 1, size)
    leaves = [
        f"SwitchName=s{i} Nodes=n[{start}-{min(start + size - 1, lab.num_nodes)}]"
        for i, start in enumerate(starts, start=1)
    ]
    return "\n".join([*leaves, f"SwitchName=spine Switches=s[1-{len(leaves)}]", ""])


def hosts(lab: Layout) -> str:
    """/etc/hosts of every node."""
    names = [f"{lab.address(node)} {node}" for node in lab.nodes]
    return "\n".join(["127.0.0.1 localhost", f"{lab.controller_address} {lab.hostname} login", *names, ""])


def task_prolog(lab: Layout) -> str:
    """What every task finds in its environment, batch scripts included."""
    lines = [f"echo export {name}={value}" for name, value in sorted(task_env(lab).items())]
    return "\n".join(["#!/bin/sh", *lines, ""])


def task_env(lab: Layout) -> dict[str, str]:
    return {
        "GUARDCTL_STATE": str(lab.path / "state"),
        "LD_LIBRARY_PATH": str(lab.path / "lib"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(lab.path / "src"),
    }
