/* The getters of NVML: each is a field of the scenario, or a few. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lab_nvml.h"

/* ---- one field each ---- */

#define TEXT(function, field) \
    API ret_t function(gpu_t gpu, char *out, uint bytes) { return get_text(gpu, field, out, bytes); }
#define UINT(function, field) \
    API ret_t function(gpu_t gpu, uint *out) { return get_uint(gpu, field, out); }
#define U64(function, field) \
    API ret_t function(gpu_t gpu, u64 *out) { return get_u64(gpu, field, out); }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetBoardPartNumber, "board_part_number")
TEXT(nvmlDeviceGetVbiosVersion, "vbios_version")
UINT(nvmlDeviceGetBoardId, "board_id")
UINT(nvmlDeviceGetMinorNumber, "minor_number")
UINT(nvmlDeviceGetPowerUsage, "power_mw")
UINT(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
UINT(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
UINT(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_limit_mw")
UINT(nvmlDeviceGetPerformanceState, "pstate")
UINT(nvmlDeviceGetFanSpeed, "fan_percent")
UINT(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending")
UINT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_max_generation")
UINT(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
UINT(nvmlDeviceGetMaxPcieLinkWidth, "pcie_max_width")
UINT(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
UINT(nvmlDeviceGetPersistenceMode, "persistence_mode")
UINT(nvmlDeviceGetMaxMigDeviceCount, "mig_max_devices")
U64(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
U64(nvmlDeviceGetCurrentClocksEventReasons, "clocks_event_reasons")
U64(nvmlDeviceGetCurrentClocksThrottleReasons, "clocks_event_reasons")
U64(nvmlDeviceGetSupportedClocksEventReasons, "clocks_event_reasons_supported")
U64(nvmlDeviceGetSupportedClocksThrottleReasons, "clocks_event_reasons_supported")

/* ---- two fields in one call ---- */

API ret_t nvmlDeviceGetEccMode(gpu_t gpu, uint *now, uint *pending) {
    return get_pair(gpu, "ecc_mode", "ecc_mode_pending", now, pending);
}

API ret_t nvmlDeviceGetMigMode(gpu_t gpu, uint *now, uint *pending) {
    return get_pair(gpu, "mig_mode", "mig_mode_pending", now, pending);
}

struct utilisation { uint gpu, memory; };
API ret_t nvmlDeviceGetUtilizationRates(gpu_t gpu, struct utilisation *out) {
    return get_pair(gpu, "utilisation_percent", "memory_utilisation_percent", &out->gpu, &out->memory);
}

/* ---- temperature and clocks ---- */

API ret_t nvmlDeviceGetTemperature(gpu_t gpu, uint sensor, uint *out) {
    return sensor == 0 ? get_uint(gpu, "temperature_c", out) : INVALID_ARGUMENT;
}

struct temperature { uint version, sensor; int celsius; };
API ret_t nvmlDeviceGetTemperatureV(gpu_t gpu, struct temperature *out) {
    if (out->version != 0x100000C) return ARGUMENT_VERSION_MISMATCH;
    return nvmlDeviceGetTemperature(gpu, out->sensor, (uint *)&out->celsius);
}

struct margin { uint version; int celsius; };
API ret_t nvmlDeviceGetMarginTemperature(gpu_t gpu, struct margin *out) {
    if (out->version != 0x1000008) return ARGUMENT_VERSION_MISMATCH;
    return get_uint(gpu, "temperature_margin_c", (uint *)&out->celsius);
}

static const char *const thresholds[] = {"shutdown", "slowdown", "mem_max", "gpu_max"};
static const char *const clocks[] = {"graphics", "sm", "mem", "video"};

static ret_t joined_uint(gpu_t gpu, const char *format, const char *first, uint *out) {
    u64 wide;
    ret_t ret = get_joined(gpu, format, first, "", &wide);
    if (ret == OK) *out = (uint)wide;
    return ret;
}

API ret_t nvmlDeviceGetTemperatureThreshold(gpu_t gpu, uint kind, uint *out) {
    return joined_uint(gpu, "threshold_%s_c%s", PICK(thresholds, kind), out);
}
API ret_t nvmlDeviceGetClockInfo(gpu_t gpu, uint clock, uint *out) {
    return joined_uint(gpu, "clock_%s_mhz%s", PICK(clocks, clock), out);
}
API ret_t nvmlDeviceGetMaxClockInfo(gpu_t gpu, uint clock, uint *out) {
    return joined_uint(gpu, "clock_max_%s_mhz%s", PICK(clocks, clock), out);
}
API ret_t nvmlDeviceGetApplicationsClock(gpu_t gpu, uint clock, uint *out) {
    return joined_uint(gpu, "clock_app_%s_mhz%s", PICK(clocks, clock), out);
}
API ret_t nvmlDeviceGetDefaultApplicationsClock(gpu_t gpu, uint clock, uint *out) {
    return joined_uint(gpu, "clock_app_%s_mhz%s", PICK(clocks, clock), out);
}

static const char *const policies[] = {"power", "thermal", "sync_boost", "board_limit", "low_utilisation",
                                       "reliability"};
struct violation { u64 reference_us, violation_ns; };

static u64 now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (u64)now.tv_sec * 1000000 + (u64)now.tv_nsec / 1000;
}

API ret_t nvmlDeviceGetViolationStatus(gpu_t gpu, uint policy, struct violation *out) {
    out->reference_us = now_us();
    return get_joined(gpu, "violation_%s_ns%s", PICK(policies, policy), "", &out->violation_ns);
}

/* ---- ECC, remapped rows, retired pages ---- */

static const char *const errors[] = {"corrected", "uncorrected"};
static const char *const counters[] = {"volatile", "aggregate"};
static const char *const places[] = {"l1", "l2", "dram", "register", "texture", "shared", "cbu", "sram"};

API ret_t nvmlDeviceGetTotalEccErrors(gpu_t gpu, uint error, uint counter, u64 *out) {
    return get_joined(gpu, "ecc_%s_%s", PICK(errors, error), PICK(counters, counter), out);
}

/* The scenario's total is in DRAM unless it names the place: ecc_uncorrected_volatile_sram. */
API ret_t nvmlDeviceGetMemoryErrorCounter(gpu_t gpu, uint error, uint counter, uint place, u64 *out) {
    const char *where = PICK(places, place);
    char format[32];
    if (!where) return INVALID_ARGUMENT;
    snprintf(format, sizeof format, "ecc_%%s_%%s_%s", where);
    ret_t ret = get_joined(gpu, format, PICK(errors, error), PICK(counters, counter), out);
    if (ret != NOT_SUPPORTED || place != 2) return ret;
    return nvmlDeviceGetTotalEccErrors(gpu, error, counter, out);
}

API ret_t nvmlDeviceGetRemappedRows(gpu_t gpu, uint *corrected, uint *uncorrected, uint *pending, uint *failed) {
    ret_t ret = get_pair(gpu, "remapped_corrected", "remapped_uncorrected", corrected, uncorrected);
    return ret == OK ? get_pair(gpu, "remapped_pending", "remapped_failure", pending, failed) : ret;
}

struct histogram { uint max, high, partial, low, none; };
API ret_t nvmlDeviceGetRowRemapperHistogram(gpu_t gpu, struct histogram *out) {
    memset(out, 0, sizeof *out);
    return get_pair(gpu, "remap_banks_max", "remap_banks_none", &out->max, &out->none);
}

static ret_t retired(gpu_t gpu, uint cause, uint *count, u64 *pages, u64 *times) {
    uint num_pages;
    ret_t ret = get_uint(gpu, cause == 0 ? "retired_sbe" : "retired_dbe", &num_pages);
    if (ret != OK) return ret;
    uint room = *count;
    *count = num_pages;
    if (num_pages > 0 && (room < num_pages || !pages)) return INSUFFICIENT_SIZE;
    for (uint i = 0; i < num_pages; i++) pages[i] = 0x1000u + i;
    for (uint i = 0; times && i < num_pages; i++) times[i] = 0;
    return OK;
}
API ret_t nvmlDeviceGetRetiredPages(gpu_t gpu, uint cause, uint *count, u64 *pages) {
    return retired(gpu, cause, count, pages, NULL);
}
API ret_t nvmlDeviceGetRetiredPages_v2(gpu_t gpu, uint cause, uint *count, u64 *pages, u64 *times) {
    return retired(gpu, cause, count, pages, times);
}

/* ---- memory and processes ---- */

struct memory { u64 total, free, used; };
API ret_t nvmlDeviceGetMemoryInfo(gpu_t gpu, struct memory *out) {
    ret_t ret = get_u64(gpu, "memory_bytes", &out->total);
    if (ret == OK) ret = get_u64(gpu, "memory_used_bytes", &out->used);
    out->free = out->total - out->used;
    return ret;
}

struct memory_v2 { uint version; u64 total, reserved, free, used; };
API ret_t nvmlDeviceGetMemoryInfo_v2(gpu_t gpu, struct memory_v2 *out) {
    struct memory plain = {0, 0, 0};
    if (out->version != 0x02000028) return ARGUMENT_VERSION_MISMATCH;
    ret_t ret = nvmlDeviceGetMemoryInfo(gpu, &plain);
    if (ret == OK) ret = get_u64(gpu, "memory_reserved_bytes", &out->reserved);
    out->total = plain.total;
    out->used = plain.used;
    out->free = plain.free - out->reserved;
    return ret;
}

struct process { uint pid; u64 bytes; uint gpu_instance, compute_instance; };

/* gpu0.processes is "none" or "PID:BYTES,PID:BYTES". */
static ret_t processes(gpu_t gpu, uint *count, struct process *out) {
    char text[TEXT_BYTES], *rest = text, *word;
    uint room = out ? *count : 0, found = 0;
    ret_t ret = get_text(gpu, "processes", text, sizeof text);
    if (ret != OK) return ret;
    while ((word = strsep(&rest, ","))) {
        struct process one = {0, 0, 0xFFFFFFFF, 0xFFFFFFFF};
        if (sscanf(word, "%u:%llu", &one.pid, &one.bytes) != 2) continue;
        if (found < room) out[found] = one;
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}
API ret_t nvmlDeviceGetComputeRunningProcesses_v3(gpu_t gpu, uint *count, struct process *out) {
    return processes(gpu, count, out);
}
API ret_t nvmlDeviceGetGraphicsRunningProcesses_v3(gpu_t gpu, uint *count, struct process *out) {
    (void)out;
    *count = 0;
    return enter(gpu);
}

API ret_t nvmlDeviceGetMigDeviceHandleByIndex(gpu_t gpu, uint index, gpu_t *out) {
    (void)index;
    (void)out;
    ret_t ret = enter(gpu);
    return ret == OK ? NOT_FOUND : ret;
}

/* ---- PCI ---- */

struct pci { char legacy[16]; uint domain, bus, device, id, subsystem; char bus_id[32]; };

static ret_t parse_pci(const char *text, struct pci *out) {
    if (sscanf(text, "%x:%x:%x.", &out->domain, &out->bus, &out->device) != 3) return NOT_SUPPORTED;
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", out->domain & 0xFFFF, out->bus & 0xFF,
             out->device & 0xFF);
    return OK;
}

API ret_t nvmlDeviceGetPciInfo_v3(gpu_t gpu, struct pci *out) {
    char text[TEXT_BYTES];
    memset(out, 0, sizeof *out);
    ret_t ret = get_text(gpu, "pci_bus_id", text, sizeof text);
    if (ret == OK) ret = parse_pci(text, out);
    return ret == OK ? get_pair(gpu, "pci_device_id", "pci_subsystem_id", &out->id, &out->subsystem) : ret;
}
API ret_t nvmlDeviceGetPciInfo_v2(gpu_t gpu, struct pci *out) { return nvmlDeviceGetPciInfo_v3(gpu, out); }

/* ---- NVLink: gpu0.nvlink3_state is one link, gpu0.nvlink_state stands for all that are not named ---- */

ret_t get_link(gpu_t gpu, uint link, const char *name, u64 *out) {
    char field[64];
    uint num_links;
    ret_t ret = get_uint(gpu, "nvlink_count", &num_links);
    if (ret != OK) return ret;
    if (!name || link >= num_links) return INVALID_ARGUMENT;
    snprintf(field, sizeof field, "nvlink%u_%s", link, name);
    ret = get_u64(gpu, field, out);
    snprintf(field, sizeof field, "nvlink_%s", name);
    return ret == NOT_SUPPORTED ? get_u64(gpu, field, out) : ret;
}

static ret_t get_link_uint(gpu_t gpu, uint link, const char *name, uint *out) {
    u64 wide;
    ret_t ret = get_link(gpu, link, name, &wide);
    if (ret == OK) *out = (uint)wide;
    return ret;
}

static const char *const link_errors[] = {"replay_errors", "recovery_errors", "crc_flit_errors", "crc_data_errors",
                                          "ecc_data_errors"};

API ret_t nvmlDeviceGetNvLinkState(gpu_t gpu, uint link, uint *out) { return get_link_uint(gpu, link, "state", out); }
API ret_t nvmlDeviceGetNvLinkVersion(gpu_t gpu, uint link, uint *out) {
    return get_link_uint(gpu, link, "version", out);
}
API ret_t nvmlDeviceGetNvLinkErrorCounter(gpu_t gpu, uint link, uint counter, u64 *out) {
    return get_link(gpu, link, PICK(link_errors, counter), out);
}
API ret_t nvmlDeviceGetNvLinkRemoteDeviceType(gpu_t gpu, uint link, uint *out) {
    return get_link_uint(gpu, link, "remote_type", out);
}

/* All links end in the node's NVSwitches, as on an HGX board. */
API ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu_t gpu, uint link, struct pci *out) {
    char text[32];
    u64 bus;
    memset(out, 0, sizeof *out);
    ret_t ret = get_link(gpu, link, "remote_bus", &bus);
    if (ret != OK) return ret;
    snprintf(text, sizeof text, "00000000:%02X:00.0", (uint)bus);
    return parse_pci(text, out);
}
