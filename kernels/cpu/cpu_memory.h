/* cpu_memory.h - arenas of the CPU device. */
#ifndef TIDE_CPU_MEMORY_H
#define TIDE_CPU_MEMORY_H
#include <stddef.h>

enum { CPU_ALIGNMENT = 256 };

/* A block that begins at a multiple of CPU_ALIGNMENT and, if bytes is one too, ends at a page that
 * may not be touched: an access past the end traps. NULL: the system refused. */
void *memory_map(size_t bytes);
void memory_unmap(void *p, size_t bytes);

#endif
