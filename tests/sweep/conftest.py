"""What the tests of the sweep share."""

import socket

import pytest


@pytest.fixture
def free_port() -> str:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
