/* test_attention.c - attention and its gradient against the definition, in double: lengths around the
 * block size, heads of odd width, shared key heads, dropout, and backward in blocks of sequences. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/cpu/philox.h"
#include "tests/support/numeric.h"

typedef struct Shape {
    int batch, length, heads, kv_heads, width;
    float dropout;
    int block; /* sequences of a block in backward; 0: all */
} Shape;

static const Shape shapes[] = {
    { 1, 1, 1, 1, 1, 0, 0 },       { 2, 7, 3, 3, 5, 0, 0 },    { 1, 63, 2, 2, 16, 0, 0 },
    { 2, 64, 4, 4, 32, 0, 0 },     { 1, 65, 2, 1, 64, 0, 0 },  { 1, 130, 2, 2, 80, 0, 0 },
    { 1, 200, 4, 2, 20, 0, 0 },    { 1, 97, 1, 1, 128, 0, 0 }, { 1, 70, 1, 1, 256, 0, 0 },
    { 3, 66, 4, 2, 24, 0.25f, 0 }, { 5, 33, 2, 2, 12, 0, 2 },  { 4, 65, 2, 1, 12, 0.5f, 1 },
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, SITE = 5 };

/* What the op reads and what the definition makes of it. */
typedef struct Reference {
    Shape s;
    int64_t packed, wide; /* floats of a position: qkv, o */
    const float *qkv, *d_o;
    TideStepInfo info;
    double *o, *lse, *dqkv;
} Reference;

static const float *head(const Reference *r, int b, int t, int h)
{
    return r->qkv + ((int64_t)b * r->s.length + t) * r->packed + (int64_t)h * r->s.width;
}
static double *head_gradient(const Reference *r, int b, int t, int h)
{
    return r->dqkv + (head(r, b, t, h) - r->qkv);
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* What dropout multiplies the probability of (query t, key j) with. */
static double survival(const Reference *r, int b, int h, int t, int j)
{
    const Shape *s = &r->s;
    Philox p = philox_of(&r->info, SITE);
    uint32_t word;

    if (s->dropout <= 0) return 1;
    philox_words(&p,
                 ((uint64_t)(b * s->heads + h) * (uint64_t)s->length + (uint64_t)t) * (uint64_t)s->length +
                     (uint64_t)j,
                 1, &word);
    return word >= philox_threshold(s->dropout) ? 1 / (1 - (double)s->dropout) : 0;
}

/* One row of the softmax: query t of head h in sequence b. */
static void reference_row(Reference *r, int b, int h, int t, double *prob, double *dprob)
{
    const Shape *s = &r->s;
    int g = h / (s->heads / s->kv_heads), key = s->heads + g, value = s->heads + s->kv_heads + g,
        width = s->width;
    int64_t at = ((int64_t)b * s->length + t) * r->wide + (int64_t)h * width;
    double scale = 1 / sqrt((double)width), most = -INFINITY, sum = 0, delta = 0;

    for (int j = 0; j <= t; j++) prob[j] = scale * dot(head(r, b, t, h), head(r, b, j, key), width);
    for (int j = 0; j <= t; j++) most = fmax(most, prob[j]);
    for (int j = 0; j <= t; j++) sum += exp(prob[j] - most);
    r->lse[((int64_t)b * s->heads + h) * s->length + t] = most + log(sum);
    for (int j = 0; j <= t; j++) {
        double keep = survival(r, b, h, t, j);
        prob[j] = exp(prob[j] - most) / sum;
        dprob[j] = keep * dot(r->d_o + at, head(r, b, j, value), width);
        delta += prob[j] * dprob[j];
        for (int d = 0; d < width; d++) {
            r->o[at + d] += keep * prob[j] * (double)head(r, b, j, value)[d];
            head_gradient(r, b, j, value)[d] += keep * prob[j] * (double)r->d_o[at + d];
        }
    }
    for (int j = 0; j <= t; j++) {
        double ds = scale * prob[j] * (dprob[j] - delta);
        for (int d = 0; d < width; d++) {
            head_gradient(r, b, t, h)[d] += ds * (double)head(r, b, j, key)[d];
            head_gradient(r, b, j, key)[d] += ds * (double)head(r, b, t, h)[d];
        }
    }
}

static void reference_make(Reference *r)
{
    const Shape *s = &r->s;
    double *row = malloc(2 * (size_t)s->length * sizeof *row);
    int64_t positions = (int64_t)s->batch * s->length;

    r->o = calloc((size_t)(positions * r->wide), sizeof *r->o);
    r->lse = calloc((size_t)(positions * s->heads), sizeof *r->lse);
    r->dqkv = calloc((size_t)(positions * r->packed), sizeof *r->dqkv);
    cr_assert(row && r->o && r->lse && r->dqkv);
    for (int b = 0; b < s->batch; b++)
        for (int h = 0; h < s->heads; h++)
            for (int t = 0; t < s->length; t++) reference_row(r, b, h, t, row, row + s->length);
    free(row);
}

static void expect_close(const char *what, const Shape *s, double error)
{
    cr_expect(error < 2e-6, "%s, batch %d, length %d, heads %d/%d of %d, dropout %g: error %g", what,
              s->batch, s->length, s->heads, s->kv_heads, s->width, (double)s->dropout, error);
}

ParameterizedTestParameters(attention, equals_its_definition)
{
    static int row[N_SHAPES];
    for (int i = 0; i < N_SHAPES; i++) row[i] = i;
    return cr_make_param_array(int, row, N_SHAPES);
}

ParameterizedTest(int *row, attention, equals_its_definition)
{
    Shape s = shapes[*row];
    int64_t packed = (int64_t)(s.heads + 2 * s.kv_heads) * s.width, wide = (int64_t)s.heads * s.width;
    TideAttention a = { .heads = s.heads,
                        .kv_heads = s.kv_heads,
                        .head_dim = s.width,
                        .dropout = s.dropout,
                        .count = s.block,
                        .site = SITE };
    Scene scene;

    scene_open(&scene);
    TideTensor qkv = tide_input(scene.g, "qkv", TIDE_F32, (TideShape){ 3, { s.batch, s.length, packed } });
    TideTensor d_o = tide_input(scene.g, "do", TIDE_F32, (TideShape){ 3, { s.batch, s.length, wide } });
    TideTensor info = tide_input(scene.g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
    TideTensor o = tide_attention(scene.g, qkv, info, a), lse = graph_sibling(scene.g, o, 1);
    TideTensor dqkv = tide_attention_grad(scene.g, qkv, o, lse, info, d_o, a);
    const char *mistake = scene_ready(&scene);
    cr_assert_null(mistake, "%s", mistake);

    Reference r = { .s = s,
                    .packed = packed,
                    .wide = wide,
                    .qkv = scene_f32(&scene, qkv),
                    .d_o = scene_f32(&scene, d_o),
                    .info = { .seed = 0x123456789abcu, .step = 3, .micro = 1 } };
    numeric_random(scene_f32(&scene, qkv), scene_elements(&scene, qkv), 2.0f, 1);
    numeric_random(scene_f32(&scene, d_o), scene_elements(&scene, d_o), 1.0f, 2);
    *(TideStepInfo *)scene.memory[info.id] = r.info;
    reference_make(&r);
    cr_assert_eq(numeric_run(scene.g, scene.memory), TIDE_OK);

    expect_close("o", &s, numeric_error(scene_f32(&scene, o), r.o, scene_elements(&scene, o)));
    expect_close("lse", &s, numeric_error(scene_f32(&scene, lse), r.lse, scene_elements(&scene, lse)));
    expect_close("dqkv", &s, numeric_error(scene_f32(&scene, dqkv), r.dqkv, scene_elements(&scene, dqkv)));
    free(r.o);
    free(r.lse);
    free(r.dqkv);
    scene_close(&scene);
}

Test(attention, too_wide_a_head_is_refused_with_its_width)
{
    Scene s;

    scene_open(&s);
    TideTensor qkv = tide_input(s.g, "qkv", TIDE_F32, (TideShape){ 3, { 1, 4, 3 * 257 } });
    TideTensor o = tide_attention(s.g, qkv, (TideTensor){ 0 },
                                  (TideAttention){ .heads = 1, .kv_heads = 1, .head_dim = 257 });
    cr_expect_eq(o.id, 0);
    const char *mistake = scene_ready(&s);
    cr_assert_not_null(mistake);
    cr_expect(strstr(mistake, "257"), "the message is: %s", mistake);
    scene_close(&s);
}
