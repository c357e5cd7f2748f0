/* What the lab's NVML is made of: NVML's types, and one way to read a value of a GPU. */
#ifndef LAB_NVML_H
#define LAB_NVML_H

#include "scenario.h"

#define API __attribute__((visibility("default")))

typedef enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, ARGUMENT_VERSION_MISMATCH = 25,
} ret_t;
typedef unsigned int uint;
typedef unsigned long long u64;
typedef struct { uint index; } *gpu_t;

/* What any call on this handle answers: OK, UNINITIALIZED, INVALID_ARGUMENT, GPU_IS_LOST, or never. */
ret_t enter(gpu_t gpu);

/* The value of "gpuN.<field>"; NOT_SUPPORTED if the scenario has none. */
ret_t get_text(gpu_t gpu, const char *field, char *out, uint bytes);
ret_t get_u64(gpu_t gpu, const char *field, u64 *out);
ret_t get_uint(gpu_t gpu, const char *field, uint *out);
ret_t get_pair(gpu_t gpu, const char *first, const char *second, uint *one, uint *two);

/* Two names in a format make a field; NULL stands for a number that NVML does not define. */
ret_t get_joined(gpu_t gpu, const char *format, const char *first, const char *second, u64 *out);

/* The name for a number of NVML's, or NULL. */
const char *pick(const char *const *names, size_t num_names, uint number);
#define PICK(names, number) pick(names, sizeof(names) / sizeof *(names), number)

/* A value of one NVLink. "nvlink3_state" is one link; "nvlink_state" stands for all that are not named. */
ret_t get_link(gpu_t gpu, uint link, const char *name, u64 *out);

#endif
