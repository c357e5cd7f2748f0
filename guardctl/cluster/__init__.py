"""Slurm, and the only door to it.

In: names of nodes, reasons, batch jobs to submit. Out: `Snapshot`, `Node`, `Job` and `Reservation`, or a `ClusterError`
when Slurm did not answer in full.

    records, protocol      what the other rooms see
    slurm, dryrun          the protocol by commands; the same, only noting what it would write
    argv, commands         every command line (pure), and the one function that runs a child process
    parse_*, answers,      Slurm's JSON and text of every release, as records (pure)
    values, states
    nodesets               host lists: `n[1-3]` to names and back
"""
