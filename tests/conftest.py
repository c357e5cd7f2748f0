"""What every test may ask for."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with recorded samples of other people's clusters; set GUARDCTL_DATA where it lies elsewhere."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("GUARDCTL_DATA", beside))
    if not path.is_dir():
        pytest.skip(f"no recorded samples at {path}: set GUARDCTL_DATA")
    return path
