"""Where the programs that run on the GPUs lie: sweeps/ of a checkout, or the copy inside an installed wheel."""

from pathlib import Path

from guardctl.words.errors import UnavailableError

PACKAGE = Path(__file__).resolve().parents[1]


def folder() -> Path:
    """The folder with gemm_burnin.py and its like. Raises UnavailableError if this installation lacks it."""
    candidates = (PACKAGE.parent / "sweeps", PACKAGE / "_share" / "sweeps")
    for candidate in candidates:
        if (candidate / "gemm_burnin.sbatch").is_file():
            return candidate
    raise UnavailableError(
        f"no gemm_burnin.sbatch in {' or '.join(map(str, candidates))}", hint="install guardctl again, from its wheel"
    )
