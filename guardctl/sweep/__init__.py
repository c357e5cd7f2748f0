"""From a suspicion to a culprit: what to test, with whom, against what, and whom the results blame.

In: suspects, idle healthy partners, what passed nodes measured before (BASELINE events), the policy. Out: batch jobs to
submit, and in the end an `Outcome` per node: PASSED, FAILED with the culprit, or INCONCLUSIVE with what to do next.

- `results`: the lines that the programs in sweeps/ write, as values
- `pairing`: who is tested with whom in each round (pure)
- `baseline`: what a healthy GPU or pair reaches (pure)
- `blame`: from results to outcomes (pure). What is missing is never a pass and never a conviction
- `submit`: the batch jobs (pure); `files`: where sweeps/ lies
- `state`: a sweep as a value, and its file; `steps`: how it goes on (pure); `run`: the shell that talks to Slurm
"""
