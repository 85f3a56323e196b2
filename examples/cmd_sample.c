/* cmd_sample.c - `tide sample`: write a text, or continue one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "examples/model_choice.h"
#include "examples/commands.h"
#include "examples/output.h"
#include "examples/session.h"
#include "examples/writer.h"
#include "runtime/base.h"

enum { DEFAULT_TOKENS = 256 };

/* Nothing is trained: the graphs that train get one sequence, and no time is spent on measuring. */
static Options for_writing(const Options *o)
{
    Options mine = *o;

    if (!mine.batch) mine.batch = 1;
    if (!mine.sample) mine.sample = DEFAULT_TOKENS;
    mine.accum = 1;
    mine.profile = "guess";
    return mine;
}

static int open_tokenizer(const Session *s, Tokenizer **out)
{
    const ModelConfig *c = &s->model->config;
    const Options *o = s->options;
    TideStatus status = tokenizer_open(s->tide, o->tokenizer, out);

    if (status) return session_fail(s, status);
    if ((*out)->vocab == c->vocab || ((*out)->bytes && (*out)->vocab < c->vocab)) return EXIT_DONE;
    return refuse(o, "the tokenizer has a vocabulary of %d, but %s has %d; give the tokenizer of the model",
                  (*out)->vocab, c->name, c->vocab);
}

static int print_text(const Options *o, char *text, size_t n)
{
    if (o->json || isatty(STDOUT_FILENO)) make_printable(text, n);
    if (o->json) return json_emit(o, json_pack("{s:s#}", "text", text, (int)n));
    fwrite(text, 1, n, stdout); /* what does not arrive is noticed at the end of the program */
    putchar('\n');
    return EXIT_DONE;
}

static int write_with(Session *s, Tokenizer *k, TideRun *run)
{
    const Options *o = s->options;
    Writing w = { .prompt = o->prompt,
                  .tokens = o->sample,
                  .temperature = (float)o->temperature,
                  .top_p = (float)o->top_p,
                  .seed = (uint64_t)o->seed };
    char *text = NULL;
    size_t n;

    TideStatus status = model_begin(s, run);
    if (!status) status = model_write(s->model, run, k, &w, &text, &n);
    int rc = status ? (session_fail(s, status), EXIT_WORLD) : print_text(o, text, n);
    free(text);
    return rc;
}

int cmd_sample(const Options *given)
{
    Options o = for_writing(given);
    Session s;
    Tokenizer *k = NULL;
    TideRun *run = NULL;
    int rc = session_open(&o, &s);

    if (!rc && !s.model->sample)
        rc = refuse(&o, "a model of family %s writes no text", s.model->config.family);
    if (!rc) rc = open_tokenizer(&s, &k);
    if (!rc) rc = session_plan(&s);
    if (!rc) {
        TideStatus status = tide_run_new(s.program, s.plan, &run);
        rc = status ? session_fail(&s, status) : write_with(&s, k, run);
    }
    tide_run_free(run);
    tokenizer_free(k);
    session_close(&s);
    return rc;
}
