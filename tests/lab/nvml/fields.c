/* nvmlDeviceGetFieldValues: numbers of NVML's fields (NVML_FI_DEV_*) mapped to the scenario's names. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scenario.h"

typedef unsigned int uint;
typedef unsigned long long u64;
typedef struct { uint index; } *gpu_t;

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, TYPE_UINT = 1, TYPE_U64 = 3, MAX_LINKS = 36 };

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

static int number(uint gpu, const char *field, u64 *out) {
    char key[64], text[TEXT_BYTES];
    snprintf(key, sizeof key, "gpu%u.%s", gpu, field);
    if (scenario_text(key, text) != 0) return NOT_SUPPORTED;
    *out = (u64)strtoll(text, NULL, 0);
    return OK;
}

static int one_link(uint gpu, uint link, const char *name, u64 *out) {
    char field[64];
    snprintf(field, sizeof field, "nvlink%u_%s", link, name);
    if (number(gpu, field, out) == OK) return OK;
    snprintf(field, sizeof field, "nvlink_%s", name);
    return number(gpu, field, out);
}

static int all_links(uint gpu, const char *name, u64 *out) {
    u64 num_links, one;
    int ret = number(gpu, "nvlink_count", &num_links);
    *out = 0;
    for (uint link = 0; ret == OK && link < num_links && link < MAX_LINKS; link++) {
        ret = one_link(gpu, link, name, &one);
        *out += one;
    }
    return ret;
}

/* The numbers up to 160 are totals; the later ones take a link as scope, or UINT_MAX for all. */
static int nvlink(uint gpu, const struct field_value *ask, const char *name, u64 *out) {
    if (ask->id <= 160 || ask->scope == UINT32_MAX) return all_links(gpu, name, out);
    return one_link(gpu, ask->scope, name, out);
}

static void fill(uint gpu, struct field_value *value) {
    size_t i = 0;
    u64 wide = 0;
    while (i < sizeof known / sizeof *known && known[i].id != value->id) i++;
    value->ret = NOT_SUPPORTED;
    if (i == sizeof known / sizeof *known) return;
    const char *name = known[i].name;
    value->type = known[i].type;
    value->timestamp_us = (int64_t)time(NULL) * 1000000;
    value->latency_us = 0;
    value->ret = (uint)(name[0] == '*' ? nvlink(gpu, value, name + 1, &wide) : number(gpu, name, &wide));
    value->value.wide = 0;
    if (value->type == TYPE_UINT) value->value.u = (uint)wide;
    else value->value.wide = wide;
}

/* In nvml.c: its answer is that of any call on this handle (lost, hang, invalid). */
int nvmlDeviceGetIndex(gpu_t gpu, uint *out);

__attribute__((visibility("default"))) int nvmlDeviceGetFieldValues(gpu_t gpu, int count, struct field_value *values) {
    uint index;
    int ret = nvmlDeviceGetIndex(gpu, &index);
    if (ret != OK) return ret;
    if (count < 1 || !values) return INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) fill(index, &values[i]);
    return OK;
}
