"""What the next job should use: which hosts, and a parallel plan that runs fast on GPUs that are not all equal. Pure.

In: a snapshot of the cluster and standings (`hosts`), or straggling rates per GPU and a model's constants (`greedy`).
Out: `HostChoice`, `ParallelPlan`; files are written by the command.

- `hosts`: the nodes that a job may have, the fastest first, and why each of the others is out
- `model`: a model's cost and memory constants, from TOML
- `cost`: straggling rates to slowness, stage time, step time, memory caps and lower bounds
- `inner`: exact layers and micro-batches for given pipelines
- `groups`, `search`: which GPUs share a TP group, which groups share a pipeline
- `greedy`: the planner that puts them together; `parallel`: the plan as values and JSON, and what makes it valid

Times are in the model's unit: one layer x one micro-batch on a full healthy TP group. Source: Malleus, arXiv
2410.13333.
"""
