"""Asks the real pynvml everything that the lab's library answers, and prints it as JSON. Runs on a node of the lab."""

import json
from collections.abc import Callable
from typing import Any

import pynvml as nvml


def plain(value: Any) -> Any:
    """Structures as dicts, sequences as lists."""
    if hasattr(value, "_fields_"):
        return {name: plain(getattr(value, name)) for name, _ in value._fields_ if not name.startswith("reserved")}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def answer(ask: Callable[[], Any]) -> Any:
    """What the call gives, or the words of its error."""
    try:
        return plain(ask())
    except nvml.NVMLError as error:
        return f"error {error.value}: {error}"


def fields(gpu: Any, *ids: Any) -> list[Any]:
    """Field values: a number each, or the code of its error."""
    values = nvml.nvmlDeviceGetFieldValues(gpu, list(ids))
    return [
        (value.value.uiVal if value.valueType == nvml.NVML_VALUE_TYPE_UNSIGNED_INT else value.value.ullVal)
        if value.nvmlReturn == 0
        else f"error {value.nvmlReturn}"
        for value in values
    ]


def everything() -> dict[str, Any]:
    """One entry per question."""
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    by_uuid = nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(gpu))
    by_bus = nvml.nvmlDeviceGetHandleByPciBusId("00000000:18:00.0")
    asked: dict[str, Callable[[], Any]] = {
        "driver": nvml.nvmlSystemGetDriverVersion,
        "nvml": nvml.nvmlSystemGetNVMLVersion,
        "cuda": nvml.nvmlSystemGetCudaDriverVersion,
        "count": nvml.nvmlDeviceGetCount,
        "index": lambda: nvml.nvmlDeviceGetIndex(gpu),
        "index by uuid": lambda: nvml.nvmlDeviceGetIndex(by_uuid),
        "index by bus": lambda: nvml.nvmlDeviceGetIndex(by_bus),
        "no such index": lambda: nvml.nvmlDeviceGetHandleByIndex(9),
        "no such uuid": lambda: nvml.nvmlDeviceGetHandleByUUID("GPU-none"),
        "name": lambda: nvml.nvmlDeviceGetName(gpu),
        "uuid": lambda: nvml.nvmlDeviceGetUUID(gpu),
        "serial": lambda: nvml.nvmlDeviceGetSerial(gpu),
        "part": lambda: nvml.nvmlDeviceGetBoardPartNumber(gpu),
        "board": lambda: nvml.nvmlDeviceGetBoardId(gpu),
        "vbios": lambda: nvml.nvmlDeviceGetVbiosVersion(gpu),
        "minor": lambda: nvml.nvmlDeviceGetMinorNumber(gpu),
        "pci": lambda: nvml.nvmlDeviceGetPciInfo_v3(gpu),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
        "temperature same": lambda: (
            nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU)
            == nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)
        ),
        "temperature_margin_c": lambda: nvml.nvmlDeviceGetMarginTemperature(gpu),
        "thresholds": lambda: [nvml.nvmlDeviceGetTemperatureThreshold(gpu, kind) for kind in range(4)],
        "no such threshold": lambda: nvml.nvmlDeviceGetTemperatureThreshold(gpu, 7),
        "power_mw": lambda: nvml.nvmlDeviceGetPowerUsage(gpu),
        "limit not supported": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
        "default limit": lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu),
        "clocks": lambda: [nvml.nvmlDeviceGetClockInfo(gpu, kind) for kind in range(4)],
        "max clocks": lambda: [nvml.nvmlDeviceGetMaxClockInfo(gpu, kind) for kind in range(4)],
        "app clocks": lambda: [nvml.nvmlDeviceGetApplicationsClock(gpu, kind) for kind in range(3)],
        "reasons": lambda: [
            nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
            nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
            nvml.nvmlDeviceGetSupportedClocksEventReasons(gpu),
            nvml.nvmlDeviceGetSupportedClocksThrottleReasons(gpu),
        ],
        "violation": lambda: nvml.nvmlDeviceGetViolationStatus(gpu, nvml.NVML_PERF_POLICY_THERMAL).violationTime,
        "ecc mode": lambda: nvml.nvmlDeviceGetEccMode(gpu),
        "ecc": lambda: [nvml.nvmlDeviceGetTotalEccErrors(gpu, kind, span) for kind in (0, 1) for span in (0, 1)],
        "dram": lambda: nvml.nvmlDeviceGetMemoryErrorCounter(gpu, 1, 0, nvml.NVML_MEMORY_LOCATION_DRAM),
        "sram": lambda: nvml.nvmlDeviceGetMemoryErrorCounter(gpu, 1, 0, nvml.NVML_MEMORY_LOCATION_SRAM),
        "remapped": lambda: nvml.nvmlDeviceGetRemappedRows(gpu),
        "remap banks": lambda: nvml.nvmlDeviceGetRowRemapperHistogram(gpu),
        "retired": lambda: nvml.nvmlDeviceGetRetiredPages(gpu, 0),
        "retired pending": lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu),
        "nvlink": lambda: [nvml.nvmlDeviceGetNvLinkState(gpu, 17), nvml.nvmlDeviceGetNvLinkVersion(gpu, 0)],
        "no such nvlink": lambda: nvml.nvmlDeviceGetNvLinkState(gpu, 18),
        "nvlink errors": lambda: [nvml.nvmlDeviceGetNvLinkErrorCounter(gpu, link, 0) for link in (2, 3)],
        "nvlink remote": lambda: nvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, 0),
        "nvlink remote pci": lambda: nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, 0).busId,
        "pcie": lambda: [
            nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
            nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
            nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),
            nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
            nvml.nvmlDeviceGetPcieReplayCounter(gpu),
        ],
        "utilisation": lambda: nvml.nvmlDeviceGetUtilizationRates(gpu),
        "memory": lambda: nvml.nvmlDeviceGetMemoryInfo(gpu),
        "memory v2": lambda: nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2).reserved,
        "processes": lambda: [[p.pid, p.usedGpuMemory] for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)],
        "graphics": lambda: nvml.nvmlDeviceGetGraphicsRunningProcesses(gpu),
        "mig": lambda: nvml.nvmlDeviceGetMigMode(gpu),
        "persistence": lambda: nvml.nvmlDeviceGetPersistenceMode(gpu),
        "pstate": lambda: nvml.nvmlDeviceGetPerformanceState(gpu),
        "energy": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
        "recovery, memory temperature, unknown": lambda: fields(
            gpu, nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, nvml.NVML_FI_DEV_MEMORY_TEMP, 9999
        ),
        "nvlink totals": lambda: fields(
            gpu, nvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, (nvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, 3),
            (nvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, 2), nvml.NVML_FI_DEV_NVLINK_LINK_COUNT,
        ),
    }  # fmt: skip
    out = {name: answer(ask) for name, ask in asked.items()}
    nvml.nvmlShutdown()
    out["after shutdown"] = answer(lambda: nvml.nvmlDeviceGetName(gpu))
    return out


if __name__ == "__main__":
    print(json.dumps(everything(), indent=1))  # noqa: T201 - this is its output
