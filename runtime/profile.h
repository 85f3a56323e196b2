/* profile.h - seconds of every node, and the speed of the links.
 *
 * A profile has one entry for each distinct (op, shapes, types); the nodes of a program
 * refer to entries. Entries come from measuring, from a file, from scaling another entry
 * of the same op, or from a guess. */
#ifndef TIDE_PROFILE_H
#define TIDE_PROFILE_H
#include "runtime/problem.h"

typedef enum Source { SOURCE_NONE, SOURCE_MEASURED, SOURCE_SCALED, SOURCE_GUESSED } Source;

typedef struct Entry {
    char  *key;     /* "linear f32[12,64,128] f32[384,128] f32[384] > f32[12,64,384]" */
    double seconds; /* median of several runs                                         */
    double flops, bytes;
    size_t scratch_bytes; /* the most that a node of this key wants */
    Source source;
} Entry;

/* Bytes a second of copies of so many bytes: each way alone, and each while the other is busy too. */
typedef struct LinkSpeed {
    size_t bytes;
    double out, in, duplex_out, duplex_in;
} LinkSpeed;
enum { MOST_LINK_SIZES = 32 };

/* More memory than anything of a device is believed to take, so that sums of such sizes do not overflow. */
#define PROFILE_MOST_BYTES ((int64_t)1 << 46)

/* What planning must know of a device to do without it; types 0: the file does not say. */
typedef struct DeviceFacts {
    size_t   memory_bytes;   /* of the device; 0: not known               */
    unsigned types;          /* as Backend.types                          */
    int64_t  block_elements; /* as Backend.block_elements                 */
    double   flops_per_second, bytes_per_second, launch_seconds; /* as Rough */
} DeviceFacts;

struct TideProfile {
    Entry  *entries; int n_entries;
    int   **entry_of; int n_graphs; /* [graph][node] index into entries */
    Link    link;        /* what planning uses                                      */
    LinkSpeed by_size[MOST_LINK_SIZES]; int n_sizes; /* ascending; none unless measured */
    size_t  fixed_bytes; /* of the process outside the arena; 0: none               */
    size_t  alignment;   /* of slots                                                */
    int     filled;      /* entries that were scaled or guessed                     */
    char    device[32], versions[256];
    DeviceFacts facts;
    char   *record;      /* choices that the times were measured with; NULL: none   */
};

/* Seconds of one run of node n of graph g. Cannot fail: a profile covers its program. */
double profile_seconds(const TideProfile *f, const TideGraph *g, int node);
Link   profile_link(const TideProfile *f);

/* An entry for each distinct node of the program, times not known yet. */
TideStatus profile_new(const TideProgram *p, TideProfile **out);
/* Fill what is not known: scale an entry of the same op by flops and bytes, else guess. */
void       profile_fill(const TideProgram *p, TideProfile *f);
/* The entry of that key; -1: none. */
int        profile_find(const TideProfile *f, const char *key);
/* The measured entry of the op of that key whose work is nearest; NULL: none. */
const Entry *profile_nearest(const TideProfile *f, const Entry *e);
/* The key of a node, owned by the caller; NULL without memory. */
char      *profile_key(const Node *n, const Tensor *const *in, const Tensor *const *out);
/* Bytes that a node reads and writes at least. */
double     infos_bytes(const Node *n, const Tensor *const *in, const Tensor *const *out);

/* profile_json.c: the document; and into an empty profile or one that profile_new() made. */
void       profile_write(const TideProfile *f, FILE *to);
TideStatus profile_read(Tide *t, const char *path, TideProfile *f);

#endif
