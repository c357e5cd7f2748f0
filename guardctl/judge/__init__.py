"""What the telemetry means: hard faults, speed against equal peers, and a verdict per node. Pure.

In: tables from guardctl.observe (a row per step and rank, a row per reading), the policy, standings, `now`.
Out: findings (a device says that it is broken), scores (how it compares with its peers), verdicts (what to believe).

- `checks`: hard and soft faults that one node's readings show by themselves
- `score`: busy time, clocks, throttling and network counters against the peers of the same job, window by window
- `peers`, `counters`, `tables`: the arithmetic under `score`
- `verdict`: findings and scores to one verdict per node; `words` says it

Peers, not thresholds, because nobody knows how fast a given model should be, but equal ranks doing equal work should
agree. Busy time, not step time: in synchronous training every rank shows the same step time, and the straggler is the
one that waits least.
"""
