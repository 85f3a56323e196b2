/* session.c - from options to a checked plan, refusing what cannot be. */
#include "examples/session.h"

#include <stdio.h>
#include <string.h>
#include "examples/batch.h"
#include "examples/model_choice.h"
#include "models/files/model_files.h"
#include "runtime/base.h"
#include "runtime/report/account.h"

enum { PROFILE_REPEATS = 9 };

int session_fail(const Session *s, TideStatus status)
{
    refuse(s->options, "%s", tide_message(s->tide));
    return status == TIDE_NO_PLAN ? EXIT_NO_PLAN : EXIT_BAD_INPUT;
}

/* ---- device and model --------------------------------------------------------- */

static TideDeviceOptions device_options(const Options *o)
{
    return (TideDeviceOptions){
        .link_bytes_per_second = o->link * 1e9, .no_pin = o->no_pin, .no_graph = o->no_graph, .tf32 = o->tf32
    };
}

static int open_named(Session *s, const char *device)
{
    snprintf(s->device, sizeof s->device, "%s", device);
    return tide_open(device, device_options(s->options), &s->tide) ? EXIT_BAD_INPUT : EXIT_DONE;
}

static bool same_kind(const char *a, const char *b)
{
    size_t n = strcspn(a, ":");

    return n == strcspn(b, ":") && strncmp(a, b, n) == 0;
}

/* A profile says of which device it is. That one is used if it is here, else planning makes do with what the
 * profile says of it. */
static int open_described(Session *s, Tide *described)
{
    const Options *o = s->options;
    bool here = !open_named(s, o->device ? o->device : tide_name_of(described));

    if (o->command != CMD_PLAN || (here && !strcmp(tide_versions(s->tide), tide_versions(described)))) {
        tide_close(described);
        return here ? EXIT_DONE : session_fail(s, TIDE_DEVICE);
    }
    tide_close(s->tide);
    s->tide = described;
    if (!o->quiet)
        fprintf(stderr, "tide plan: for a device that only %s describes: %s\n", o->profile,
                tide_versions(described));
    return EXIT_DONE;
}

/* EXIT_DONE with s->tide NULL: the device must be found without a profile. */
static int open_by_profile(Session *s)
{
    const Options *o = s->options;
    Tide *described = NULL;

    if (!o->profile || !strcmp(o->profile, "guess")) return EXIT_DONE;
    TideStatus status = tide_open_profile(o->profile, device_options(o), &described);
    if (!status && (!o->device || same_kind(o->device, tide_name_of(described))))
        return open_described(s, described);
    tide_close(described); /* what is wrong with the file is told when it is loaded */
    return EXIT_DONE;
}

static int open_device(Session *s)
{
    const Options *o = s->options;
    int rc = open_by_profile(s);

    if (rc || s->tide) return rc;
    if (o->device) return open_named(s, o->device) ? session_fail(s, TIDE_DEVICE) : EXIT_DONE;
    if (!open_named(s, "cuda")) return EXIT_DONE;
    tide_close(s->tide);
    return open_named(s, "cpu") ? session_fail(s, TIDE_DEVICE) : EXIT_DONE;
}

static int check_device_options(const Session *s)
{
    const Options *o = s->options;
    bool cpu = strncmp(s->device, "cpu", 3) == 0;

    if (cpu && o->dtype && strcmp(o->dtype, "f32"))
        return refuse(o, "--dtype %s: the device %s computes in f32 only; leave --dtype out or use a GPU",
                      o->dtype, s->device);
    if (cpu && (o->tf32 || o->no_graph || o->no_pin))
        return refuse(o, "--tf32, --no-graph and --no-pin are for a GPU, but the device is %s", s->device);
    if (!cpu && o->link > 0)
        return refuse(o, "--link slows the copy lanes of the cpu device, but the device is %s", s->device);
    return EXIT_DONE;
}

/* The type of that name; f32 if there is none. */
static TideType type_of(const char *name)
{
    for (int i = 0; i < TIDE_TYPE_COUNT; i++)
        if (strcmp(type_name((TideType)i), name) == 0) return (TideType)i;
    return TIDE_F32;
}

/* After the device is known, since a GPU computes in bf16 unless told otherwise. */
static int set_types(const Session *s, ModelConfig *c)
{
    const Options *o = s->options;

    c->dtype = strncmp(s->device, "cpu", 3) == 0 ? TIDE_F32 : TIDE_BF16;
    if (o->dtype) c->dtype = type_of(o->dtype);
    if (o->state_dtype) c->state_dtype = type_of(o->state_dtype);
    if (o->master) c->no_master = strcmp(o->master, "none") == 0;
    if (!o->grad_dtype) return EXIT_DONE;
    c->grads = type_of(o->grad_dtype) == TIDE_F32 ? GRADS_F32 : GRADS_NARROW;
    if (c->grads == GRADS_NARROW && type_of(o->grad_dtype) != c->dtype)
        return refuse(o, "--grad-dtype %s: gradients are f32 or of the parameters' type, which is %s",
                      o->grad_dtype, type_name(c->dtype));
    return EXIT_DONE;
}

static void override_number(int *field, int64_t given)
{
    if (given > 0) *field = (int)given;
}

static void override_real(float *field, double given)
{
    if (given >= 0) *field = (float)given;
}

static void override_config(const Options *o, ModelConfig *c)
{
    override_number(&c->layers, o->layers);
    override_number(&c->width, o->width);
    override_number(&c->heads, o->heads);
    if (o->heads) c->kv_heads = (int)o->heads;
    override_number(&c->kv_heads, o->kv_heads);
    override_number(&c->seq, o->seq);
    override_number(&c->batch, o->batch);
    override_number(&c->vocab, o->vocab);
    if (o->vocab) c->padded_vocab = 0;
    override_number(&c->accum, o->accum);
    override_real(&c->dropout, o->dropout);
    override_real(&c->attn_dropout, o->attn_dropout);
    override_real(&c->weight_decay, o->weight_decay);
    override_real(&c->beta1, o->beta1);
    override_real(&c->beta2, o->beta2);
    override_real(&c->clip, o->clip);
    if (o->loss_chunk) c->loss_chunk = o->loss_chunk;
    if (o->loss_scale > 0) c->loss_scale = (float)o->loss_scale;
    override_number(&c->scale_interval, o->scale_interval);
    if (o->mlp_block) c->mlp_block = o->mlp_block;
    if (o->attn_block) c->attn_block = o->attn_block;
    if (o->no_bias) c->no_bias = true;
    if (o->gelu) c->gelu_erf = strcmp(o->gelu, "erf") == 0;
}

static int apply_forces(const Session *s)
{
    static const TideFate fates[] = { TIDE_KEEP, TIDE_RECOMPUTE, TIDE_OFFLOAD };
    const Options *o = s->options;

    for (int i = 0; i < o->n_forces; i++) {
        const char *glob = strchr(o->force[i], ':') + 1;
        size_t length = (size_t)(glob - 1 - o->force[i]);
        for (size_t f = 0; f < sizeof fates / sizeof *fates; f++) {
            if (strlen(fate_names[fates[f]]) != length || strncmp(fate_names[fates[f]], o->force[i], length))
                continue;
            int n = tide_force(s->micro, glob, fates[f]);
            if (n == 0)
                return refuse(o,
                              "--force %s: no activation that backward reads is named so; `tide plan --model "
                              "%s` lists the names",
                              o->force[i], o->model);
            if (n < 0)
                return refuse(o, "--force %s contradicts an earlier --force for an activation of that name",
                              o->force[i]);
        }
    }
    return EXIT_DONE;
}

int session_accum(const Session *s)
{
    return s->model ? s->model->config.accum : 1;
}

/* ---- graph files ---------------------------------------------------------------- */

static bool is_graph_file(const char *model)
{
    size_t n = model ? strlen(model) : 0;

    return n > 5 && strcmp(model + n - 5, ".json") == 0;
}

/* An option that changes a preset or chooses a device; NULL: none was given. */
static const char *preset_option(const Options *o)
{
    const struct {
        const char *name;
        bool given;
    } options[] = {
        { "--layers", o->layers },
        { "--width", o->width },
        { "--heads", o->heads },
        { "--kv-heads", o->kv_heads },
        { "--seq", o->seq },
        { "--batch", o->batch || o->batch_auto },
        { "--vocab", o->vocab },
        { "--loss-chunk", o->loss_chunk },
        { "--accum", o->accum },
        { "--dropout", o->dropout >= 0 },
        { "--attn-dropout", o->attn_dropout >= 0 },
        { "--no-bias", o->no_bias },
        { "--gelu", o->gelu },
        { "--device", o->device },
        { "--dtype", o->dtype },
        { "--grad-dtype", o->grad_dtype },
        { "--state-dtype", o->state_dtype },
        { "--master", o->master },
        { "--tf32", o->tf32 },
        { "--no-graph", o->no_graph },
        { "--no-pin", o->no_pin },
        { "--profile", o->profile },
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given) return options[i].name;
    return NULL;
}

/* The costs of the file are the profile; --link replaces its link. */
static int open_graph(Session *s)
{
    const Options *o = s->options;
    const char *odd = preset_option(o);

    if (o->command != CMD_PLAN)
        return refuse(o,
                      "--model %s is a graph file: it says what things cost, not what they compute, so only "
                      "`tide plan` takes it",
                      o->model);
    if (odd)
        return refuse(o, "%s is about presets, but %s is a graph file, which says it all; leave %s out", odd,
                      o->model, odd);
    TideStatus status = tide_graph_load(o->model, &s->tide, &s->program, &s->profile);
    if (status) return session_fail(s, status);
    s->micro = tide_graph_at(s->program, 0);
    snprintf(s->device, sizeof s->device, "%s", "graph file");
    if (o->link > 0) tide_profile_set_link(s->profile, o->link * 1e9);
    return apply_forces(s);
}

int session_open(const Options *o, Session *s)
{
    ModelConfig config;
    int rc;

    *s = (Session){ .options = o };
    if (is_graph_file(o->model)) return open_graph(s);
    if ((rc = model_find(s, &config)) != EXIT_DONE) return rc;
    if (o->plan && (o->policy || o->n_forces))
        return refuse(o, "%s says how to plan, but --plan %s is a plan already; leave one of them out",
                      o->policy ? "--policy" : "--force", o->plan);
    rc = open_device(s);
    if (!rc) rc = check_device_options(s);
    if (!rc && s->files) rc = model_read_config(s, &config);
    if (!rc) override_config(o, &config);
    if (!rc) rc = set_types(s, &config);
    if (!rc && o->batch_auto) rc = session_limits(s);
    if (!rc && o->batch_auto) rc = batch_choose(s, &config);
    if (rc) return rc;
    TideStatus status = model_new(s->tide, &config, &s->model);
    if (!status && s->files && o->command & (CMD_TRAIN | CMD_SAMPLE))
        status = model_files_check(s->model, s->files);
    if (status) return session_fail(s, status);
    s->program = s->model->program;
    s->micro = s->model->micro;
    return apply_forces(s);
}

/* ---- profile, budget, plan ------------------------------------------------------- */

/* From the bytes of the process to those of the arena; 1 stands for nothing left, 0 for no limit. */
TideBudget session_arena(const Session *s, size_t fixed_bytes)
{
    TideBudget b = s->budget;

    b.device_bytes = !s->budget_bytes ? 0 : s->budget_bytes > fixed_bytes ? s->budget_bytes - fixed_bytes : 1;
    return b;
}

static TidePolicy policy_of(const Options *o)
{
    for (int i = 0; o->policy && i < TIDE_POLICY_COUNT; i++)
        if (!strcmp(policy_names[i], o->policy)) return (TidePolicy)i;
    return TIDE_POLICY_AUTO;
}

TideStatus session_measure(const TideProgram *p, TideProfile **out)
{
    return tide_profile_measure(p, PROFILE_REPEATS, out);
}

TideStatus session_profile(Session *s)
{
    const char *file = s->options->profile;

    if (s->profile) return TIDE_OK;
    if (!file) return session_measure(s->program, &s->profile);
    if (!strcmp(file, "guess")) return tide_profile_guess(s->program, &s->profile);
    TRY(tide_profile_load(s->program, file, &s->profile));
    int filled = tide_profile_filled(s->profile);
    if (filled)
        fprintf(stderr, "tide %s: %s lacks %d operations of this model; their times are scaled from others\n",
                command_name(s->options->command), file, filled);
    return TIDE_OK;
}

TideStatus session_replan(Session *s, TideBudget budget, TidePlan **out)
{
    TRY(session_profile(s));
    return tide_plan_make(s->program, s->profile, budget, out, NULL);
}

/* 2 % or 256 MiB are left free, but no more than half: 0 would mean no limit where there is least. */
static size_t less_margin(size_t bytes)
{
    size_t margin = bytes / 50 > (size_t)256 << 20 ? bytes / 50 : (size_t)256 << 20;

    return bytes - (margin < bytes / 2 ? margin : bytes / 2);
}

/* Bytes that no plan can save: outside the arena, of persistent tensors and of a micro-step's inputs. */
static size_t static_part(const Session *s, const TidePlan *plan)
{
    return plan->fixed_bytes + tide_plan_stats(plan).static_bytes + tide_input_bytes(s->micro);
}

/* What keep-everything would take tells the fixed part and the static part too. */
static TideStatus measure_extremes(Session *s, size_t *keep_bytes)
{
    TidePlan *keep = NULL;

    TRY(session_replan(s, (TideBudget){ .policy = TIDE_POLICY_KEEP }, &keep));
    s->fixed_bytes = keep->fixed_bytes;
    s->static_bytes = static_part(s, keep);
    *keep_bytes = keep->fixed_bytes + tide_plan_stats(keep).keep_bytes;
    tide_plan_free(keep);
    return TIDE_OK;
}

/* The least budget of a policy is what it asks for when it is given next to nothing. */
static TideStatus find_least(Session *s, size_t *least)
{
    TidePlan *plan = NULL;
    TideBudget b = s->budget;
    TideStatus status;

    b.device_bytes = 1;
    status = tide_plan_make(s->program, s->profile, b, &plan, least);
    tide_plan_free(plan);
    return status == TIDE_NO_PLAN ? TIDE_OK : status;
}

static TideStatus resolve_budget(Session *s)
{
    const Size *size = &s->options->budget;
    size_t keep_bytes = 0, least = 0;

    TRY(measure_extremes(s, &keep_bytes));
    switch (size->kind) {
    case SIZE_DEFAULT: s->budget_bytes = s->default_bytes; break;
    case SIZE_BYTES: s->budget_bytes = size->bytes; break;
    case SIZE_PERCENT: {
        double rest = keep_bytes > s->static_bytes ? (double)(keep_bytes - s->static_bytes) : 0;
        s->budget_bytes = s->static_bytes + (size_t)(rest * size->percent / 100);
        break;
    }
    case SIZE_LEAST:
        TRY(find_least(s, &least));
        s->budget_bytes = s->fixed_bytes + least;
        break;
    }
    return TIDE_OK;
}

/* The plan comes first: what it says of the device's choices must be adopted before measuring makes them.
 * A profile that is given has a say in them too. */
static int load_plan(Session *s)
{
    char has[BYTES_TEXT], needs[BYTES_TEXT];
    bool budget = s->options->budget.kind != SIZE_DEFAULT;
    TideStatus status = tide_plan_load(s->program, s->options->plan, &s->plan);

    if (!status && (budget || s->options->profile)) status = session_profile(s);
    if (!status && budget) status = resolve_budget(s);
    if (status) return session_fail(s, status);
    s->fixed_bytes = s->plan->fixed_bytes;
    size_t bytes = s->fixed_bytes + s->plan->arena_bytes[SPACE_DEVICE];
    if (s->budget_bytes && bytes > s->budget_bytes) {
        refuse(s->options,
               "the plan %s takes %zu bytes (%s), over the budget of %zu (%s); plan anew under it",
               s->options->plan, bytes, bytes_text(bytes, needs), s->budget_bytes,
               bytes_text(s->budget_bytes, has));
        return EXIT_NO_PLAN;
    }
    return EXIT_DONE;
}

/* The library speaks of the arena; a budget is the whole process. */
static int refuse_budget(const Session *s, size_t least)
{
    char fixed[BYTES_TEXT], needs[BYTES_TEXT];

    if (!s->fixed_bytes || !least) return session_fail(s, TIDE_NO_PLAN);
    refuse(s->options,
           "%s. Beside these the process takes %zu bytes (%s) for context, code and libraries, so the least "
           "--budget is %zu (%s)",
           tide_message(s->tide), s->fixed_bytes, bytes_text(s->fixed_bytes, fixed), s->fixed_bytes + least,
           bytes_text(s->fixed_bytes + least, needs));
    return EXIT_NO_PLAN;
}

static int make_plan(Session *s)
{
    size_t least = 0;
    TideStatus status = session_profile(s);

    if (!status) status = resolve_budget(s);
    s->budget = session_arena(s, s->fixed_bytes);
    if (!status) status = tide_plan_make(s->program, s->profile, s->budget, &s->plan, &least);
    if (status == TIDE_NO_PLAN) return refuse_budget(s, least);
    return status ? session_fail(s, status) : EXIT_DONE;
}

int session_limits(Session *s)
{
    const Options *o = s->options;
    TideMemory memory;

    if (s->limited) return EXIT_DONE; /* what is free changes all the time */
    s->limited = true;
    if (tide_memory(s->tide, &memory)) return session_fail(s, TIDE_DEVICE);
    if (!o->curve) /* which is about all budgets, whatever is free; a budget counts what is taken by now */
        s->default_bytes = less_margin(memory.free + memory.process);
    s->budget.policy = policy_of(o);
    s->budget.no_recompute = o->no_recompute;
    if (!is_graph_file(o->model)) /* which is of another machine */
        s->budget.host_bytes = less_margin(memory.host_free);
    s->budget_bytes = o->budget.kind == SIZE_BYTES ? o->budget.bytes : s->default_bytes; /* others wait */
    if (o->host_budget.kind == SIZE_BYTES) s->budget.host_bytes = o->host_budget.bytes;
    /* For the library 0 bytes of host memory means no limit. */
    if (o->host_budget.kind == SIZE_BYTES && !o->host_budget.bytes) s->budget.no_offload = true;
    return EXIT_DONE;
}

int session_plan(Session *s)
{
    int rc = session_limits(s);

    if (!rc) rc = s->options->plan ? load_plan(s) : make_plan(s);
    if (rc) return rc;
    s->stats = tide_plan_stats(s->plan);
    s->static_bytes = static_part(s, s->plan);
    return EXIT_DONE;
}

void session_close(Session *s)
{
    tide_plan_free(s->plan);
    tide_profile_free(s->profile);
    if (s->model)
        model_free(s->model);
    else
        tide_program_free(s->program);
    tide_close(s->tide);
}
