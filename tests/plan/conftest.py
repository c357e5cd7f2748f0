from pathlib import Path

import pytest

from guardctl.plan.model import Model, load


@pytest.fixture(scope="session")
def cases(data_dir: Path) -> Path:
    """The folder with the straggler cases and the constants of the 110B model."""
    folder = data_dir.parent / "plan"
    if not folder.is_dir():
        pytest.skip(f"no straggler cases at {folder}")
    return folder


@pytest.fixture(scope="session")
def model_110b(cases: Path) -> Model:
    return load(cases / "model-110b.toml")
