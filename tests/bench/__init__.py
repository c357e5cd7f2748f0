"""Benchmarks: what guardctl itself costs. `python -m tests.bench` runs them and writes docs/benchmarks.md and .json.

Each module measures one thing and gives plain numbers. Processor time, not time on the wall, wherever the machine's
other load would show; the least of some tries, since nothing but disturbance makes a try slower.
"""
