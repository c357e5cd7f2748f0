/* libnvidia-ml.so.1 for the lab: NVML's own entry points, answered from a scenario file (scenario.c).
 *
 * Prototypes and struct layouts follow NVIDIA's nvml.h as nvidia-ml-py declares them. A value that the scenario
 * does not hold, or holds as "n/a", is NVML_ERROR_NOT_SUPPORTED. gpuN.state is ok, lost (every call fails with
 * GPU_IS_LOST, and no new handle is given) or hang (the call never returns; only SIGKILL ends the process).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab_nvml.h"

enum { MAX_GPUS = 64 };
static struct { uint index; } gpus[MAX_GPUS];
static int users; /* nvmlInit calls minus nvmlShutdown calls */

/* ---- values of one GPU ---- */

static int text_of(uint gpu, const char *field, char text[TEXT_BYTES]) {
    char key[64];
    snprintf(key, sizeof key, "gpu%u.%s", gpu, field);
    return scenario_text(key, text);
}

static int has_state(uint gpu, const char *state) {
    char text[TEXT_BYTES];
    return text_of(gpu, "state", text) == 0 && strcmp(text, state) == 0;
}

/* As a task in state D: nothing but SIGKILL ends it, whichever thread the signal goes to. */
static void hang(void) {
    static const int fatal[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM};
    sigset_t all;
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        struct sigaction now;
        sigaction(fatal[i], NULL, &now);
        if (now.sa_handler == SIG_DFL) signal(fatal[i], SIG_IGN);
    }
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (;;) pause();
}

ret_t enter(gpu_t gpu) {
    if (users <= 0) return UNINITIALIZED;
    if (!gpu || gpu->index >= MAX_GPUS || (void *)gpu != (void *)&gpus[gpu->index]) return INVALID_ARGUMENT;
    if (scenario_refresh() != 0) return GPU_IS_LOST;
    if (has_state(gpu->index, "hang")) hang();
    return has_state(gpu->index, "lost") ? GPU_IS_LOST : OK;
}

ret_t get_text(gpu_t gpu, const char *field, char *out, uint bytes) {
    char text[TEXT_BYTES];
    ret_t ret = enter(gpu);
    if (ret != OK) return ret;
    if (text_of(gpu->index, field, text) != 0) return NOT_SUPPORTED;
    if (strlen(text) + 1 > bytes) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return OK;
}

ret_t get_u64(gpu_t gpu, const char *field, u64 *out) {
    char text[TEXT_BYTES];
    ret_t ret = get_text(gpu, field, text, sizeof text);
    if (ret == OK) *out = (u64)strtoll(text, NULL, 0);
    return ret;
}

ret_t get_uint(gpu_t gpu, const char *field, uint *out) {
    u64 wide;
    ret_t ret = get_u64(gpu, field, &wide);
    if (ret == OK) *out = (uint)wide;
    return ret;
}

ret_t get_pair(gpu_t gpu, const char *first, const char *second, uint *one, uint *two) {
    ret_t ret = get_uint(gpu, first, one);
    return ret == OK ? get_uint(gpu, second, two) : ret;
}

ret_t get_joined(gpu_t gpu, const char *format, const char *first, const char *second, u64 *out) {
    char field[64];
    if (!first || !second) return INVALID_ARGUMENT;
    snprintf(field, sizeof field, format, first, second);
    return get_u64(gpu, field, out);
}

const char *pick(const char *const *names, size_t num_names, uint number) {
    return number < num_names ? names[number] : NULL;
}

/* ---- the library itself ---- */

static ret_t start(void) {
    if (scenario_refresh() != 0) return DRIVER_NOT_LOADED;
    for (uint i = 0; i < MAX_GPUS; i++) gpus[i].index = i;
    __atomic_add_fetch(&users, 1, __ATOMIC_SEQ_CST);
    return OK;
}

API ret_t nvmlInitWithFlags(uint flags) { (void)flags; return start(); }
API ret_t nvmlInit_v2(void) { return start(); }
API ret_t nvmlInit(void) { return start(); }

API ret_t nvmlShutdown(void) {
    if (users <= 0) return UNINITIALIZED;
    __atomic_sub_fetch(&users, 1, __ATOMIC_SEQ_CST);
    return OK;
}

API const char *nvmlErrorString(ret_t ret) {
    switch (ret) {
    case OK: return "The operation was successful";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

static ret_t system_text(const char *key, char *out, uint bytes) {
    char text[TEXT_BYTES];
    if (users <= 0) return UNINITIALIZED;
    if (scenario_refresh() != 0 || scenario_text(key, text) != 0) return NOT_SUPPORTED;
    if (strlen(text) + 1 > bytes) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return OK;
}

API ret_t nvmlSystemGetDriverVersion(char *out, uint bytes) { return system_text("driver_version", out, bytes); }
API ret_t nvmlSystemGetNVMLVersion(char *out, uint bytes) { return system_text("nvml_version", out, bytes); }

API ret_t nvmlSystemGetCudaDriverVersion_v2(int *out) {
    char text[TEXT_BYTES];
    ret_t ret = system_text("cuda_driver_version", text, sizeof text);
    if (ret == OK) *out = atoi(text);
    return ret;
}
API ret_t nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

API ret_t nvmlDeviceGetCount_v2(uint *out) {
    char text[TEXT_BYTES];
    ret_t ret = system_text("gpu_count", text, sizeof text);
    if (ret == OK) *out = (uint)atoi(text);
    return ret;
}
API ret_t nvmlDeviceGetCount(uint *out) { return nvmlDeviceGetCount_v2(out); }

/* ---- handles ---- */

API ret_t nvmlDeviceGetHandleByIndex_v2(uint index, gpu_t *out) {
    uint count;
    ret_t ret = nvmlDeviceGetCount_v2(&count);
    if (ret != OK) return ret;
    if (index >= count || index >= MAX_GPUS) return INVALID_ARGUMENT;
    if (has_state(index, "lost")) return GPU_IS_LOST;
    *out = (gpu_t)&gpus[index];
    return OK;
}
API ret_t nvmlDeviceGetHandleByIndex(uint index, gpu_t *out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }

static ret_t find_gpu(const char *field, const char *value, gpu_t *out) {
    char text[TEXT_BYTES];
    uint count;
    ret_t ret = nvmlDeviceGetCount_v2(&count);
    if (ret != OK) return ret;
    for (uint i = 0; i < count && i < MAX_GPUS; i++)
        if (text_of(i, field, text) == 0 && strcasecmp(text, value) == 0) return nvmlDeviceGetHandleByIndex_v2(i, out);
    return NOT_FOUND;
}

API ret_t nvmlDeviceGetHandleByUUID(const char *uuid, gpu_t *out) { return find_gpu("uuid", uuid, out); }
API ret_t nvmlDeviceGetHandleBySerial(const char *serial, gpu_t *out) { return find_gpu("serial", serial, out); }
API ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, gpu_t *out) { return find_gpu("pci_bus_id", bus, out); }

API ret_t nvmlDeviceGetIndex(gpu_t gpu, uint *out) {
    ret_t ret = enter(gpu);
    if (ret == OK) *out = gpu->index;
    return ret;
}
