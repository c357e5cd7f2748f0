"""guardctl keeps the slow and the sick out of large GPU training jobs on Slurm.

Nothing is imported here: `guardctl-hook` and `guardctl.steptimer` start through this package and must stay cheap.
"""

__version__ = "0.1.0"
