"""The GPUs of a node as text: what the lab's libnvidia-ml.so.1 answers (nvml/scenario.c reads it).

One line per value, `gpu0.temperature_c 41`. The values are those of a busy H100 SXM in an 8-GPU board, with the small
differences that equal GPUs show. `n/a` is "not supported".
"""

import hashlib
import subprocess
import uuid
from pathlib import Path

from tests.lab.errors import LabError

Scenario = dict[str, str]

SOURCES = Path(__file__).with_name("nvml")
BUSES = (0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB)  # an HGX H100 board's
NAMESPACE = uuid.UUID("6f0a3a52-5b0d-4cf7-9b39-3d7f3a1f0b6e")

HOST = {"driver_version": "570.124.06", "nvml_version": "12.570.124.06", "cuda_driver_version": "12080"}
HEALTHY: dict[str, object] = {
    "state": "ok",
    "name": "NVIDIA H100 80GB HBM3",
    "board_part_number": "692-2G520-0200-000",
    "vbios_version": "96.00.A5.00.01",
    "pci_device_id": "0x233010de",
    "pci_subsystem_id": "0x16c110de",
    "memory_temperature_c": 61,
    "threshold_shutdown_c": 93, "threshold_slowdown_c": 87, "threshold_mem_max_c": 95, "threshold_gpu_max_c": 85,
    "power_limit_mw": 700000, "power_default_limit_mw": 700000,
    "clock_graphics_mhz": 1980, "clock_sm_mhz": 1980, "clock_mem_mhz": 2619, "clock_video_mhz": 1545,
    "clock_max_graphics_mhz": 1980, "clock_max_sm_mhz": 1980, "clock_max_mem_mhz": 2619, "clock_max_video_mhz": 1545,
    "clock_app_graphics_mhz": 1980, "clock_app_sm_mhz": 1980, "clock_app_mem_mhz": 2619,
    "clocks_event_reasons": 0, "clocks_event_reasons_supported": "0x1ff",
    "violation_power_ns": 0, "violation_thermal_ns": 0, "violation_sync_boost_ns": 0,
    "violation_board_limit_ns": 0, "violation_low_utilisation_ns": 0, "violation_reliability_ns": 0,
    "ecc_mode": 1, "ecc_mode_pending": 1,
    "ecc_corrected_volatile": 0, "ecc_uncorrected_volatile": 0,
    "ecc_corrected_aggregate": 0, "ecc_uncorrected_aggregate": 0, "ecc_uncorrected_volatile_sram": 0,
    "remapped_corrected": 0, "remapped_uncorrected": 0, "remapped_pending": 0, "remapped_failure": 0,
    "remap_banks_max": 2560, "remap_banks_none": 0,
    "retired_sbe": "n/a", "retired_dbe": "n/a", "retired_pending": "n/a",  # as on every GPU that remaps rows
    "nvlink_count": 18, "nvlink_state": 1, "nvlink_version": 4, "nvlink_speed_mbps": 26562,
    "nvlink_remote_type": 2, "nvlink_remote_bus": "0x07",
    "nvlink_replay_errors": 0, "nvlink_recovery_errors": 0, "nvlink_crc_flit_errors": 0,
    "nvlink_crc_data_errors": 0, "nvlink_ecc_data_errors": 0,
    "pcie_generation": 5, "pcie_max_generation": 5, "pcie_width": 16, "pcie_max_width": 16,
    "pcie_replays": 0, "pcie_recoveries": 0, "pcie_correctable_errors": 0,
    "utilisation_percent": 99, "memory_utilisation_percent": 46,
    "memory_bytes": 85520809984, "memory_used_bytes": 68719476736, "memory_reserved_bytes": 563478528,
    "processes": "none",
    "mig_mode": 0, "mig_mode_pending": 0, "mig_max_devices": 7,
    "persistence_mode": 1, "pstate": 0, "fan_percent": "n/a",
    "energy_mj": 5412000000, "recovery_action": 0,
}  # fmt: skip


def bus(gpu: int) -> int:
    """PCI bus of the node's GPU."""
    return BUSES[gpu] if gpu < len(BUSES) else (0x20 + gpu * 3) % 256


def xid_address(gpu: int) -> str:
    """The GPU's address as the driver writes it to the kernel log."""
    return f"PCI:0000:{bus(gpu):02x}:00"


def gpu_uuid(lab: str, node: str, gpu: int) -> str:
    return f"GPU-{uuid.uuid5(NAMESPACE, f'{lab}/{node}/{gpu}')}"


def healthy(lab: str, node: str, num_gpus: int) -> Scenario:
    """A node without faults."""
    lines: Scenario = {**HOST, "gpu_count": str(num_gpus)}
    for gpu in range(num_gpus):
        lines |= {f"gpu{gpu}.{name}": str(value) for name, value in (HEALTHY | _own(lab, node, gpu)).items()}
    return lines


def _own(lab: str, node: str, gpu: int) -> dict[str, object]:
    """What differs from card to card, the same at every start of the lab."""
    identity = gpu_uuid(lab, node, gpu)
    spread = int(hashlib.sha256(identity.encode()).hexdigest(), 16)
    temperature_c = 54 + spread % 5
    return {
        "uuid": identity,
        "serial": 1_650_000_000_000 + spread % 10**9,
        "pci_bus_id": f"00000000:{bus(gpu):02X}:00.0",
        "board_id": bus(gpu) << 8,
        "minor_number": gpu,
        "temperature_c": temperature_c,
        "temperature_margin_c": 85 - temperature_c,
        "power_mw": 640_000 + spread % 20_000,
    }


def write(file: Path, scenario: Scenario) -> None:
    """Replaces the scenario as a whole: a reader sees the old one or the new one."""
    part = file.with_suffix(".part")
    part.write_text("".join(f"{name} {value}\n" for name, value in scenario.items()))
    part.chmod(0o644)
    part.replace(file)


def compile_library(folder: Path) -> Path:
    """Compiles the lab's libnvidia-ml.so.1 into the folder."""
    library = folder / "libnvidia-ml.so.1"
    sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
    flags = ["-std=gnu11", "-O1", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
    argv = ["cc", *flags, "-o", str(library), *sources, "-ldl"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise LabError(f"cc could not build {library.name}:\n{done.stderr}")
    return library
