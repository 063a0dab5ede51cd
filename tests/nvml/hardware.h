/* The hardware that both stand-ins show. It is read from the file named in NVML_STANDIN, again after each change. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

typedef unsigned long long u64;

enum { NOT_SUPPORTED = 3, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15, DEPRECATED = 26 };
enum { GPUS = 64, MIGS = 4, DEVICES = GPUS + GPUS * MIGS };
enum { LISTS = 4, PROCESSES = 32, ERRORS = 48, SLOW = 8, XIDS = 16, FILE_BYTES = 1 << 18 };

typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_t;
typedef struct { process_t entries[PROCESSES]; unsigned count; } list_t;
typedef struct { char what[64]; int code; } failure_t; /* an error code, or milliseconds of delay */
typedef struct {
    char name[96], uuid[96];
    u64 total, used, reserved, reasons, bus;
    unsigned utilisation, memory_utilisation, temperature, power_mw, power_limit_mw, sm_clock_mhz, minor, capability;
    u64 ecc_volatile, ecc_aggregate, energy_mj, xid[XIDS];
    unsigned recovery, remapped_pending, remapped_failure, retired_pending, unrepairable, compute_mode, persistence;
    unsigned virtualisation, gsp, fabric, fabric_status, pcie_generation, pcie_width, pcie_max_generation, pcie_max_width;
    unsigned pcie_rx, pcie_tx, pcie_replays, p2p[GPUS], topology[GPUS]; /* the last two by the index of the other GPU */
    int energy_counts, error, failures, speed, cuda_hidden, mig, mig_count, numa, xids;
    failure_t failure[ERRORS];
    list_t lists[LISTS];
} gpu_t;
typedef struct {
    int gpus, init_error, crash, failures, slows, cuda_version;
    int cuda_error, cuda_crash, cuda_count_error;
    long slow_ms, cuda_slow_ms;
    char driver_version[80];
    failure_t failing[ERRORS], slow[SLOW];
    gpu_t gpu[DEVICES]; /* all GPUs, then the MIG devices of GPU 0, of GPU 1, ... */
} state_t;

static state_t state;

static int mig_index(int gpu, int number) { return GPUS + gpu * MIGS + number; }

static void defaults(state_t *s) {
    memset(s, 0, sizeof *s);
    strcpy(s->driver_version, "550.54.14");
    s->cuda_version = 12040;
    for (int i = 0; i < DEVICES; i++) {
        gpu_t *g = &s->gpu[i];
        int gpu = i < GPUS ? i : (i - GPUS) / MIGS;
        if (i < GPUS) {
            strcpy(g->name, "NVIDIA GeForce RTX 4090");
            snprintf(g->uuid, sizeof g->uuid, "GPU-%08x-0000-4000-8000-%012x", i, i);
        } else {
            strcpy(g->name, "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
            snprintf(g->uuid, sizeof g->uuid, "MIG-%08x-0000-4000-9000-%012x", gpu, (i - GPUS) % MIGS);
        }
        g->total = i < GPUS ? 24ull << 30 : 5ull << 30;
        g->used = 0;
        g->reserved = i < GPUS ? 400ull << 20 : 0;
        g->bus = gpu + 1;
        g->minor = gpu;
        g->capability = 89;
        g->numa = -1;
        g->temperature = 35;
        g->power_mw = 20000;
        g->power_limit_mw = 450000;
        g->sm_clock_mhz = 210;
        g->gsp = 1;
        g->pcie_generation = 1; /* as at idle */
        g->pcie_max_generation = 4;
        g->pcie_width = g->pcie_max_width = 16;
        for (int other = 0; other < GPUS; other++) g->topology[other] = 30; /* NVML_TOPOLOGY_HOSTBRIDGE */
    }
}

static void read_xids(gpu_t *g, const char *text) {
    char *end;
    for (g->xids = 0; *text && g->xids < XIDS; text = *end == ',' ? end + 1 : end) {
        g->xid[g->xids] = strtoull(text, &end, 10);
        if (end == text) return;
        g->xids++;
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

static void add_failure(failure_t *failures, int *count, int room, const char *what, int code) {
    if (*count >= room) return;
    snprintf(failures[*count].what, sizeof failures->what, "%s", what);
    failures[(*count)++].code = code;
}

static void add_failures(failure_t *failures, int *count, const char *list, int code) {
    char copy[4096], *rest = copy, *what;
    snprintf(copy, sizeof copy, "%s", list);
    while ((what = strsep(&rest, ","))) if (*what) add_failure(failures, count, ERRORS, what, code);
}

#define NUMBER(name) {#name, offsetof(gpu_t, name)}
static const struct { const char *key; size_t at; } NUMBERS[] = {
    NUMBER(minor), NUMBER(utilisation), NUMBER(memory_utilisation), NUMBER(temperature), NUMBER(power_mw),
    NUMBER(power_limit_mw), NUMBER(sm_clock_mhz), NUMBER(recovery), NUMBER(remapped_pending),
    NUMBER(remapped_failure), NUMBER(retired_pending), NUMBER(unrepairable), NUMBER(compute_mode),
    NUMBER(persistence), NUMBER(virtualisation), NUMBER(gsp), NUMBER(fabric), NUMBER(fabric_status),
    NUMBER(pcie_generation), NUMBER(pcie_width), NUMBER(pcie_max_generation), NUMBER(pcie_max_width),
    NUMBER(pcie_replays), NUMBER(pcie_rx), NUMBER(pcie_tx),
};

static void set_gpu(gpu_t *g, const char *key, const char *value) {
    u64 number = strtoull(value, NULL, 0);
    for (unsigned i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        if (!strcmp(key, NUMBERS[i].key)) *(unsigned *)((char *)g + NUMBERS[i].at) = (unsigned)number;
    if (!strcmp(key, "name")) snprintf(g->name, sizeof g->name, "%s", value);
    else if (!strcmp(key, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%s", value);
    else if (!strcmp(key, "bus")) g->bus = number;
    else if (!strcmp(key, "compute_capability")) g->capability = (unsigned)number;
    else if (!strcmp(key, "speed")) g->speed = (int)number;
    else if (!strcmp(key, "cuda_hidden")) g->cuda_hidden = (int)number;
    else if (!strcmp(key, "numa")) g->numa = (int)number;
    else if (!strcmp(key, "mig")) g->mig = (int)number;
    else if (!strcmp(key, "mig_count")) g->mig_count = number < MIGS ? (int)number : MIGS;
    else if (!strcmp(key, "memory_total")) g->total = number;
    else if (!strcmp(key, "memory_used")) g->used = number;
    else if (!strcmp(key, "memory_reserved")) g->reserved = number;
    else if (!strcmp(key, "clock_reasons")) g->reasons = number;
    else if (!strcmp(key, "ecc_volatile")) g->ecc_volatile = number;
    else if (!strcmp(key, "ecc_aggregate")) g->ecc_aggregate = number;
    else if (!strcmp(key, "xids")) read_xids(g, value);
    else if (!strcmp(key, "energy_mj")) g->energy_mj = number;
    else if (!strcmp(key, "energy_counts")) g->energy_counts = (int)number;
    else if (!strncmp(key, "p2p.", 4)) g->p2p[atoi(key + 4) % GPUS] = (unsigned)number;
    else if (!strncmp(key, "topology.", 9)) g->topology[atoi(key + 9) % GPUS] = (unsigned)number;
    else if (!strcmp(key, "compute")) read_list(&g->lists[0], value);
    else if (!strcmp(key, "graphics")) read_list(&g->lists[1], value);
    else if (!strcmp(key, "mps")) read_list(&g->lists[2], value);
    else if (!strcmp(key, "shares")) read_list(&g->lists[3], value);
    else if (!strcmp(key, "lost")) g->error = number ? GPU_IS_LOST : 0;
    else if (!strcmp(key, "error")) g->error = (int)number;
    else if (!strcmp(key, "unsupported")) add_failures(g->failure, &g->failures, value, NOT_SUPPORTED);
    else if (!strncmp(key, "error.", 6)) add_failure(g->failure, &g->failures, ERRORS, key + 6, (int)number);
}

static void set(state_t *s, const char *key, const char *value) {
    int gpu, mig, length = 0;
    if (!strncmp(key, "gpu*.", 5)) {
        for (gpu = 0; gpu < GPUS; gpu++) set_gpu(&s->gpu[gpu], key + 5, value);
    } else if (sscanf(key, "gpu%d.mig%d.%n", &gpu, &mig, &length) == 2 && length) {
        if (gpu >= 0 && gpu < GPUS && mig >= 0 && mig < MIGS)
            set_gpu(&s->gpu[mig_index(gpu, mig)], key + length, value);
    } else if (sscanf(key, "gpu%d.%n", &gpu, &length) == 1 && length) {
        if (gpu >= 0 && gpu < GPUS) set_gpu(&s->gpu[gpu], key + length, value);
    } else if (!strcmp(key, "gpus")) s->gpus = atoi(value) < GPUS ? atoi(value) : GPUS;
    else if (!strcmp(key, "init_error")) s->init_error = atoi(value);
    else if (!strcmp(key, "driver_version")) snprintf(s->driver_version, sizeof s->driver_version, "%s", value);
    else if (!strcmp(key, "cuda_version")) s->cuda_version = atoi(value);
    else if (!strcmp(key, "slow_ms")) s->slow_ms = atol(value);
    else if (!strncmp(key, "slow_ms.", 8)) add_failure(s->slow, &s->slows, SLOW, key + 8, atoi(value));
    else if (!strcmp(key, "crash")) s->crash = !strcmp(value, "abort") ? SIGABRT : SIGSEGV;
    else if (!strcmp(key, "missing")) add_failures(s->failing, &s->failures, value, FUNCTION_NOT_FOUND);
    else if (!strcmp(key, "unsupported")) add_failures(s->failing, &s->failures, value, NOT_SUPPORTED);
    else if (!strcmp(key, "deprecated")) add_failures(s->failing, &s->failures, value, DEPRECATED);
    else if (!strcmp(key, "cuda_error")) s->cuda_error = atoi(value);
    else if (!strcmp(key, "cuda_count_error")) s->cuda_count_error = atoi(value);
    else if (!strcmp(key, "cuda_slow_ms")) s->cuda_slow_ms = atol(value);
    else if (!strcmp(key, "cuda_crash")) s->cuda_crash = !strcmp(value, "abort") ? SIGABRT : SIGSEGV;
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
    static struct stat last;
    static int loaded, frozen = -1;
    struct stat now;
    const char *path = getenv("NVML_STANDIN");
    if (frozen < 0) frozen = getenv("NVML_STANDIN_FROZEN") != NULL;
    if (loaded && frozen) return;
    if (!path || stat(path, &now)) {
        if (!loaded) defaults(&state);
    } else if (!loaded || now.st_ino != last.st_ino || now.st_size != last.st_size
               || now.st_mtim.tv_sec != last.st_mtim.tv_sec || now.st_mtim.tv_nsec != last.st_mtim.tv_nsec) {
        load(path);
        last = now;
    }
    loaded = 1;
}

static void sleep_ms(long ms) {
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    if (ms) nanosleep(&pause, NULL);
}

static void crash(int number) {
    if (!number) return;
    signal(number, SIG_DFL);
    raise(number);
}
