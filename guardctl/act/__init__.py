"""From verdicts to changes in Slurm, within the rules that operators insist on.

In: verdicts, standings, a snapshot of the cluster, the policy. Out: actions, then events.

- `ownership`: is this drain ours, exactly as we left it? (pure)
- `reconcile`: what happened behind our back since the last tick, as events (pure)
- `budget`: how many more nodes may go out of service, and whether many findings have one cause (pure)
- `decide`: which actions follow (pure)
- `perform`: the only module that writes to Slurm; reads back after every write

Deciding is apart from performing so that every rule can be tested by values, and so that a monitor killed at any line
finds its way from the ledger alone.
"""
