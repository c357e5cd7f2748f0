"""A small model for the planner's tests: 8 layers, 8 micro-batches, nodes of 4 GPUs."""

TEXT = """
[model]
layers = 8
micro_batches = 8

[parallel]
data = 2
tensor = 4
pipeline = 2
gpus_per_node = 4

[tensor_slowdown]
4 = 1.0
2 = 1.9
1 = 3.7

[memory]
per_layer = [15, 14, 12, 10]
embedding = 5
extra = 10
bound = 105
gap = 5
"""
