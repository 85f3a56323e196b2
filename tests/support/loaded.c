/* loaded.c - a model with memory behind it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/loaded.h"

Loaded loaded_new(Tide *t, const ModelConfig *c)
{
    Loaded l = { 0 };

    cr_assert(!model_new(t, c, &l.model), "%s", tide_message(t));
    cr_assert(!tide_profile_guess(l.model->program, &l.profile), "%s", tide_message(t));
    cr_assert(!tide_plan_make(l.model->program, l.profile, (TideBudget){ 0 }, &l.plan, NULL), "%s",
              tide_message(t));
    cr_assert(!tide_run_new(l.model->program, l.plan, &l.run), "%s", tide_message(t));
    return l;
}

void loaded_free(Loaded *l)
{
    tide_run_free(l->run);
    tide_plan_free(l->plan);
    tide_profile_free(l->profile);
    model_free(l->model);
}

float *loaded_logits(const Loaded *l, const int32_t *tokens, int n)
{
    const Model *m = l->model;
    int32_t *window = calloc((size_t)m->config.seq, sizeof *window);
    float *logits = malloc(tide_tensor_bytes(m->program, m->sample_logits));
    TideStepInfo info = { .row = n - 1, .loss_scale = 1, .grad_scale = 1 };

    cr_assert(window && logits && n <= m->config.seq);
    memcpy(window, tokens, (size_t)n * sizeof *window);
    cr_assert(!tide_write(l->run, m->sample_tokens, window, (size_t)m->config.seq * sizeof *window));
    cr_assert(!tide_write(l->run, m->sample_info, &info, sizeof info));
    cr_assert(!tide_step(l->run, tide_graph_index(m->sample)));
    cr_assert(!tide_read(l->run, m->sample_logits, logits, tide_tensor_bytes(m->program, m->sample_logits)));
    free(window);
    return logits;
}
