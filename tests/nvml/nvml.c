/* A stand-in for the NVIDIA driver's library, for tests: libnvidia-ml.so.1 without a driver.
 *
 * It is driven by the file named in NVML_STANDIN, lines of key=value, read again whenever the file changes,
 * so that a test alters the hardware while the program runs (the keys: see standin.py). With NVML_STANDIN_CALLS
 * every call is appended to that file, as "function" or "function gpuN". With NVML_STANDIN_FROZEN the file is
 * read once, so that a benchmark measures its subject and not this library.
 *
 * A handle dies with the first error of its device (but for "not supported" and its like). Using it afterwards aborts the process, as it does with
 * the real driver on a bad day.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef int nvmlReturn_t;

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15 };
enum { GPUS = 64, LISTS = 3, PROCESSES = 32, ERRORS = 16, FILE_BYTES = 1 << 18 };

typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_t;
typedef struct { process_t entries[PROCESSES]; unsigned count; } list_t;
typedef struct { char what[32]; int code; } failure_t;
typedef struct {
    char name[96], uuid[96];
    u64 total, used, reserved, reasons, bus;
    unsigned utilisation, memory_utilisation, temperature, power_mw, power_limit_mw;
    int error, failures;
    failure_t failure[ERRORS];
    list_t lists[LISTS];
} gpu_t;
typedef struct {
    int gpus, init_error, crash, failures, cuda_version;
    long slow_ms;
    char driver_version[80];
    failure_t missing[ERRORS];
    gpu_t gpu[GPUS];
} state_t;

/* A handle is one of these addresses: of a device, and of its generation. Old generations stay mapped. */
enum { GENERATIONS = 256 };
static char handles[GPUS][GENERATIONS];
static int generation[GPUS];
static state_t state;
static int initialised;

/* ---- the file ---- */

static void defaults(state_t *s) {
    memset(s, 0, sizeof *s);
    strcpy(s->driver_version, "550.54.14");
    s->cuda_version = 12040;
    for (int i = 0; i < GPUS; i++) {
        gpu_t *g = &s->gpu[i];
        strcpy(g->name, "NVIDIA GeForce RTX 4090");
        snprintf(g->uuid, sizeof g->uuid, "GPU-%08x-0000-4000-8000-%012x", i, i);
        g->total = 24ull << 30;
        g->used = 0;
        g->reserved = 400ull << 20;
        g->bus = i + 1;
        g->temperature = 35;
        g->power_mw = 20000;
        g->power_limit_mw = 450000;
    }
}

static void read_list(list_t *list, const char *text) {
    list->count = 0;
    while (*text && list->count < PROCESSES) {
        char *end;
        process_t *p = &list->entries[list->count];
        p->pid = (unsigned)strtoul(text, &end, 10);
        if (end == text) return;
        p->used = *end == ':' ? strtoull(end + 1, &end, 10) : ~0ull;
        p->gpu_instance = p->compute_instance = ~0u;
        list->count++;
        text = *end == ',' ? end + 1 : end;
    }
}

static void add_failure(failure_t *failures, int *count, const char *what, int code) {
    if (*count >= ERRORS) return;
    snprintf(failures[*count].what, sizeof failures->what, "%s", what);
    failures[(*count)++].code = code;
}

static void add_failures(failure_t *failures, int *count, const char *list, int code) {
    char copy[512], *rest = copy, *what;
    snprintf(copy, sizeof copy, "%s", list);
    while ((what = strsep(&rest, ","))) if (*what) add_failure(failures, count, what, code);
}

static void set_gpu(gpu_t *g, const char *key, const char *value) {
    u64 number = strtoull(value, NULL, 0);
    if (!strcmp(key, "name")) snprintf(g->name, sizeof g->name, "%s", value);
    else if (!strcmp(key, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%s", value);
    else if (!strcmp(key, "bus")) g->bus = number;
    else if (!strcmp(key, "memory_total")) g->total = number;
    else if (!strcmp(key, "memory_used")) g->used = number;
    else if (!strcmp(key, "memory_reserved")) g->reserved = number;
    else if (!strcmp(key, "utilisation")) g->utilisation = (unsigned)number;
    else if (!strcmp(key, "memory_utilisation")) g->memory_utilisation = (unsigned)number;
    else if (!strcmp(key, "temperature")) g->temperature = (unsigned)number;
    else if (!strcmp(key, "power_mw")) g->power_mw = (unsigned)number;
    else if (!strcmp(key, "power_limit_mw")) g->power_limit_mw = (unsigned)number;
    else if (!strcmp(key, "clock_reasons")) g->reasons = number;
    else if (!strcmp(key, "compute")) read_list(&g->lists[0], value);
    else if (!strcmp(key, "graphics")) read_list(&g->lists[1], value);
    else if (!strcmp(key, "mps")) read_list(&g->lists[2], value);
    else if (!strcmp(key, "lost")) g->error = number ? GPU_IS_LOST : SUCCESS;
    else if (!strcmp(key, "error")) g->error = (int)number;
    else if (!strcmp(key, "unsupported")) add_failures(g->failure, &g->failures, value, NOT_SUPPORTED);
    else if (!strncmp(key, "error.", 6)) add_failure(g->failure, &g->failures, key + 6, (int)number);
}

static void set(state_t *s, const char *key, const char *value) {
    int index, length = 0;
    if (sscanf(key, "gpu%d.%n", &index, &length) == 1 && length) {
        if (index >= 0 && index < GPUS) set_gpu(&s->gpu[index], key + length, value);
    } else if (!strcmp(key, "gpus")) s->gpus = atoi(value) < GPUS ? atoi(value) : GPUS;
    else if (!strcmp(key, "init_error")) s->init_error = atoi(value);
    else if (!strcmp(key, "driver_version")) snprintf(s->driver_version, sizeof s->driver_version, "%s", value);
    else if (!strcmp(key, "cuda_version")) s->cuda_version = atoi(value);
    else if (!strcmp(key, "slow_ms")) s->slow_ms = atol(value);
    else if (!strcmp(key, "crash")) s->crash = !strcmp(value, "abort") ? SIGABRT : SIGSEGV;
    else if (!strcmp(key, "missing")) add_failures(s->missing, &s->failures, value, FUNCTION_NOT_FOUND);
}

static void load(const char *path) {
    static char text[FILE_BYTES];
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    char *rest = text, *line, *value;
    if (file) fclose(file);
    text[size] = 0;
    defaults(&state);
    while ((line = strsep(&rest, "\n"))) {
        if (*line == '#' || !(value = strchr(line, '='))) continue;
        *value++ = 0;
        set(&state, line, value);
    }
}

static void reload(void) {
    static struct stat seen;
    static int loaded, frozen = -1;
    struct stat now;
    const char *path = getenv("NVML_STANDIN");
    if (frozen < 0) frozen = getenv("NVML_STANDIN_FROZEN") != NULL;
    if (loaded && frozen) return;
    if (!path || stat(path, &now)) {
        if (!loaded) defaults(&state);
    } else if (!loaded || now.st_ino != seen.st_ino || now.st_size != seen.st_size
               || now.st_mtim.tv_sec != seen.st_mtim.tv_sec || now.st_mtim.tv_nsec != seen.st_mtim.tv_nsec) {
        load(path);
        seen = now;
    }
    loaded = 1;
}

/* ---- what every call goes through ---- */

static void count_call(const char *function, int index) {
    static int fd = -2;
    char line[96];
    if (fd == -2) {
        const char *path = getenv("NVML_STANDIN_CALLS");
        fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    }
    if (fd < 0) return;
    int length = index < 0 ? snprintf(line, sizeof line, "%s\n", function)
                           : snprintf(line, sizeof line, "%s gpu%d\n", function, index);
    if (write(fd, line, (size_t)length) != length) abort();
}

static nvmlReturn_t enter(const char *function) {
    reload();
    if (state.slow_ms) {
        struct timespec pause = {state.slow_ms / 1000, state.slow_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    if (state.crash) {
        signal(state.crash, SIG_DFL);
        raise(state.crash);
    }
    for (int i = 0; i < state.failures; i++)
        if (!strcmp(state.missing[i].what, function)) return state.missing[i].code;
    return SUCCESS;
}

static nvmlReturn_t general(const char *function) {
    nvmlReturn_t code = enter(function);
    count_call(function, -1);
    if (code) return code;
    return initialised ? SUCCESS : UNINITIALIZED;
}

static void *handle_of(int index) { return &handles[index][generation[index]]; }

static nvmlReturn_t fail(int index, nvmlReturn_t code) {
    generation[index] = (generation[index] + 1) % GENERATIONS;
    return code;
}

/* An error that says what there is, rather than that something broke. */
static int is_answer(nvmlReturn_t code) {
    return code == NOT_SUPPORTED || code == NO_PERMISSION || code == NOT_FOUND;
}

/* The device of a handle, for a call that `what` names in the file. */
static nvmlReturn_t device(const char *function, const char *what, void *handle, gpu_t **gpu) {
    nvmlReturn_t code = enter(function);
    long offset = (char *)handle - &handles[0][0];
    int index = (int)(offset / GENERATIONS);
    if (offset < 0 || offset >= GPUS * GENERATIONS) return INVALID_ARGUMENT;
    count_call(function, index);
    if (code) return code;
    if (!initialised) return UNINITIALIZED;
    if (handle != handle_of(index)) abort(); /* a stale handle */
    *gpu = &state.gpu[index];
    if (index >= state.gpus) return fail(index, GPU_IS_LOST);
    if ((*gpu)->error) return fail(index, (*gpu)->error);
    for (int i = 0; i < (*gpu)->failures; i++) {
        failure_t *failure = &(*gpu)->failure[i];
        if (strcmp(failure->what, what)) continue;
        return is_answer(failure->code) ? failure->code : fail(index, failure->code);
    }
    return SUCCESS;
}

#define DEVICE(function, what) \
    gpu_t *g; \
    nvmlReturn_t code = device(function, what, handle, &g); \
    if (code) return code

/* ---- the library ---- */

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    nvmlReturn_t code = enter("nvmlInitWithFlags");
    count_call("nvmlInitWithFlags", -1);
    if (code) return code;
    if (state.init_error) return state.init_error;
    initialised++;
    return SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    nvmlReturn_t code = general("nvmlShutdown");
    if (!code) initialised--;
    return code;
}

const char *nvmlErrorString(nvmlReturn_t code) {
    switch (code) {
    case 0: return "The operation was successful";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 7: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 12: return "NVML Shared Library Not Found";
    case 13: return "Function Not Found";
    case 15: return "GPU is lost";
    case 16: return "GPU requires reset";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    nvmlReturn_t code = general("nvmlSystemGetDriverVersion");
    if (!code) snprintf(version, length, "%s", state.driver_version);
    return code;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    nvmlReturn_t code = general("nvmlSystemGetCudaDriverVersion_v2");
    *version = state.cuda_version;
    return code;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    nvmlReturn_t code = general("nvmlDeviceGetCount_v2");
    *count = (unsigned)state.gpus;
    return code;
}

static nvmlReturn_t hand_out(int index, void **handle) {
    if (state.gpu[index].error) return fail(index, state.gpu[index].error);
    *handle = handle_of(index);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    nvmlReturn_t code = general("nvmlDeviceGetHandleByIndex_v2");
    if (code) return code;
    return index < (unsigned)state.gpus ? hand_out((int)index, handle) : INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    nvmlReturn_t code = general("nvmlDeviceGetHandleByUUID");
    if (code) return code;
    for (int i = 0; i < state.gpus; i++)
        if (!strcmp(state.gpu[i].uuid, uuid)) return hand_out(i, handle);
    return NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(void *handle, unsigned *index) {
    DEVICE("nvmlDeviceGetIndex", "index");
    *index = (unsigned)(g - state.gpu);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    DEVICE("nvmlDeviceGetName", "name");
    snprintf(name, length, "%s", g->name);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
    DEVICE("nvmlDeviceGetUUID", "uuid");
    snprintf(uuid, length, "%s", g->uuid);
    return SUCCESS;
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
} pci_t;

nvmlReturn_t nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci) {
    DEVICE("nvmlDeviceGetPciInfo_v3", "pci");
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)g->bus;
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", pci->bus & 0xff);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus & 0xff);
    return SUCCESS;
}

typedef struct { u64 total, free, used; } memory_t;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2_t;

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2_t *memory) {
    DEVICE("nvmlDeviceGetMemoryInfo_v2", "memory");
    memory->total = g->total;
    memory->reserved = g->reserved;
    memory->used = g->used;
    memory->free = g->total - g->reserved - g->used;
    return SUCCESS;
}

/* The old call, which takes the driver's reserve for used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    DEVICE("nvmlDeviceGetMemoryInfo", "memory");
    memory->total = g->total;
    memory->used = g->used + g->reserved;
    memory->free = g->total - memory->used;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
    DEVICE("nvmlDeviceGetUtilizationRates", "utilisation");
    rates[0] = g->utilisation;
    rates[1] = g->memory_utilisation;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *celsius) {
    DEVICE("nvmlDeviceGetTemperature", "temperature");
    (void)sensor;
    *celsius = g->temperature;
    return SUCCESS;
}

typedef struct { unsigned version, sensor; int celsius; } temperature_t;

nvmlReturn_t nvmlDeviceGetTemperatureV(void *handle, temperature_t *temperature) {
    DEVICE("nvmlDeviceGetTemperatureV", "temperature");
    temperature->celsius = (int)g->temperature;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    DEVICE("nvmlDeviceGetPowerUsage", "power");
    *milliwatts = g->power_mw;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *milliwatts) {
    DEVICE("nvmlDeviceGetEnforcedPowerLimit", "power_limit");
    *milliwatts = g->power_limit_mw;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(void *handle, u64 *reasons) {
    DEVICE("nvmlDeviceGetCurrentClocksEventReasons", "clock_reasons");
    *reasons = g->reasons;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, u64 *reasons) {
    DEVICE("nvmlDeviceGetCurrentClocksThrottleReasons", "clock_reasons");
    *reasons = g->reasons;
    return SUCCESS;
}

static nvmlReturn_t list_processes(const list_t *list, unsigned *count, process_t *entries) {
    unsigned room = *count;
    *count = list->count;
    if (list->count > room || (list->count && !entries)) return INSUFFICIENT_SIZE;
    if (list->count) memcpy(entries, list->entries, list->count * sizeof *entries);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process_t *entries) {
    DEVICE("nvmlDeviceGetComputeRunningProcesses_v3", "compute");
    return list_processes(&g->lists[0], count, entries);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, process_t *entries) {
    DEVICE("nvmlDeviceGetGraphicsRunningProcesses_v3", "graphics");
    return list_processes(&g->lists[1], count, entries);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(void *handle, unsigned *count, process_t *entries) {
    DEVICE("nvmlDeviceGetMPSComputeRunningProcesses_v3", "mps");
    return list_processes(&g->lists[2], count, entries);
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(void *handle, void *samples, unsigned *count, u64 since) {
    DEVICE("nvmlDeviceGetProcessUtilization", "process_utilisation");
    (void)samples, (void)since;
    *count = 0;
    return NOT_FOUND; /* as the real one says when nothing runs */
}

nvmlReturn_t nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    DEVICE("nvmlDeviceGetMigMode", "mig");
    *current = *pending = 0;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(void *handle, unsigned *is_mig) {
    DEVICE("nvmlDeviceIsMigDeviceHandle", "mig_handle");
    *is_mig = 0;
    return SUCCESS;
}
