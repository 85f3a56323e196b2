/* cmd_train.c - `tide train`: train a model inside a budget. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "examples/commands.h"
#include "examples/model_choice.h"
#include "examples/progress.h"
#include "examples/report.h"
#include "examples/verify.h"
#include "runtime/base.h"
#include "runtime/report/account.h"

/* A run under way and what its summary will say. */
typedef struct Train {
    const Options *o;
    Session session;
    Text *text;
    Trainer trainer;
    Progress progress;
    unsigned char *reference; /* gradients of step 1 under the reference plan; NULL: no --verify */
    const char *reference_policy;
    int64_t done; /* steps */
    double loss, val_loss, mark, looked;
    double next_scale; /* of the loss; 0: no loss scaling */
    int64_t skipped;   /* steps, for their gradients overflowed */
    double *seconds;   /* [n_seconds]: of each step after the first */
    size_t n_seconds, room, process_bytes, bytes_out, bytes_in, arena_bytes;
    uint64_t grads_hash, weights_hash;
    LaneTimes lanes; /* of the traced step, if there is one */
    char *sample;
} Train;

static volatile sig_atomic_t interrupted, running;

/* The first interrupt asks a run to stop and sum up. Where there is nothing to save yet, and the second
 * time, the process ends here: it may wait for a pipe, or in the middle of planning. */
static void interrupt(int sig)
{
    (void)sig;
    if (!running || interrupted) _exit(EXIT_INTERRUPTED);
    interrupted = 1;
}

static void catch_interrupts(void)
{
    struct sigaction action = { .sa_handler = interrupt };

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* A failure during the run: the world's, not the input's. */
static int world(const Train *t, TideStatus status)
{
    if (!status) return EXIT_DONE;
    session_fail(&t->session, status);
    return EXIT_WORLD;
}

/* ---- before the first step ------------------------------------------------------- */

static int check_options(const Options *o)
{
    int rc = EXIT_DONE;

    if (!o->data) return refuse(o, "--data is missing: give a text file to learn from");
    if (o->min_lr > o->lr) return refuse(o, "--min-lr %g is above --lr %g", o->min_lr, o->lr);
    rc = check_writable(o, "--dump", o->dump);
    if (!rc) rc = check_writable(o, "--trace", o->trace);
    return rc ? rc : check_writable(o, "--metrics", o->metrics);
}

static int open_text(Train *t)
{
    const ModelConfig *c = &t->session.model->config;
    const Options *o = t->o;
    TextSource source = { .train = o->data,
                          .validate = o->val_data,
                          .tokenizer = o->tokenizer,
                          .window = (int)config_window(c),
                          .vocab = c->vocab };
    TideStatus status = text_open(t->session.tide, source, &t->text);

    if (!status) status = loader_check(t->session.tide, c, (LoaderStart){ .part = t->text->train });
    if (status) return session_fail(&t->session, status);
    if (!o->sample && !o->sample_every) return EXIT_DONE;
    if (!t->session.model->sample)
        return refuse(o, "--sample: a model of family %s writes no text", c->family);
    if (!t->text->tokenizer)
        return refuse(o, "--sample: %s holds tokens, and --tokenizer must say which text they stand for",
                      o->data);
    return EXIT_DONE;
}

/* The plan may obey a budget that this machine does not have. */
static int check_free_memory(const Train *t)
{
    const Session *s = &t->session;
    size_t needs = s->fixed_bytes + s->stats.device_bytes, there;
    char a[BYTES_TEXT], b[BYTES_TEXT];
    TideMemory memory;

    if (tide_memory(s->tide, &memory)) return session_fail(s, TIDE_DEVICE);
    there = memory.free + memory.process; /* what the process has by now is part of what it needs */
    if (memory.free && needs > there)
        return refuse(
            t->o,
            "the plan takes %zu bytes (%s) of device memory, but only %zu (%s) are free; lower --budget",
            needs, bytes_text(needs, a), there, bytes_text(there, b));
    if (memory.host_free && s->stats.host_bytes > memory.host_free)
        return refuse(
            t->o,
            "the plan takes %zu bytes (%s) of host memory, but only %zu (%s) are free; lower --host-budget",
            s->stats.host_bytes, bytes_text(s->stats.host_bytes, a), memory.host_free,
            bytes_text(memory.host_free, b));
    return EXIT_DONE;
}

static int prepare(Train *t)
{
    Session *s = &t->session;
    TideStatus status = TIDE_OK;
    int rc = session_open(t->o, s);

    if (!rc) rc = export_check(s);
    if (!rc) rc = open_text(t);
    if (!rc) rc = session_plan(s);
    if (!rc) rc = check_free_memory(t);
    if (rc) return rc;
    if (!t->o->quiet) {
        plan_headline(s, t->o->json ? stderr : stdout);
        plan_summary(s, t->o->json ? stderr : stdout);
    }
    if (t->o->verify) status = verify_reference(s, t->text, &t->reference, &t->reference_policy);
    if (!status) status = trainer_new(s, s->plan, t->text, &t->trainer);
    /* A step late enough to be like those that follow. */
    if (t->o->trace) t->trainer.trace_step = t->o->steps > 9 ? 9 : t->o->steps - 1;
    if (status) return session_fail(s, status);
    if (t->o->dump) rc = world(t, tide_plan_save(s->model->program, s->plan, t->o->dump));
    if (rc) return rc;
    return progress_open(t->o, &t->progress);
}

/* ---- steps --------------------------------------------------------------------------- */

/* The gradients of step 1 are the same under every plan: hash them, and compare them if asked to. */
static int look_at_first_gradients(Train *t)
{
    TideRunStats stats;
    int rc = world(t, trainer_hash(&t->trainer, true, &t->grads_hash));

    if (!rc) rc = world(t, tide_run_stats(t->trainer.run, &stats));
    if (rc) return rc;
    t->bytes_out = stats.bytes_out * (size_t)t->session.model->config.accum;
    t->bytes_in = stats.bytes_in * (size_t)t->session.model->config.accum;
    return t->reference ? verify_compare(&t->trainer, t->reference, t->reference_policy) : EXIT_DONE;
}

/* A step that an interrupt cut short is not whole, and leaves the weights alone. */
static int enqueue(Train *t, int64_t step, bool *whole)
{
    int rc = world(t, trainer_gradients(&t->trainer, step));

    *whole = !interrupted;
    if (rc || !*whole) return rc;
    if (step == 0) rc = look_at_first_gradients(t);
    return rc ? rc : world(t, trainer_update(&t->trainer, step));
}

static int remember_seconds(Train *t, double seconds)
{
    if (t->n_seconds == t->room) {
        size_t room = t->room ? 2 * t->room : 1024;
        double *grown = realloc(t->seconds, room * sizeof *grown);
        if (!grown) return EXIT_WORLD;
        t->seconds = grown;
        t->room = room;
    }
    t->seconds[t->n_seconds++] = seconds;
    return EXIT_DONE;
}

static int refuse_not_finite(const Train *t, int64_t step, const StepResult *r)
{
    char scale[64] = "";

    if (r->loss_scale > 0) snprintf(scale, sizeof scale, " at a loss scale of %g", r->loss_scale);
    refuse(
        t->o,
        "step %lld: the loss is %g and the gradient norm %g%s; training stopped. Lower --lr (%g), lengthen "
        "--warmup, or set --clip",
        (long long)step + 1, r->loss, r->norm, scale, t->o->lr);
    return EXIT_NOT_FINITE;
}

/* Asking takes up to a millisecond, and no step allocates: now and then is enough. */
static int look_at_memory(Train *t)
{
    TideMemory memory = { 0 };
    int rc = EXIT_DONE;

    if (t->process_bytes && now() - t->looked < 0.1) return EXIT_DONE;
    rc = world(t, tide_memory(t->session.tide, &memory));
    if (memory.process > t->process_bytes) t->process_bytes = memory.process;
    t->looked = now();
    return rc;
}

/* Take in the result of a step that was enqueued; previous: a newer one is at work. */
static int finish(Train *t, int64_t step, bool previous)
{
    StepResult result;
    int rc = world(t, trainer_result(&t->trainer, step, previous, &result));

    if (!rc) rc = look_at_memory(t);
    if (rc) return rc;
    double end = now();
    StepRecord record = { .step = step + 1,
                          .tokens = t->trainer.valid[step & 1],
                          .loss = result.loss,
                          .lr = result.lr,
                          .norm = result.norm,
                          .loss_scale = result.loss_scale > 0 ? result.loss_scale : NAN,
                          .skipped = result.skipped,
                          .epochs = trainer_epochs(&t->trainer, step),
                          .seconds = end - t->mark,
                          .process_bytes = t->process_bytes,
                          .host_bytes = t->session.stats.host_bytes };
    t->mark = end;
    t->done = step + 1;
    t->loss = result.loss;
    t->next_scale = result.next_scale;
    t->skipped = result.skipped;
    if (step > 0 && remember_seconds(t, record.seconds))
        return world(t, tide_fail(t->session.tide, TIDE_NO_MEMORY, "no memory for the times of %lld steps",
                                  (long long)step));
    if (!progress_step(&t->progress, &record))
        return world(t, tide_fail(t->session.tide, TIDE_IO, "--metrics %s cannot be written: %s",
                                  t->o->metrics, strerror(errno)));
    return result.finite ? EXIT_DONE : refuse_not_finite(t, step, &result);
}

static bool is_due(int64_t every, int64_t step)
{
    return every > 0 && (step + 1) % every == 0;
}

static int evaluate(Train *t, int64_t step)
{
    double loss;
    int rc = world(t, trainer_evaluate(&t->trainer, t->o->eval_batches, &loss));

    if (rc || interrupted) return rc; /* cut short, it says nothing */
    t->val_loss = loss;
    progress_say(&t->progress, "step %lld/%lld  validation loss %.4f", (long long)step + 1,
                 (long long)t->o->steps, loss);
    return EXIT_DONE;
}

static int write_sample(Train *t, int64_t n)
{
    free(t->sample);
    int rc = world(t, trainer_sample(&t->trainer, n, &t->sample));

    if (!rc) progress_say(&t->progress, "\n---- sample ----\n%s\n----------------", t->sample);
    return rc;
}

/* What must see the weights as this step leaves them. */
static int pause_after(Train *t, int64_t step)
{
    bool last = step + 1 == t->o->steps;
    int rc = EXIT_DONE;

    if (is_due(t->o->eval_every, step) || last) rc = evaluate(t, step);
    if (!rc && is_due(t->o->sample_every, step) && !(last && t->o->sample))
        rc = write_sample(t, t->o->sample ? t->o->sample : 200);
    if (!rc && last && t->o->sample) rc = write_sample(t, t->o->sample);
    t->mark = now();
    return rc;
}

/* One step is always ahead, except where something must be looked at. */
static int run_steps(Train *t)
{
    int64_t pending = -1;
    int rc = EXIT_DONE;
    bool whole = true;

    t->mark = now();
    for (int64_t step = 0; !rc && step < t->o->steps && !interrupted; step++) {
        bool pause = step == 0 || step + 1 == t->o->steps || is_due(t->o->eval_every, step) ||
                     is_due(t->o->sample_every, step);
        rc = enqueue(t, step, &whole);
        if (!rc && pending >= 0) rc = finish(t, pending, whole);
        pending = whole ? step : -1;
        if (rc || !whole || !pause) continue;
        pending = -1;
        rc = finish(t, step, false);
        if (!rc) rc = pause_after(t, step);
    }
    if (!rc && pending >= 0) rc = finish(t, pending, false);
    return rc;
}

/* ---- summary ----------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* NaN if only the first step, which also warms up, was run. */
static double median_seconds(Train *t)
{
    if (!t->n_seconds) return NAN;
    qsort(t->seconds, t->n_seconds, sizeof *t->seconds, by_size);
    return t->seconds[t->n_seconds / 2];
}

static size_t resident_bytes(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) ? 0 : (size_t)usage.ru_maxrss * 1024;
}

static int64_t tokens_per_step(const Train *t)
{
    const ModelConfig *c = &t->session.model->config;

    return (int64_t)c->accum *
           (int64_t)(tide_tensor_bytes(t->session.model->program, t->session.model->targets) / 4);
}

/* NULL (null in JSON): nothing was traced. */
static json_t *lanes_json(const Train *t)
{
    if (!t->o->trace) return json_null();
    json_t *j = json_pack("{s:f}", "seconds", t->lanes.seconds);
    for (int l = 0; l < LANE_COUNT; l++) json_object_set_new(j, lane_names[l], json_number(t->lanes.busy[l]));
    return j;
}

static json_t *summary_json(const Train *t, double median)
{
    const Session *s = &t->session;
    json_t *j =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:I}", "model", s->model->config.name, "device",
                  s->device, "policy", policy_names[s->plan->policy], "batch", s->model->config.batch, "seq",
                  s->model->config.seq, "accum", s->model->config.accum, "steps", (json_int_t)t->done,
                  "tokens", (json_int_t)(t->done * tokens_per_step(t)));

    json_object_set_new(j, "epochs",
                        t->done ? json_number(trainer_epochs(&t->trainer, t->done - 1)) : json_null());
    json_object_set_new(j, "loss", json_number(t->loss));
    json_object_set_new(j, "val_loss", json_number(t->val_loss));
    json_object_set_new(j, "loss_scale", t->next_scale > 0 ? json_number(t->next_scale) : json_null());
    json_object_set_new(j, "skipped_steps", json_integer((json_int_t)t->skipped));
    json_object_set_new(j, "tokens_per_second", json_number((double)tokens_per_step(t) / median));
    json_object_set_new(j, "mfu", json_number(flops_utilization(s, (double)tokens_per_step(t) / median)));
    json_object_set_new(j, "step_seconds", json_number(median));
    json_object_set_new(j, "predicted_step_seconds", json_number(step_seconds(s)));
    json_object_set_new(j, "predicted_arena_bytes", json_integer((json_int_t)s->stats.device_bytes));
    json_object_set_new(j, "arena_bytes", json_integer((json_int_t)t->arena_bytes));
    json_object_set_new(j, "process_bytes", json_integer((json_int_t)t->process_bytes));
    json_object_set_new(j, "host_bytes", json_integer((json_int_t)s->stats.host_bytes));
    json_object_set_new(j, "host_rss_bytes", json_integer((json_int_t)resident_bytes()));
    json_object_set_new(j, "budget_bytes",
                        s->budget_bytes ? json_integer((json_int_t)s->budget_bytes) : json_null());
    json_object_set_new(j, "keep_bytes", json_integer((json_int_t)(s->fixed_bytes + s->stats.keep_bytes)));
    json_object_set_new(j, "bytes_out", json_integer((json_int_t)t->bytes_out));
    json_object_set_new(j, "bytes_in", json_integer((json_int_t)t->bytes_in));
    json_object_set_new(j, "grads_hash", json_hash(t->grads_hash));
    json_object_set_new(j, "weights_hash", json_hash(t->weights_hash));
    json_object_set_new(j, "traced_micro_step", lanes_json(t));
    json_object_set_new(j, "verified", json_boolean(t->reference != NULL));
    json_object_set_new(j, "sample", t->sample ? json_string(t->sample) : json_null());
    return j;
}

static void print_summary(const Train *t, double median)
{
    const Session *s = &t->session;
    char arena[BYTES_TEXT], touched[BYTES_TEXT], process[BYTES_TEXT], keep[BYTES_TEXT], rss[BYTES_TEXT];

    printf("%lld steps, %lld tokens: loss %.4f", (long long)t->done,
           (long long)(t->done * tokens_per_step(t)), t->loss);
    if (isfinite(t->val_loss)) printf(", validation loss %.4f", t->val_loss);
    if (isfinite(median))
        printf("\nstep %.2f ms (median; predicted %.2f ms), %.0f tokens/s", median * 1e3,
               step_seconds(s) * 1e3, (double)tokens_per_step(t) / median);
    if (t->next_scale > 0)
        printf("\nloss scale %g, %lld steps skipped", t->next_scale, (long long)t->skipped);
    printf("\narena %s predicted, %s touched; device memory of the process %s; keeping everything would take "
           "%s\n",
           bytes_text(s->stats.device_bytes, arena), bytes_text(t->arena_bytes, touched),
           bytes_text(t->process_bytes, process), bytes_text(s->fixed_bytes + s->stats.keep_bytes, keep));
    if (t->o->trace)
        printf("traced micro-step %.2f ms; at work: %s %.2f ms, %s %.2f ms, %s %.2f ms\n",
               t->lanes.seconds * 1e3, lane_names[LANE_COMPUTE], t->lanes.busy[LANE_COMPUTE] * 1e3,
               lane_names[LANE_OUT], t->lanes.busy[LANE_OUT] * 1e3, lane_names[LANE_IN],
               t->lanes.busy[LANE_IN] * 1e3);
    printf("resident on the host %s\ngradients of step 1: %016llx   weights: %016llx\n",
           bytes_text(resident_bytes(), rss), (unsigned long long)t->grads_hash,
           (unsigned long long)t->weights_hash);
}

/* The fixed part was measured before the run, so only the end can tell. */
static void warn_if_over(const Train *t)
{
    size_t budget = t->session.budget_bytes;
    char has[BYTES_TEXT], took[BYTES_TEXT];

    if (budget && t->process_bytes > budget)
        fprintf(stderr,
                "tide train: the process took %zu bytes (%s) of the device, over the budget of %zu (%s)\n",
                t->process_bytes, bytes_text(t->process_bytes, took), budget, bytes_text(budget, has));
}

/* Nothing to save if an interrupt came before that step. */
static int save_trace(Train *t)
{
    if (!t->o->trace || t->done <= t->trainer.trace_step) return EXIT_DONE;
    int rc = world(t, trace_lane_times(t->trainer.run, tide_graph_index(t->session.model->micro), &t->lanes));

    return rc ? rc : world(t, trace_save_run(t->trainer.run, t->o->trace));
}

static int summarize(Train *t)
{
    TideRunStats stats;
    int rc = world(t, trainer_hash(&t->trainer, false, &t->weights_hash));

    if (!rc) rc = world(t, export_model(&t->session, t->trainer.run));
    if (!rc) rc = save_trace(t);
    if (!rc) rc = world(t, tide_run_stats(t->trainer.run, &stats));
    if (rc) return rc;
    t->arena_bytes = stats.arena_bytes;
    if (stats.process_bytes > t->process_bytes) t->process_bytes = stats.process_bytes;
    warn_if_over(t);
    double median = median_seconds(t);
    if (t->o->json) return json_emit(t->o, summary_json(t, median));
    print_summary(t, median);
    return EXIT_DONE;
}

static void train_free(Train *t)
{
    trainer_close(&t->trainer);
    text_free(t->text);
    free(t->reference);
    free(t->seconds);
    free(t->sample);
    session_close(&t->session);
}

int cmd_train(const Options *o)
{
    Train t = { .o = o, .loss = NAN, .val_loss = NAN };
    int rc = check_options(o);

    if (rc) return rc;
    catch_interrupts();
    rc = prepare(&t);
    t.trainer.stop = &interrupted;
    running = 1;
    if (!rc) rc = run_steps(&t);
    if (!progress_close(&t.progress) && !rc) {
        refuse(o, "--metrics %s cannot be written: %s", o->metrics, strerror(errno));
        rc = EXIT_WORLD;
    }
    if (!rc) rc = summarize(&t);
    if (!rc && interrupted) rc = EXIT_INTERRUPTED;
    train_free(&t);
    return rc;
}
