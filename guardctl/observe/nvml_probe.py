"""The child that talks to the driver: one JSON request per line on stdin, one JSON answer per line on stdout.

    {"op": "count"}            -> {"num_gpus": 8} or {"why": "..."}
    {"op": "gpu", "index": 3}  -> {"values": {...}, "uuid": "GPU-...", "serial": "165...", "lost": false}

Any call may hang in the kernel; the parent then kills this process and starts another (guardctl.observe.nvml). Each
value is asked for by itself: one that this GPU, or this driver, does not know is None and hides no other.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pynvml as nv

Value = float | int | str | bool | None
Getter = Callable[[Any], Value]
MAX_LINKS = 36
LINK_ERRORS = (0, 1, 2)  # NVML_NVLINK_ERROR_DL_REPLAY, _RECOVERY, _CRC_FLIT
CORRECTED, UNCORRECTED = 0, 1
VOLATILE, AGGREGATE = 0, 1
SM_CLOCK, MEM_CLOCK = 1, 2
RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
EVENT_REASONS = {
    0x001: "gpu_idle", 0x002: "applications_clocks_setting", 0x004: "sw_power_cap", 0x008: "hw_slowdown",
    0x010: "sync_boost", 0x020: "sw_thermal_slowdown", 0x040: "hw_thermal_slowdown", 0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting", 0x200: "board_limit", 0x400: "reliability",
}  # fmt: skip


def reason_names(mask: int) -> str:
    """The names of the bits of a mask of clock event reasons, joined by ","; an unknown bit is its number."""
    bits = [1 << i for i in range(mask.bit_length()) if mask & 1 << i]
    return ",".join(EVENT_REASONS.get(bit, hex(bit)) for bit in bits)


def recovery_action(gpu: Any) -> int | None:
    """What the driver wants done: 0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset."""
    field = nv.nvmlDeviceGetFieldValues(gpu, [RECOVERY_ACTION])[0]
    return int(field.value.uiVal) if field.nvmlReturn == 0 else None


def link_states(gpu: Any) -> list[int]:
    """1 for each NVLink that is up and 0 for each that is not; empty where there are none."""
    return list(_links(lambda link: nv.nvmlDeviceGetNvLinkState(gpu, link)))


def link_errors(gpu: Any) -> int | None:
    """Replays, recoveries and CRC errors of all NVLinks together; None where nothing counts them."""
    counts = [
        count
        for kind in LINK_ERRORS
        for count in _links(lambda link, kind=kind: nv.nvmlDeviceGetNvLinkErrorCounter(gpu, link, kind))  # type: ignore[misc]
    ]
    return sum(counts) if counts else None


def _links(ask: Callable[[int], int]) -> Iterator[int]:
    for link in range(MAX_LINKS):
        try:
            yield ask(link)
        except nv.NVMLError as error:
            _raise_if_lost(error)
            return


def _raise_if_lost(error: nv.NVMLError) -> None:
    if error.value == nv.NVML_ERROR_GPU_IS_LOST:
        raise error


GETTERS: dict[str, Getter] = {
    "name": lambda gpu: _text(nv.nvmlDeviceGetName(gpu)),
    "board": lambda gpu: _text(nv.nvmlDeviceGetBoardPartNumber(gpu)),
    "pci_bus_id": lambda gpu: _text(nv.nvmlDeviceGetPciInfo(gpu).busId),
    "temperature_c": lambda gpu: nv.nvmlDeviceGetTemperature(gpu, 0),
    "temperature_margin_c": lambda gpu: nv.nvmlDeviceGetMarginTemperature(gpu),
    "power_w": lambda gpu: nv.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "power_limit_w": lambda gpu: nv.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
    "sm_clock_mhz": lambda gpu: nv.nvmlDeviceGetClockInfo(gpu, SM_CLOCK),
    "mem_clock_mhz": lambda gpu: nv.nvmlDeviceGetClockInfo(gpu, MEM_CLOCK),
    "max_sm_clock_mhz": lambda gpu: nv.nvmlDeviceGetMaxClockInfo(gpu, SM_CLOCK),
    "event_reasons": lambda gpu: _event_reasons(gpu),
    "utilization_percent": lambda gpu: nv.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "ecc_corrected_volatile": lambda gpu: nv.nvmlDeviceGetTotalEccErrors(gpu, CORRECTED, VOLATILE),
    "ecc_uncorrected_volatile": lambda gpu: nv.nvmlDeviceGetTotalEccErrors(gpu, UNCORRECTED, VOLATILE),
    "ecc_corrected_aggregate": lambda gpu: nv.nvmlDeviceGetTotalEccErrors(gpu, CORRECTED, AGGREGATE),
    "ecc_uncorrected_aggregate": lambda gpu: nv.nvmlDeviceGetTotalEccErrors(gpu, UNCORRECTED, AGGREGATE),
    "remapped_correctable": lambda gpu: nv.nvmlDeviceGetRemappedRows(gpu)[0],
    "remapped_uncorrectable": lambda gpu: nv.nvmlDeviceGetRemappedRows(gpu)[1],
    "remapped_pending": lambda gpu: bool(nv.nvmlDeviceGetRemappedRows(gpu)[2]),
    "remapped_failed": lambda gpu: bool(nv.nvmlDeviceGetRemappedRows(gpu)[3]),
    "retired_pages_pending": lambda gpu: bool(nv.nvmlDeviceGetRetiredPagesPendingStatus(gpu)),
    "pcie_gen": lambda gpu: nv.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
    "max_pcie_gen": lambda gpu: nv.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
    "pcie_width": lambda gpu: nv.nvmlDeviceGetCurrPcieLinkWidth(gpu),
    "max_pcie_width": lambda gpu: nv.nvmlDeviceGetMaxPcieLinkWidth(gpu),
    "pcie_replays": lambda gpu: nv.nvmlDeviceGetPcieReplayCounter(gpu),
    "nvlinks_up": lambda gpu: sum(states) if (states := link_states(gpu)) else None,
    "nvlink_errors": link_errors,
    "memory_used_bytes": lambda gpu: nv.nvmlDeviceGetMemoryInfo(gpu).used,
    "memory_total_bytes": lambda gpu: nv.nvmlDeviceGetMemoryInfo(gpu).total,
    "mig": lambda gpu: bool(nv.nvmlDeviceGetMigMode(gpu)[0]),
    "num_processes": lambda gpu: len(nv.nvmlDeviceGetComputeRunningProcesses(gpu)),
    "recovery_action": recovery_action,
}


def _event_reasons(gpu: Any) -> int:
    """By the new name, or by the one that drivers before 535 know."""
    try:
        return int(nv.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    except nv.NVMLError as error:
        if error.value != nv.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        return int(nv.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def get(getter: Getter, gpu: Any) -> Value:
    """One value; None if this GPU or driver does not have it. A lost GPU raises."""
    try:
        return getter(gpu)
    except nv.NVMLError as error:
        _raise_if_lost(error)
    except (UnicodeDecodeError, AttributeError):  # a serial that is no text; a pynvml older than the call
        pass
    return None


def sample(index: int) -> dict[str, Any]:
    """All values of one GPU."""
    values: dict[str, Value] = {}
    try:
        gpu = nv.nvmlDeviceGetHandleByIndex(index)
        uuid = get(lambda one: _text(nv.nvmlDeviceGetUUID(one)), gpu)
        serial = get(lambda one: _text(nv.nvmlDeviceGetSerial(one)), gpu)
        for name, getter in GETTERS.items():
            values[name] = get(getter, gpu)
    except nv.NVMLError as error:
        return {"values": values, "lost": error.value == nv.NVML_ERROR_GPU_IS_LOST, "why": str(error)}
    mask = values["event_reasons"]
    values["event_reason_names"] = reason_names(mask) if isinstance(mask, int) else None
    return {"values": values, "uuid": uuid, "serial": serial, "lost": False}


def count() -> dict[str, Any]:
    """How many GPUs the driver has, or why it does not say."""
    try:
        nv.nvmlInit()  # again on each pass: it only counts, and finds a driver that was loaded since
        return {"num_gpus": nv.nvmlDeviceGetCount()}
    except nv.NVMLError as error:
        return {"why": f"NVML: {error}"}


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = count() if request["op"] == "count" else sample(request["index"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
