/* cuda_nvml.c - what this process takes of the device, asked of the driver's management library.
 *
 * cudaMemGetInfo() counts every process of the device, and NVML counts this one's context too. The
 * library comes with the driver, not with the toolkit, so it is found at run time. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "kernels/cuda/cuda_device.h"

/* Our own view of nvml.h, version 12. */
typedef struct NvmlDevice *NvmlHandle;
typedef struct NvmlProcess {
    unsigned int pid;
    unsigned long long bytes; /* all ones where the driver cannot tell */
    unsigned int gpu_instance, compute_instance;
} NvmlProcess;

enum { NVML_SUCCESS = 0, MOST_PROCESSES = 256 };

typedef struct Nvml {
    void *library;
    NvmlHandle device;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus_id)(const char *bus_id, NvmlHandle *out);
    int (*processes)(NvmlHandle device, unsigned int *count, NvmlProcess *out);
    int (*driver_version)(char *to, unsigned int size);
} Nvml;

/* ISO C has no conversion from an object pointer to a function pointer, so bytes are copied. */
static bool find(const Nvml *n, const char *name, void *function)
{
    void *symbol = dlsym(n->library, name);

    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(Nvml *n)
{
    return find(n, "nvmlInit_v2", &n->init) && find(n, "nvmlShutdown", &n->shutdown) &&
           find(n, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_bus_id) &&
           find(n, "nvmlDeviceGetComputeRunningProcesses_v3", &n->processes) &&
           find(n, "nvmlSystemGetDriverVersion", &n->driver_version);
}

static bool start(Nvml *n, const char *bus_id)
{
    if (!find_all(n) || n->init() != NVML_SUCCESS) return false;
    if (n->by_bus_id(bus_id, &n->device) == NVML_SUCCESS) return true;
    n->shutdown();
    return false;
}

void nvml_open(Device *d, const char *bus_id)
{
    Nvml *n = calloc(1, sizeof *n);

    if (n) n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (n && n->library && start(n, bus_id)) {
        d->nvml = n;
        return;
    }
    if (n && n->library) dlclose(n->library);
    free(n);
}

void nvml_close(Device *d)
{
    Nvml *n = d->nvml;

    if (!n) return;
    n->shutdown();
    dlclose(n->library);
    free(n);
    d->nvml = NULL;
}

/* In a container the driver may know this process by another number; a process that is alone on
 * the device is ours. */
size_t nvml_process_bytes(const Device *d)
{
    const Nvml *n = d->nvml;
    NvmlProcess list[MOST_PROCESSES];
    unsigned int count = MOST_PROCESSES;
    const NvmlProcess *ours = NULL;

    if (!n || n->processes(n->device, &count, list) != NVML_SUCCESS) return 0;
    for (unsigned int i = 0; i < count; i++)
        if (list[i].pid == (unsigned int)getpid()) ours = &list[i];
    if (!ours && count == 1) ours = &list[0];
    return ours && ours->bytes != ~0ull ? (size_t)ours->bytes : 0;
}

void nvml_driver_version(const Device *d, char *to, size_t size)
{
    const Nvml *n = d->nvml;

    if (!n || n->driver_version(to, (unsigned int)size) != NVML_SUCCESS) to[0] = 0;
}
