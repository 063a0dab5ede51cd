/* A stand-in for the NVIDIA driver's library, for tests: libnvidia-ml.so.1 without a driver.
 *
 * NVML_STANDIN names the settings file, with lines of key=value (standin.py lists the keys). The file is read again
 * after each change, so a test can change the hardware while the program runs. With NVML_STANDIN_CALLS every call is
 * appended to that file, as "function" or "function gpuN". With NVML_STANDIN_FROZEN the settings are read only once,
 * so that a benchmark does not measure this library.
 *
 * The first error of a device makes its handle stale, except errors such as "not supported". Using a stale handle
 * aborts the process, as the real driver sometimes does.
 */
#include <fcntl.h>
#include <unistd.h>

#include "hardware.h"

typedef int nvmlReturn_t;

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { TIMEOUT = 10 };

/* A handle is the address of a device's current generation. Old generations stay mapped. */
enum { GENERATIONS = 256 };
static char handles[DEVICES][GENERATIONS];
static int generation[DEVICES];
static int initialised;

/* ---- common to all calls ---- */

static void count_call(const char *function, int index) {
    static int fd = -2;
    char line[96];
    if (fd == -2) {
        const char *path = getenv("NVML_STANDIN_CALLS");
        fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    }
    if (fd < 0) return;
    int length = index < 0       ? snprintf(line, sizeof line, "%s\n", function)
                 : index < GPUS ? snprintf(line, sizeof line, "%s gpu%d\n", function, index)
                                : snprintf(line, sizeof line, "%s gpu%d.mig%d\n", function, (index - GPUS) / MIGS,
                                           (index - GPUS) % MIGS);
    if (write(fd, line, (size_t)length) != length) abort();
}

static nvmlReturn_t enter(const char *function) {
    reload();
    sleep_ms(state.slow_ms);
    for (int i = 0; i < state.slows; i++)
        if (!strcmp(state.slow[i].what, function)) sleep_ms(state.slow[i].code);
    crash(state.crash);
    for (int i = 0; i < state.failures; i++)
        if (!strcmp(state.failing[i].what, function)) return state.failing[i].code;
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

/* Errors that are valid answers; all others make the handle stale. */
static int is_answer(nvmlReturn_t code) {
    return code == NOT_SUPPORTED || code == NO_PERMISSION || code == NOT_FOUND;
}

static int parent(int index) { return index < GPUS ? index : (index - GPUS) / MIGS; }

/* A MIG device exists while its GPU is in MIG mode and has that many MIG devices. */
static int is_there(int index) {
    gpu_t *g = &state.gpu[parent(index)];
    return parent(index) < state.gpus && (index < GPUS || (g->mig && (index - GPUS) % MIGS < g->mig_count));
}

/* Calls that NVML supports for a MIG device; all others are for whole GPUs only. */
static int is_for_mig(const char *what) {
    static const char *known[] = {"name", "uuid", "pci", "memory", "compute", "graphics", "mps", "mig_handle", "index"};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++) if (!strcmp(known[i], what)) return 1;
    return 0;
}

/* Find the device of a handle. `what` is the call's name in the settings file. */
static nvmlReturn_t device(const char *function, const char *what, void *handle, gpu_t **gpu) {
    nvmlReturn_t code = enter(function);
    long offset = (char *)handle - &handles[0][0];
    int index = (int)(offset / GENERATIONS);
    if (offset < 0 || offset >= DEVICES * GENERATIONS) return INVALID_ARGUMENT;
    count_call(function, index);
    if (code) return code;
    if (!initialised) return UNINITIALIZED;
    if (handle != handle_of(index)) abort(); /* a stale handle */
    *gpu = &state.gpu[index];
    if (!is_there(index)) return fail(index, index < GPUS ? GPU_IS_LOST : INVALID_ARGUMENT);
    if ((*gpu)->error) return fail(index, (*gpu)->error);
    if (state.gpu[parent(index)].error) return fail(index, state.gpu[parent(index)].error);
    if (index >= GPUS && !is_for_mig(what)) return INVALID_ARGUMENT;
    for (int i = 0; i < (*gpu)->failures; i++) {
        failure_t *failure = &(*gpu)->failure[i];
        if (strcmp(failure->what, what) && strcmp(failure->what, function)) continue;
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
    case 26: return "Deprecated";
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
    int error = state.gpu[index].error ? state.gpu[index].error : state.gpu[parent(index)].error;
    if (error) return fail(index, error);
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
    for (int i = 0; i < DEVICES; i++)
        if (is_there(i) && !strcmp(state.gpu[i].uuid, uuid)) return hand_out(i, handle);
    return NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **handle) {
    nvmlReturn_t code = general("nvmlDeviceGetHandleByPciBusId_v2");
    unsigned domain, bus, device;
    if (code) return code;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3) return INVALID_ARGUMENT;
    for (int i = 0; i < state.gpus; i++)
        if (state.gpu[i].bus == bus) return hand_out(i, handle);
    return NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(void *handle, unsigned *index) {
    DEVICE("nvmlDeviceGetIndex", "index");
    int own = (int)(g - state.gpu);
    *index = (unsigned)(own < GPUS ? own : (own - GPUS) % MIGS);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(void *handle, unsigned *minor) {
    DEVICE("nvmlDeviceGetMinorNumber", "minor");
    *minor = g->minor;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    DEVICE("nvmlDeviceGetCudaComputeCapability", "compute_capability");
    *major = (int)g->capability / 10;
    *minor = (int)g->capability % 10;
    return SUCCESS;
}

/* Supported only if the GPU is a NUMA node, whose memory the system allocates. */
nvmlReturn_t nvmlDeviceGetNumaNodeId(void *handle, int *node) {
    DEVICE("nvmlDeviceGetNumaNodeId", "numa");
    *node = g->numa;
    return g->numa < 0 ? NOT_SUPPORTED : SUCCESS;
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

/* The old call counts the driver's reserved memory as used. */
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

nvmlReturn_t nvmlDeviceGetClockInfo(void *handle, unsigned kind, unsigned *megahertz) {
    DEVICE("nvmlDeviceGetClockInfo", "clock");
    if (kind != 1 /* NVML_CLOCK_SM */) return INVALID_ARGUMENT;
    *megahertz = g->sm_clock_mhz;
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

typedef struct { unsigned pid; u64 time; unsigned sm, memory, encoder, decoder; } share_t;

nvmlReturn_t nvmlDeviceGetProcessUtilization(void *handle, share_t *samples, unsigned *count, u64 since) {
    DEVICE("nvmlDeviceGetProcessUtilization", "process_utilisation");
    const list_t *list = &g->lists[3];
    unsigned room = *count;
    *count = list->count;
    if (!list->count) return NOT_FOUND; /* the real library's answer when nothing runs */
    if (list->count > room || !samples) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < list->count; i++)
        samples[i] = (share_t){list->entries[i].pid, since + 1, (unsigned)list->entries[i].used, 0, 0, 0};
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    DEVICE("nvmlDeviceGetMigMode", "mig");
    *current = *pending = (unsigned)g->mig;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    DEVICE("nvmlDeviceGetMaxMigDeviceCount", "mig_count");
    *count = MIGS;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned number, void **mig) {
    DEVICE("nvmlDeviceGetMigDeviceHandleByIndex", "mig_devices");
    int gpu = (int)(g - state.gpu);
    if (number >= MIGS) return INVALID_ARGUMENT;
    return is_there(mig_index(gpu, (int)number)) ? hand_out(mig_index(gpu, (int)number), mig) : NOT_FOUND;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(void *handle, unsigned *is_mig) {
    DEVICE("nvmlDeviceIsMigDeviceHandle", "mig_handle");
    *is_mig = g - state.gpu >= GPUS;
    return SUCCESS;
}

/* ---- health ---- */

enum { RECOVERY_ACTION = 230, VALUE_UNSIGNED = 1 };
typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type;
    nvmlReturn_t code;
    union { unsigned number; u64 large; } value;
} field_value_t;

/* The call succeeds; whether a field does is in its own code. */
nvmlReturn_t nvmlDeviceGetFieldValues(void *handle, int count, field_value_t *values) {
    DEVICE("nvmlDeviceGetFieldValues", "fields");
    for (int i = 0; i < count; i++) {
        values[i].code = values[i].field == RECOVERY_ACTION ? SUCCESS : NOT_SUPPORTED;
        for (int each = 0; each < g->failures; each++)
            if (!strcmp(g->failure[each].what, "recovery")) values[i].code = g->failure[each].code;
        values[i].type = VALUE_UNSIGNED;
        values[i].value.large = 0;
        values[i].value.number = g->recovery;
    }
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(
    void *handle, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failure) {
    DEVICE("nvmlDeviceGetRemappedRows", "remapped");
    *correctable = 0;
    *uncorrectable = g->remapped_pending;
    *pending = g->remapped_pending;
    *failure = g->remapped_failure;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(void *handle, unsigned *pending) {
    DEVICE("nvmlDeviceGetRetiredPagesPendingStatus", "retired");
    *pending = g->retired_pending;
    return SUCCESS;
}

/* Of corrected errors there are none. */
nvmlReturn_t nvmlDeviceGetTotalEccErrors(void *handle, unsigned type, unsigned counter, u64 *count) {
    DEVICE("nvmlDeviceGetTotalEccErrors", "ecc");
    *count = !type ? 0 : counter ? g->ecc_aggregate : g->ecc_volatile;
    return SUCCESS;
}

/* A structure of one number, as in nvml.h of CUDA 13. */
nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(void *handle, unsigned *flag) {
    DEVICE("nvmlDeviceGetUnrepairableMemoryFlag_v1", "unrepairable");
    *flag = g->unrepairable;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(void *handle, unsigned *mode) {
    DEVICE("nvmlDeviceGetComputeMode", "compute_mode");
    *mode = g->compute_mode;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(void *handle, unsigned *mode) {
    DEVICE("nvmlDeviceGetPersistenceMode", "persistence");
    *mode = g->persistence;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(void *handle, unsigned *mode) {
    DEVICE("nvmlDeviceGetVirtualizationMode", "virtualisation");
    *mode = g->virtualisation;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGspFirmwareMode(void *handle, unsigned *enabled, unsigned *usual) {
    DEVICE("nvmlDeviceGetGspFirmwareMode", "gsp");
    *enabled = g->gsp;
    *usual = 1;
    return SUCCESS;
}

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    nvmlReturn_t status;
    unsigned clique, state, health;
} fabric_t;

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(void *handle, fabric_t *fabric) {
    DEVICE("nvmlDeviceGetGpuFabricInfoV", "fabric");
    fabric->status = (nvmlReturn_t)g->fabric_status;
    fabric->state = g->fabric;
    return SUCCESS;
}

/* ---- events: those that happen after a set is registered for a GPU, each once ---- */

enum { SETS = 16, XID_EVENT = 8 };
typedef struct { int used, registered[GPUS], delivered[GPUS]; } event_set_t;
typedef struct { void *device; u64 type, data; unsigned gpu_instance, compute_instance; } event_t;
static event_set_t sets[SETS];

nvmlReturn_t nvmlEventSetCreate(event_set_t **set) {
    nvmlReturn_t code = general("nvmlEventSetCreate");
    if (code) return code;
    for (int i = 0; i < SETS; i++) {
        if (sets[i].used) continue;
        memset(&sets[i], 0, sizeof sets[i]);
        sets[i].used = 1;
        *set = &sets[i];
        return SUCCESS;
    }
    return INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlEventSetFree(event_set_t *set) {
    nvmlReturn_t code = general("nvmlEventSetFree");
    if (!code) set->used = 0;
    return code;
}

nvmlReturn_t nvmlDeviceRegisterEvents(void *handle, u64 types, event_set_t *set) {
    DEVICE("nvmlDeviceRegisterEvents", "events");
    int index = (int)(g - state.gpu);
    if (types != XID_EVENT || !set->used) return INVALID_ARGUMENT;
    set->registered[index] = 1;
    set->delivered[index] = g->xids;
    return SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(event_set_t *set, event_t *event, unsigned timeout_ms) {
    nvmlReturn_t code = general("nvmlEventSetWait_v2");
    if (code) return code;
    if (!set->used) return INVALID_ARGUMENT;
    for (unsigned waited = 0;; waited += 10) {
        for (int i = 0; i < state.gpus; i++) {
            gpu_t *g = &state.gpu[i];
            if (!set->registered[i]) continue;
            if (set->delivered[i] < g->xids) {
                *event = (event_t){handle_of(i), XID_EVENT, g->xid[set->delivered[i]++], ~0u, ~0u};
                return SUCCESS;
            }
            if (g->error) return g->error;
        }
        if (waited >= timeout_ms) return TIMEOUT;
        sleep_ms(10);
        reload();
    }
}

/* ---- links and energy ---- */

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(void *handle, unsigned *generation) {
    DEVICE("nvmlDeviceGetCurrPcieLinkGeneration", "pcie");
    *generation = g->pcie_generation;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(void *handle, unsigned *generation) {
    DEVICE("nvmlDeviceGetMaxPcieLinkGeneration", "pcie");
    *generation = g->pcie_max_generation;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(void *handle, unsigned *width) {
    DEVICE("nvmlDeviceGetCurrPcieLinkWidth", "pcie");
    *width = g->pcie_width;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(void *handle, unsigned *width) {
    DEVICE("nvmlDeviceGetMaxPcieLinkWidth", "pcie");
    *width = g->pcie_max_width;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(void *handle, unsigned *count) {
    DEVICE("nvmlDeviceGetPcieReplayCounter", "pcie_replays");
    *count = g->pcie_replays;
    return SUCCESS;
}

/* The real library counts for 20 ms: see slow_ms.nvmlDeviceGetPcieThroughput. */
nvmlReturn_t nvmlDeviceGetPcieThroughput(void *handle, unsigned counter, unsigned *kilobytes_per_s) {
    DEVICE("nvmlDeviceGetPcieThroughput", "pcie_traffic");
    *kilobytes_per_s = counter ? g->pcie_rx : g->pcie_tx;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(void *handle, u64 *millijoules) {
    DEVICE("nvmlDeviceGetTotalEnergyConsumption", "energy");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    *millijoules = g->energy_mj + (u64)(g->energy_counts ? seconds * g->power_mw : 0);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(void *handle, void *other, unsigned capability, unsigned *status) {
    DEVICE("nvmlDeviceGetP2PStatus", "p2p");
    gpu_t *peer;
    (void)capability;
    code = device("nvmlDeviceGetP2PStatus", "p2p", other, &peer);
    if (!code) *status = g->p2p[peer - state.gpu];
    return code;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(void *handle, void *other, unsigned *level) {
    DEVICE("nvmlDeviceGetTopologyCommonAncestor", "topology");
    gpu_t *peer;
    code = device("nvmlDeviceGetTopologyCommonAncestor", "topology", other, &peer);
    if (!code) *level = g == peer ? 0 : g->topology[peer - state.gpu];
    return code;
}
