/* nvmlDeviceGetFieldValues: numbers of NVML's fields (NVML_FI_DEV_*) mapped to the scenario's names. */
#include <stdint.h>
#include <time.h>

#include "lab_nvml.h"

enum { TYPE_UINT = 1, TYPE_U64 = 3, LAST_TOTAL = 160 };

struct field_value {
    uint32_t id, scope;
    int64_t timestamp_us, latency_us;
    uint type, ret;
    union { double f; uint u; u64 wide; } value;
};

/* A "*" sums the named counter over all NVLinks or takes the one in scope; see nvlink(). */
static const struct { uint id, type; const char *name; } known[] = {
    {1, TYPE_UINT, "ecc_mode"},
    {2, TYPE_UINT, "ecc_mode_pending"},
    {3, TYPE_U64, "ecc_corrected_volatile"},
    {4, TYPE_U64, "ecc_uncorrected_volatile"},
    {5, TYPE_U64, "ecc_corrected_aggregate"},
    {6, TYPE_U64, "ecc_uncorrected_aggregate"},
    {29, TYPE_UINT, "retired_sbe"},
    {30, TYPE_UINT, "retired_dbe"},
    {31, TYPE_UINT, "retired_pending"},
    {38, TYPE_U64, "*crc_flit_errors"},
    {45, TYPE_U64, "*crc_data_errors"},
    {52, TYPE_U64, "*replay_errors"},
    {59, TYPE_U64, "*recovery_errors"},
    {74, TYPE_U64, "violation_power_ns"},
    {75, TYPE_U64, "violation_thermal_ns"},
    {76, TYPE_U64, "violation_sync_boost_ns"},
    {77, TYPE_U64, "violation_board_limit_ns"},
    {79, TYPE_U64, "violation_reliability_ns"},
    {82, TYPE_UINT, "memory_temperature_c"},
    {83, TYPE_U64, "energy_mj"},
    {91, TYPE_UINT, "nvlink_count"},
    {94, TYPE_U64, "pcie_replays"},
    {142, TYPE_UINT, "remapped_corrected"},
    {143, TYPE_UINT, "remapped_uncorrected"},
    {144, TYPE_UINT, "remapped_pending"},
    {145, TYPE_UINT, "remapped_failure"},
    {160, TYPE_U64, "*ecc_data_errors"},
    {161, TYPE_U64, "*replay_errors"},
    {162, TYPE_U64, "*recovery_errors"},
    {163, TYPE_U64, "*crc_flit_errors"},
    {164, TYPE_UINT, "*speed_mbps"},
    {165, TYPE_UINT, "*state"},
    {169, TYPE_U64, "pcie_recoveries"},
    {173, TYPE_U64, "pcie_correctable_errors"},
    {185, TYPE_UINT, "power_mw"},
    {186, TYPE_UINT, "power_mw"},
    {189, TYPE_UINT, "power_default_limit_mw"},
    {190, TYPE_UINT, "power_limit_mw"},
    {191, TYPE_U64, "energy_mj"},
    {192, TYPE_UINT, "power_limit_mw"},
    {230, TYPE_UINT, "recovery_action"},
    {270, TYPE_U64, "violation_thermal_ns"},
};

static ret_t all_links(gpu_t gpu, const char *name, u64 *out) {
    uint num_links;
    u64 one = 0;
    ret_t ret = get_uint(gpu, "nvlink_count", &num_links);
    *out = 0;
    for (uint link = 0; ret == OK && link < num_links; link++) {
        ret = get_link(gpu, link, name, &one);
        *out += one;
    }
    return ret;
}

/* The older numbers are totals; the later ones take a link as scope, or UINT32_MAX for all. */
static ret_t nvlink(gpu_t gpu, const struct field_value *ask, const char *name, u64 *out) {
    if (ask->id <= LAST_TOTAL || ask->scope == UINT32_MAX) return all_links(gpu, name, out);
    return get_link(gpu, ask->scope, name, out);
}

static void fill(gpu_t gpu, struct field_value *value) {
    size_t i = 0;
    u64 wide = 0;
    while (i < sizeof known / sizeof *known && known[i].id != value->id) i++;
    value->ret = NOT_SUPPORTED;
    if (i == sizeof known / sizeof *known) return;
    const char *name = known[i].name;
    value->type = known[i].type;
    value->timestamp_us = (int64_t)time(NULL) * 1000000;
    value->latency_us = 0;
    value->ret = name[0] == '*' ? nvlink(gpu, value, name + 1, &wide) : get_u64(gpu, name, &wide);
    value->value.wide = 0;
    if (value->type == TYPE_UINT) value->value.u = (uint)wide;
    else value->value.wide = wide;
}

API ret_t nvmlDeviceGetFieldValues(gpu_t gpu, int count, struct field_value *values) {
    ret_t ret = enter(gpu);
    if (ret != OK) return ret;
    if (count < 1 || !values) return INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) fill(gpu, &values[i]);
    return OK;
}
