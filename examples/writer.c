/* writer.c - a text that a model writes, token by token. */
#include "examples/writer.h"

#include <stdlib.h>
#include <string.h>
#include "models/text/sample.h"
#include "models/text/unicode.h"
#include "runtime/base.h"

/* A text under way. */
typedef struct Page {
    const Model *model;
    TideRun *run;
    Tokenizer *tokenizer;
    Sampler *sampler;
    TokenList all;   /* the beginning, the prompt, what was drawn */
    int64_t prompt;  /* tokens of the first two                    */
    int32_t *window; /* [seq]                                      */
    float *logits;   /* [padded vocab]                             */
} Page;

static Tide *tide_of(const Page *p)
{
    return tide_program_device(p->model->program);
}

/* Ask the model for the logits that follow the last tokens. */
static TideStatus ask(Page *p, uint64_t seed)
{
    const Model *m = p->model;
    int64_t seq = m->config.seq, n = p->all.n < seq ? p->all.n : seq;
    TideStepInfo info = { .seed = seed, .row = (int)n - 1, .loss_scale = 1, .grad_scale = 1 };

    memcpy(p->window, p->all.at + p->all.n - n, (size_t)n * sizeof *p->window);
    TRY(tide_write(p->run, m->sample_tokens, p->window, (size_t)seq * sizeof *p->window));
    TRY(tide_write(p->run, m->sample_info, &info, sizeof info));
    TRY(tide_step(p->run, tide_graph_index(m->sample)));
    return tide_read(p->run, m->sample_logits, p->logits, tide_tensor_bytes(m->program, m->sample_logits));
}

static TideStatus draw(Page *p, const Writing *w, bool *over)
{
    const Tokenizer *k = p->tokenizer;

    TRY(ask(p, w->seed));
    int token = sampler_next(p->sampler, p->logits);
    if (token < 0)
        return tide_fail(tide_of(p), TIDE_DEVICE, "a sample cannot be drawn: logits are no numbers");
    *over = token == k->end || (token == k->begin && !k->bytes);
    return *over ? TIDE_OK : token_list_add(tide_of(p), &p->all, token);
}

static TideStatus begin(Page *p, const Writing *w)
{
    const Model *m = p->model;
    Sampler settings = {
        .temperature = w->temperature, .top_p = w->top_p, .state = w->seed, .vocab = m->config.vocab
    };

    if (!w->prompt || p->tokenizer->begins_prompt)
        TRY(token_list_add(tide_of(p), &p->all,
                           p->tokenizer->begin < m->config.vocab ? p->tokenizer->begin : 0));
    if (w->prompt) TRY(tokenizer_encode(tide_of(p), p->tokenizer, w->prompt, strlen(w->prompt), &p->all));
    p->prompt = p->all.n;
    p->window = calloc((size_t)m->config.seq, sizeof *p->window);
    p->logits = malloc(tide_tensor_bytes(m->program, m->sample_logits));
    if (!p->window || !p->logits) return tide_fail(tide_of(p), TIDE_NO_MEMORY, "no memory for a sample");
    return sampler_new(tide_of(p), settings, &p->sampler);
}

/* The bytes of all tokens but a beginning: twice, to count them and to copy them. to NULL: count. */
static size_t decode(const Page *p, bool begun, char *to)
{
    size_t n = 0, bytes;

    for (int64_t i = begun; i < p->all.n; i++) {
        const char *piece = tokenizer_piece(p->tokenizer, i ? p->all.at[i - 1] : -1, p->all.at[i], &bytes);
        if (to) memcpy(to + n, piece, bytes);
        n += bytes;
    }
    return n;
}

TideStatus model_write(const Model *m, TideRun *run, Tokenizer *k, const Writing *w, char **text, size_t *n)
{
    Page p = { .model = m, .run = run, .tokenizer = k };
    bool over = false, begun = !w->prompt || k->begins_prompt;
    TideStatus status = begin(&p, w);

    *text = NULL;
    *n = 0;
    while (!status && !over && p.all.n - p.prompt < w->tokens && !(w->stop && *w->stop))
        status = draw(&p, w, &over);
    if (!status) {
        *n = decode(&p, begun, NULL);
        *text = calloc(*n + 1, 1);
        if (*text)
            decode(&p, begun, *text);
        else
            status = tide_fail(tide_of(&p), TIDE_NO_MEMORY, "no memory for a text of %zu bytes", *n);
    }
    sampler_free(p.sampler);
    token_list_free(&p.all);
    free(p.window);
    free(p.logits);
    return status;
}

void make_printable(char *text, size_t n)
{
    unsigned char *s = (unsigned char *)text;
    size_t bytes;

    for (size_t i = 0; i < n; i += bytes) {
        uint32_t c = char_next(s + i, n - i, &bytes);
        bool control = c < 32 || (c >= 0x7F && c < 0xA0);
        if ((control && c != '\n' && c != '\t') || (c == 0xFFFD && bytes == 1)) memset(text + i, '?', bytes);
    }
}
