"""The lab's only error: what failed, what was seen, and what to do, in words for a person at a terminal."""


class LabError(Exception):
    """The lab could not do what was asked of it."""
