/* A stand-in for the CUDA driver's library, for tests: libcuda.so.1 without a driver, with the calls of a pre-flight.
 *
 * It shows the GPUs of the file named in NVML_STANDIN (see standin.py) by the rules of NVIDIA's CUDA programming
 * guide: CUDA_DEVICE_ORDER (fastest first unless PCI_BUS_ID), then CUDA_VISIBLE_DEVICES, in which an entry that
 * names nothing hides all after it. One MIG device is shown at most, and a GPU in MIG mode only by one of them.
 */
#include "hardware.h"

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, UNKNOWN = 999 };

static int shown[DEVICES], count, initialised;

static int by_bus(const void *a, const void *b) {
    const gpu_t *one = &state.gpu[*(const int *)a], *other = &state.gpu[*(const int *)b];
    return one->bus < other->bus ? -1 : one->bus > other->bus;
}

static int by_speed(const void *a, const void *b) {
    const gpu_t *one = &state.gpu[*(const int *)a], *other = &state.gpu[*(const int *)b];
    return one->speed == other->speed ? by_bus(a, b) : one->speed > other->speed ? -1 : 1;
}

/* List all GPUs that a process could see, in the order of CUDA's numbers. */
static int enumerate(int *order) {
    const char *how = getenv("CUDA_DEVICE_ORDER");
    int found = 0;
    for (int i = 0; i < state.gpus; i++)
        if (!state.gpu[i].error && !state.gpu[i].cuda_hidden && (!state.gpu[i].mig || state.gpu[i].mig_count)) order[found++] = i;
    qsort(order, (size_t)found, sizeof *order, how && !strcmp(how, "PCI_BUS_ID") ? by_bus : by_speed);
    return found;
}

/* Return the device shown for a GPU: in MIG mode its first MIG device. */
static int usable(int index) { return index < GPUS && state.gpu[index].mig ? mig_index(index, 0) : index; }

static int by_number(const char *entry, const int *order, int found) {
    char *end;
    long number = strtol(entry, &end, 10);
    return end == entry || number < 0 || number >= found ? -1 : usable(order[number]);
}

static int by_uuid(const char *entry, const int *order, int found) {
    int match = -1;
    size_t length = strlen(entry);
    for (int i = 0; i < found; i++) {
        int gpu = order[i];
        for (int j = -1; j < (state.gpu[gpu].mig ? state.gpu[gpu].mig_count : 0); j++) {
            int index = j < 0 ? gpu : mig_index(gpu, j);
            if (strncmp(state.gpu[index].uuid, entry, length)) continue;
            if (match >= 0) return -1; /* an ambiguous prefix */
            match = usable(index);
        }
    }
    return match;
}

static void choose(void) {
    int order[GPUS], found = enumerate(order);
    const char *value = getenv("CUDA_VISIBLE_DEVICES");
    char copy[4096], *rest = copy, *entry;
    count = 0;
    if (!value) {
        for (int i = 0; i < found; i++) shown[count++] = usable(order[i]);
    } else {
        snprintf(copy, sizeof copy, "%s", value);
        int uuids = !strncmp(copy, "GPU-", 4) || !strncmp(copy, "MIG-", 4);
        while ((entry = strsep(&rest, ","))) {
            int index = uuids ? by_uuid(entry, order, found) : by_number(entry, order, found);
            if (!*entry || index < 0) break;
            for (int i = 0; i < count; i++)
                if (shown[i] == index) { count = 0; return; } /* a duplicate hides all GPUs */
            shown[count++] = index;
        }
    }
    for (int i = 0; i < count; i++)
        if (shown[i] >= GPUS) { shown[0] = shown[i]; count = 1; } /* a MIG device is shown alone */
}

static int enter(void) {
    reload();
    sleep_ms(state.cuda_slow_ms);
    crash(state.cuda_crash);
    return initialised ? SUCCESS : NOT_INITIALIZED;
}

int cuInit(unsigned flags) {
    enter();
    if (flags) return INVALID_VALUE;
    puts("a driver library that prints");
    fflush(stdout);
    if (state.cuda_error) return state.cuda_error;
    choose();
    if (!count) return NO_DEVICE;
    initialised = 1;
    return SUCCESS;
}

int cuDeviceGetCount(int *number) {
    int code = enter();
    if (code) return code;
    *number = count;
    return state.cuda_count_error;
}

int cuDeviceGet(int *device, int ordinal) {
    int code = enter();
    if (code) return code;
    if (ordinal < 0 || ordinal >= count) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

static int write_uuid(unsigned char *uuid, int index) {
    const char *text = state.gpu[index].uuid + 4; /* skip GPU- or MIG- */
    for (int i = 0; i < 16; i++) {
        unsigned byte;
        while (*text == '-') text++;
        if (sscanf(text, "%2x", &byte) != 1) return UNKNOWN;
        uuid[i] = (unsigned char)byte;
        text += 2;
    }
    return SUCCESS;
}

int cuDeviceGetUuid(unsigned char *uuid, int device) {
    int code = enter();
    if (code) return code;
    if (device < 0 || device >= count) return INVALID_DEVICE;
    /* the UUID of the whole GPU */
    return write_uuid(uuid, shown[device] < GPUS ? shown[device] : (shown[device] - GPUS) / MIGS);
}

#ifndef OLD /* drivers before 11.4 have only the function above */
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    int code = enter();
    if (code) return code;
    return device < 0 || device >= count ? INVALID_DEVICE : write_uuid(uuid, shown[device]);
}
#endif

int cuGetErrorString(int code, const char **text) {
    *text = code == NO_DEVICE ? "no CUDA-capable device is detected" : code == UNKNOWN ? "unknown error" : NULL;
    return *text ? SUCCESS : INVALID_VALUE;
}
