/* paper.c - problems small enough to work out on paper. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "tests/support/paper.h"

void paper_open(Paper *pp)
{
    memset(pp, 0, sizeof *pp);
    pp->p = (Problem){ .tensors = pp->tensors,
                       .nodes = pp->nodes,
                       .layers = pp->layers,
                       .n_layers = PAPER_MOST,
                       .alignment = 1,
                       .link = { .out = 10, .in = 10, .duplex = 10, .latency = 0 },
                       .turn = 0 };
    for (int i = 0; i < PAPER_MOST; i++) {
        snprintf(pp->names[i], sizeof pp->names[i], "n%d", i);
        pp->layers[i] = pp->names[i];
    }
}

int paper_tensor(Paper *pp, size_t bytes, TideKind kind)
{
    int t = pp->p.n_tensors++;

    assert(t < PAPER_MOST);
    pp->tensors[t] = (CostTensor){ .name = pp->names[t],
                                   .bytes = bytes,
                                   .moved = bytes,
                                   .kind = kind,
                                   .id = t,
                                   .producer = -1,
                                   .again = -1,
                                   .input = kind == TIDE_INPUT };
    return t;
}

static int count(const int *list)
{
    int n = 0;

    while (n < PAPER_ARGS && list[n] >= 0) n++;
    return n;
}

int paper_node(Paper *pp, PaperNode n)
{
    int i = pp->p.n_nodes++;

    assert(i < PAPER_MOST);
    memcpy(pp->in[i], n.in, sizeof n.in);
    memcpy(pp->out[i], n.out, sizeof n.out);
    pp->nodes[i] = (CostNode){ .name = pp->names[i],
                               .layer = n.layer,
                               .phase = n.phase,
                               .seconds = n.seconds,
                               .scratch_bytes = n.scratch,
                               .once = n.once,
                               .again = n.again,
                               .in_place = n.in_place ? 0 : -1,
                               .n_in = count(n.in),
                               .n_out = count(n.out),
                               .in = pp->in[i],
                               .out = pp->out[i] };
    for (int j = 0; j < pp->nodes[i].n_out; j++) {
        int *producer = n.again ? &pp->tensors[n.out[j]].again : &pp->tensors[n.out[j]].producer;
        if (*producer < 0) *producer = i;
    }
    if (n.phase == PHASE_FORWARD && !n.again) pp->p.turn = i + 1;
    return i;
}

void paper_chain(Paper *pp, PaperChain c, int *a)
{
    int x = paper_tensor(pp, 1, TIDE_INPUT), d[PAPER_MOST];

    for (int i = 0; i < c.n; i++) {
        a[i] = paper_tensor(pp, c.bytes[i], TIDE_ACTIVATION);
        paper_node(
            pp,
            (PaperNode){
                c.forward[i], { i ? a[i - 1] : x, -1 }, { a[i], -1 }, .phase = PHASE_FORWARD, .layer = i });
    }
    for (int i = c.n - 1; i >= 0; i--) {
        d[i] = paper_tensor(pp, 1, TIDE_OTHER);
        paper_node(pp, (PaperNode){ 2 * c.forward[i],
                                    { a[i], i ? a[i - 1] : x, i + 1 < c.n ? d[i + 1] : -1, -1 },
                                    { d[i], -1 },
                                    PHASE_BACKWARD,
                                    .layer = i });
    }
}

static uint32_t chance(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

void paper_random(Paper *pp, uint64_t seed)
{
    uint64_t s = seed * 2654435761u + 12345;
    int n, a[8], in[8][2], d = -1;

    paper_open(pp);
    pp->p.link = (Link){ 1 + chance(&s, 40), 1 + chance(&s, 40), 1 + chance(&s, 30), chance(&s, 3) * 0.25 };
    n = 3 + (int)chance(&s, 5);
    int x = paper_tensor(pp, 1 + chance(&s, 20), TIDE_INPUT);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) in[i][k] = i && chance(&s, 5) ? a[chance(&s, (uint32_t)i)] : x;
        a[i] = paper_tensor(pp, 1 + chance(&s, 60), TIDE_ACTIVATION);
        bool one = in[i][0] == in[i][1] || chance(&s, 2);
        if (one) in[i][1] = -1;
        paper_node(pp, (PaperNode){ 1 + chance(&s, 20),
                                    { in[i][0], in[i][1], -1 },
                                    { a[i], -1 },
                                    .phase = PHASE_FORWARD,
                                    .layer = i / 2,
                                    .in_place = chance(&s, 2),
                                    .scratch = chance(&s, 3) * 5 });
    }
    for (int i = n - 1; i >= 0; i--) {
        int next = paper_tensor(pp, 1 + chance(&s, 20), TIDE_OTHER);
        PaperNode b = { 1 + chance(&s, 20), { 0 }, { next, -1 }, .phase = PHASE_BACKWARD, .layer = i / 2 };
        int k = 0;
        if (d >= 0) b.in[k++] = d;
        if (chance(&s, 4)) b.in[k++] = a[i];
        if (chance(&s, 2)) b.in[k++] = in[i][0];
        b.in[k] = -1;
        paper_node(pp, b);
        d = next;
    }
}
