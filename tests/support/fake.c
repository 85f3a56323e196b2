/* fake.c - a counting device and ops that mix words. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "tests/support/fake.h"

struct Device {
    FakeCounts counts;
    json_t *choices; /* of prepared and given keys: text by text */
    char message[128];
};
struct Stream {
    Device *device;
};
struct Event {
    Device *device;
};

/* ---- Values: every output word depends on every input word at its place ---- */

static uint32_t mix(uint32_t h, uint32_t word)
{
    h = (h ^ word) * 0x9E3779B1u;
    return h ^ (h >> 15);
}

static TideStatus run(const KernelCall *c)
{
    const Node *n = c->node;
    FakeAttr attr;

    memcpy(&attr, n->attr.bytes, sizeof attr);
    int n_used = attr.used ? attr.used : n->n_in;
    for (int o = 0; o < n->n_out; o++) {
        uint32_t *out = c->out[o];
        if (!out) continue;
        for (size_t i = 0; i < c->out_info[o]->bytes / 4; i++) {
            uint32_t h = 0x811C9DC5u + (uint32_t)o;
            for (int j = 0; j < n_used; j++) {
                const uint32_t *in = c->in[j];
                if (in) h = mix(h + (uint32_t)j, in[i % (c->in_info[j]->bytes / 4)]);
            }
            out[i] = h;
        }
    }
    return TIDE_OK;
}

static size_t scratch(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    FakeAttr attr;

    (void)in;
    (void)out;
    memcpy(&attr, n->attr.bytes, sizeof attr);
    return (size_t)attr.scratch;
}

/* ---- Meaning --------------------------------------------------------------- */

static FakeAttr attr_of(const Node *n)
{
    FakeAttr attr;

    memcpy(&attr, n->attr.bytes, sizeof attr);
    return attr;
}

static Tensor vector(int64_t elements)
{
    return (Tensor){ .type = TIDE_F32, .kind = TIDE_ACTIVATION, .shape = { 1, { elements } } };
}

static bool infer_mix(const Node *n, const Tensor *const *in, Tensor *out)
{
    TideKind kind = out[0].kind;

    out[0] = vector(attr_of(n).elements);
    out[0].kind = kind;
    for (int i = 0; i < n->n_in; i++)
        if (in[i] && in[i]->type != TIDE_F32) return false;
    return attr_of(n).elements > 0;
}

/* An output like input k. */
static bool infer_like(const Tensor *like, Tensor *out)
{
    if (!like) return false;
    out[0].type = like->type;
    out[0].shape = like->shape;
    return like->type == TIDE_F32;
}

static bool infer_over(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)n;
    return infer_like(in[0], out);
}

static bool infer_pair(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)n;
    TideKind kind = out[1].kind;
    out[1] = vector(16);
    out[1].kind = kind;
    return infer_like(in[0], out);
}

static bool infer_back(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)n;
    return infer_like(in[1], out);
}

/* Writes tensors that exist already. */
static bool infer_none(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)in;
    (void)out;
    return n->out[0].id != 0;
}

static TideTensor append(TideGraph *g, FakeOp op, NodeSpec spec, FakeAttr attr)
{
    spec.op = &fake_ops[op];
    spec.attr = &attr;
    spec.attr_bytes = sizeof attr;
    return graph_append(g, spec);
}

static TideTensor back(TideGraph *g, TideTensor dy, TideTensor x)
{
    TideTensor in[2] = { dy, x };

    return append(g, FAKE_BACK, (NodeSpec){ .in = in, .n_in = 2 }, (FakeAttr){ 0 });
}

/* The gradient of every input that wants one; of parameters into their gradient tensors. */
static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    for (int i = 0; i < n->n_in; i++) {
        TideTensor x = n->in[i];
        if (!x.id || !dout[0].id || !graph_wants_grad(g, x)) continue;
        if (graph_tensor(g, x)->kind != TIDE_PARAMETER) {
            din[i] = back(g, dout[0], x);
            continue;
        }
        bool add;
        TideTensor to = graph_param_grad(g, x, &add), in[2] = { dout[0], { add ? to.id : 0 } };
        append(g, FAKE_PARAM, (NodeSpec){ .in = in, .n_in = 2, .out = { to } }, (FakeAttr){ .scratch = 128 });
    }
}

enum { FIRST_FAKE = OP_COUNT }; /* rows behind the real ops */

const OpDesc fake_ops[FAKE_OP_COUNT] = {
    [FAKE_MIX] = { .name = "mix", .id = FIRST_FAKE + FAKE_MIX, .n_out = 1, .infer = infer_mix, .grad = grad },
    [FAKE_OVER] = { .name = "over",
                    .id = FIRST_FAKE + FAKE_OVER,
                    .n_out = 1,
                    .in_place = 1,
                    .infer = infer_over,
                    .grad = grad },
    [FAKE_PAIR] = { .name = "pair",
                    .id = FIRST_FAKE + FAKE_PAIR,
                    .n_out = 2,
                    .infer = infer_pair,
                    .grad = grad },
    [FAKE_PAIR_AGAIN] = { .name = "pair_again",
                          .id = FIRST_FAKE + FAKE_PAIR_AGAIN,
                          .n_out = 1,
                          .infer = infer_none },
    [FAKE_BACK] = { .name = "back",
                    .id = FIRST_FAKE + FAKE_BACK,
                    .n_out = 1,
                    .in_place = 1,
                    .infer = infer_back },
    [FAKE_PARAM] = { .name = "param", .id = FIRST_FAKE + FAKE_PARAM, .n_out = 1, .infer = infer_none },
    [FAKE_UPDATE] = { .name = "update",
                      .id = FIRST_FAKE + FAKE_UPDATE,
                      .n_out = 2,
                      .facts = OP_ONCE,
                      .infer = infer_none },
};

TideTensor fake_mix(TideGraph *g, const TideTensor *in, int n_in, FakeAttr attr)
{
    return append(g, FAKE_MIX, (NodeSpec){ .in = in, .n_in = n_in }, attr);
}

TideTensor fake_over(TideGraph *g, const TideTensor *in, int n_in, FakeAttr attr)
{
    return append(g, FAKE_OVER, (NodeSpec){ .in = in, .n_in = n_in }, attr);
}

TideTensor fake_pair(TideGraph *g, TideTensor x, bool again)
{
    TideTensor y = append(g, FAKE_PAIR, (NodeSpec){ .in = &x, .n_in = 1 }, (FakeAttr){ .used = 1 });

    if (!again || !y.id) return y;
    TideTensor in[2] = { x, graph_sibling(g, y, 1) };
    append(g, FAKE_PAIR_AGAIN, (NodeSpec){ .in = in, .n_in = 2, .out = { y }, .again = true },
           (FakeAttr){ .used = 1 });
    return y;
}

TideTensor fake_update(TideGraph *g, TideTensor parameter, TideTensor gradient, bool carried)
{
    TideTensor in[2] = { parameter, gradient };
    NodeSpec spec = { .in = in, .n_in = 2, .out = { parameter, { carried ? gradient.id : 0 } } };

    return append(g, FAKE_UPDATE, spec, (FakeAttr){ 0 });
}

/* ---- The device ------------------------------------------------------------ */

static const Kernel kernel = { .run = run, .scratch = scratch }, plain = { .run = run };
static const Kernel *const kernels[FIRST_FAKE + FAKE_OP_COUNT] = {
    [OP_add] = &plain,
    [FIRST_FAKE + FAKE_MIX] = &kernel,
    [FIRST_FAKE + FAKE_OVER] = &kernel,
    [FIRST_FAKE + FAKE_PAIR] = &kernel,
    [FIRST_FAKE + FAKE_PAIR_AGAIN] = &kernel,
    [FIRST_FAKE + FAKE_BACK] = &kernel,
    [FIRST_FAKE + FAKE_PARAM] = &kernel,
    [FIRST_FAKE + FAKE_UPDATE] = &kernel,
};

static TideStatus open_device(int ordinal, TideDeviceOptions options, Device **out)
{
    (void)ordinal;
    (void)options;
    *out = calloc(1, sizeof **out);
    if (!*out) return TIDE_NO_MEMORY;
    (*out)->choices = json_object();
    return TIDE_OK;
}

static void close_device(Device *d)
{
    json_decref(d->choices);
    free(d);
}

static const char *message(const Device *d)
{
    return d && *d->message ? d->message : "the fake device never fails";
}

static const char *versions(const Device *d)
{
    (void)d;
    return "fake 1";
}

static TideStatus memory(Device *d, MemoryInfo *out)
{
    *out =
        (MemoryInfo){ .total = (size_t)1 << 40, .free = (size_t)1 << 40, .process = d->counts.device_bytes };
    return TIDE_OK;
}

static TideStatus device_alloc(Device *d, size_t bytes, void **out)
{
    d->counts.device_allocs++;
    d->counts.device_bytes += bytes;
    *out = aligned_alloc(FAKE_ALIGNMENT, align_up(bytes + 1, FAKE_ALIGNMENT));
    return *out ? TIDE_OK : TIDE_NO_MEMORY;
}

static void device_free(Device *d, void *p, size_t bytes)
{
    d->counts.device_frees++;
    d->counts.device_bytes -= bytes;
    free(p);
}

static TideStatus host_alloc(Device *d, size_t bytes, void **out)
{
    d->counts.host_allocs++;
    d->counts.host_bytes += bytes;
    *out = aligned_alloc(FAKE_ALIGNMENT, align_up(bytes + 1, FAKE_ALIGNMENT));
    return *out ? TIDE_OK : TIDE_NO_MEMORY;
}

static void host_free(Device *d, void *p, size_t bytes)
{
    d->counts.host_frees++;
    d->counts.host_bytes -= bytes;
    free(p);
}

static TideStatus stream_new(Device *d, int priority, Stream **out)
{
    (void)priority;
    *out = malloc(sizeof **out);
    if (!*out) return TIDE_NO_MEMORY;
    (*out)->device = d;
    return TIDE_OK;
}

static void stream_free(Stream *s)
{
    free(s);
}

static TideStatus stream_sync(Stream *s)
{
    (void)s;
    return TIDE_OK;
}

static TideStatus copy(Stream *s, void *to, const void *from, size_t bytes)
{
    s->device->counts.copies++;
    memcpy(to, from, bytes);
    return TIDE_OK;
}

static TideStatus fill(Stream *s, void *to, int byte, size_t bytes)
{
    s->device->counts.fills++;
    memset(to, byte, bytes);
    return TIDE_OK;
}

static TideStatus delay(Stream *s, double seconds)
{
    (void)s;
    (void)seconds;
    return TIDE_OK;
}

static TideStatus launch(const Kernel *k, const KernelCall *c)
{
    c->device->counts.launches++;
    return k->run(c);
}

static TideStatus event_new(Device *d, Event **out)
{
    *out = malloc(sizeof **out);
    if (!*out) return TIDE_NO_MEMORY;
    (*out)->device = d;
    return TIDE_OK;
}

static void event_free(Event *e)
{
    free(e);
}

static TideStatus event_record(Stream *s, Event *e)
{
    (void)e;
    s->device->counts.records++;
    return TIDE_OK;
}

static TideStatus event_wait(Stream *s, Event *e)
{
    (void)e;
    s->device->counts.waits++;
    return TIDE_OK;
}

static TideStatus event_sync(Event *e)
{
    (void)e;
    return TIDE_OK;
}

static TideStatus event_seconds(Event *from, Event *to, double *out)
{
    (void)from;
    (void)to;
    *out = 0;
    return TIDE_OK;
}

/* ---- The numerics record ------------------------------------------------------- */

static char *numerics_save(Device *d)
{
    json_t *all =
        json_pack("{s:i, s:s, s:O}", "tide_numerics", 1, "made_with", "fake 1", "choices", d->choices);
    char *text = json_dumps(all, 0);

    json_decref(all);
    return text;
}

static TideStatus adopt(Device *d, json_t *choices)
{
    const char *key;
    json_t *value;

    json_object_foreach(choices, key, value)
    {
        json_t *here = json_object_get(d->choices, key);
        if (json_is_string(value) && (!here || json_equal(here, value))) continue;
        snprintf(d->message, sizeof d->message, "the choice for %.60s contradicts another", key);
        return TIDE_BAD_FILE;
    }
    json_object_update(d->choices, choices);
    return TIDE_OK;
}

static TideStatus numerics_load(Device *d, const char *json)
{
    json_t *all = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    const char *made_with = json_string_value(json_object_get(all, "made_with"));
    TideStatus status = TIDE_OK;

    if (made_with && strcmp(made_with, "fake 1") == 0) status = adopt(d, json_object_get(all, "choices"));
    json_decref(all);
    return status;
}

void fake_choose(Tide *t, const char *key, const char *value)
{
    json_object_set_new(t->device->choices, key, json_string(value));
}

const char *fake_choice(Tide *t, const char *key)
{
    return json_string_value(json_object_get(t->device->choices, key));
}

static const Backend backend = {
    .name = "fake",
    .rough = { 1e9, 1e9, 1e9, 1e-6, 0 },
    .alignment = FAKE_ALIGNMENT,
    .kernels = kernels,
    .types = 1u << TIDE_F32 | 1u << TIDE_I32,
    .open = open_device,
    .close = close_device,
    .message = message,
    .versions = versions,
    .memory = memory,
    .device_alloc = device_alloc,
    .device_free = device_free,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .stream_sync = stream_sync,
    .copy = copy,
    .fill = fill,
    .delay = delay,
    .launch = launch,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_sync = event_sync,
    .event_seconds = event_seconds,
    .numerics_save = numerics_save,
    .numerics_load = numerics_load,
};

Tide *fake_open(void)
{
    Tide *t = calloc(1, sizeof *t);

    if (!t) return NULL;
    snprintf(t->name, sizeof t->name, "fake");
    if (backend.open(0, (TideDeviceOptions){ 0 }, &t->device)) {
        free(t);
        return NULL;
    }
    t->backend = &backend;
    return t;
}

FakeCounts *fake_counts(Tide *t)
{
    return &t->device->counts;
}
