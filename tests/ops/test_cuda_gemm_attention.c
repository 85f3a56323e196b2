/* test_cuda_gemm_attention.c - linear layers and attention on a GPU against the CPU's kernels, in all
 * types and at odd sizes, by each engine that there is; skipped where there is no GPU. What is checked
 * besides the numbers (same bits again, nothing written outside): see agreement.h. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/agreement.h"

/* ---- Cases ----------------------------------------------------------------------------- */

enum { N_CASES = 12 }; /* of agree_dense() */

/* Each test has a cache of its own: a choice remembered from another would count as this one's. */
static Tide *open_gpu(void)
{
    const char *device = getenv("TIDE_TEST_DEVICE");
    char cache[] = "/tmp/tide-test-XXXXXX";
    Tide *t = NULL;

    if (mkdtemp(cache)) setenv("XDG_CACHE_HOME", cache, 1);
    if (!device || strcmp(device, "cpu") == 0) device = "cuda";
    if (!tide_open(device, (TideDeviceOptions){ 0 }, &t)) return t;
    fprintf(stderr, "%s: linear layers and attention on a GPU are not tested\n", tide_message(t));
    tide_close(t);
    return NULL;
}

/* How many attention choices of the record begin with an engine's name. */
static int chosen(Tide *t, const char *engine)
{
    char *text = t->backend->numerics_save(t->device);
    json_t *record = text ? json_loads(text, 0, NULL) : NULL, *value;
    const char *key;
    int n = 0;

    cr_assert(record);
    json_object_foreach(json_object_get(record, "choices"), key, value)
    {
        bool counts = strncmp(key, "attention", 9) == 0 && strchr(key, ' ');
        n += counts && strncmp(json_string_value(value), engine, strlen(engine)) == 0;
    }
    free(text);
    json_decref(record);
    return n;
}

ParameterizedTestParameters(gpu, agrees_with_the_cpu)
{
    static int row[N_CASES];

    for (int i = 0; i < N_CASES; i++) row[i] = i;
    return cr_make_param_array(int, row, N_CASES);
}

ParameterizedTest(int *row, gpu, agrees_with_the_cpu)
{
    const AgreeDense *c = agree_dense(*row);
    Tide *t = open_gpu();
    char why[512] = "";

    if (!t) cr_skip_test("no GPU");
    cr_assert(c && (!c->wish || agree_wish(t, c->what, c->wish)), "%s", t->backend->message(t->device));
    for (int k = 0; agree_types(k); k++)
        for (int i = 0; c->sizes[i][0]; i++) {
            const int64_t *n = c->sizes[i];
            cr_expect(agree(t, &c->agree, agree_types(k), n, NULL, why), "%s, %s, %d %d %d %d: %s",
                      c->agree.name, agree_types(k)->name, (int)n[0], (int)n[1], (int)n[2], (int)n[3], why);
        }
    bool has_cudnn = strstr(tide_versions(t), "cuDNN") != NULL;
    if (c->wish && strcmp(c->wish, "cudnn") == 0 && has_cudnn)
        cr_expect(chosen(t, "cudnn ") > 20, "cuDNN served %d shapes only", chosen(t, "cudnn "));
    if (c->wish && strcmp(c->wish, "flash") == 0)
        cr_expect(chosen(t, "cudnn ") == 0 && chosen(t, "flash") > 20, "flash was not chosen");
    tide_close(t);
}

/* ---- The numerics record ------------------------------------------------------------------ */

Test(gpu, honours_a_record_and_refuses_what_contradicts)
{
    const AgreeDense *c = agree_dense(0);
    Tide *t = open_gpu(), *other = NULL;
    char why[512] = "";

    if (!t) cr_skip_test("no GPU");
    cr_assert(agree(t, &c->agree, agree_types(1), c->sizes[8], NULL, why), "%s", why);
    char *record = t->backend->numerics_save(t->device);
    cr_assert(record && strstr(record, "gemm bf16"));

    cr_assert(!tide_open("cuda", (TideDeviceOptions){ 0 }, &other), "%s", tide_message(other));
    cr_expect(!other->backend->numerics_load(other->device, record), "%s", tide_message(other));
    cr_expect(agree(other, &c->agree, agree_types(1), c->sizes[8], NULL, why), "%s", why);
    char *again = other->backend->numerics_save(other->device);
    cr_expect(again && strstr(again, "gemm bf16"));

    char *word = strstr(record, "fused ");
    if (!word) word = strstr(record, "apart ");
    cr_assert(word);
    word[6] = word[6] == '1' ? '2' : '1';
    cr_expect_eq(t->backend->numerics_load(t->device, record), TIDE_BAD_FILE);
    cr_expect(strstr(t->backend->message(t->device), "already decided"), "%s",
              t->backend->message(t->device));
    cr_expect_eq(t->backend->numerics_load(t->device, "{}"), TIDE_BAD_FILE);
    free(record);
    free(again);
    tide_close(other);
    tide_close(t);
}
