/* test_profile_device.c - plans for a device that only a profile describes, and profiles that grow. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/plan.h"
#include "runtime/profile.h"
#include "tests/support/chain.h"
#include "tests/support/fake.h"
#include "tests/support/scratch_folder.h"

TestSuite(described, .init = scratch_folder_make, .fini = scratch_folder_remove);

/* A device, here or described, and a program on it. */
typedef struct Side {
    Tide *t;
    TideProgram *p;
    TideProfile *f;
    TidePlan *plan;
} Side;

static TidePlan *planned(const Side *s)
{
    TidePlan *plan = NULL;

    cr_assert_eq(tide_plan_make(s->p, s->f, (TideBudget){ 0 }, &plan, NULL), TIDE_OK, "%s",
                 tide_message(s->t));
    return plan;
}

static void side_close(Side *s)
{
    tide_plan_free(s->plan);
    tide_profile_free(s->f);
    tide_program_free(s->p);
    tide_close(s->t);
}

/* Profile the chain on the fake device into in_folder("profile.json"), and plan it there. */
static void open_here(Side *s)
{
    *s = (Side){ .t = fake_open() };
    s->p = chain_program(s->t);
    fake_choose(s->t, "mix of 256", "algorithm 7");
    cr_assert_eq(tide_profile_measure(s->p, 3, &s->f), TIDE_OK, "%s", tide_message(s->t));
    cr_assert_eq(tide_profile_save(s->p, s->f, in_folder("profile.json")), TIDE_OK, "%s", tide_message(s->t));
    s->plan = planned(s);
}

/* Replace the first `from` in the profile by `to`. */
static void file_edit(const char *from, const char *to)
{
    static char text[1 << 16];
    FILE *f = fopen(in_folder("profile.json"), "rb");

    cr_assert(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    char *at = strstr(text, from);
    cr_assert(at, "no %s in %s", from, text);
    f = fopen(in_folder("profile.json"), "wb");
    cr_assert(f && fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    fclose(f);
}

static void open_described(Side *s, TideProgram *(*program)(Tide *))
{
    *s = (Side){ 0 };
    cr_assert_eq(tide_open_profile(in_folder("profile.json"), (TideDeviceOptions){ 0 }, &s->t), TIDE_OK, "%s",
                 tide_message(s->t));
    s->p = program(s->t);
    cr_assert_eq(tide_profile_load(s->p, in_folder("profile.json"), &s->f), TIDE_OK, "%s",
                 tide_message(s->t));
    s->plan = planned(s);
}

/* One mix, twice as large as the chain's, with scratch. */
static TideProgram *other_program(Tide *t)
{
    TideProgram *p = tide_program_new(t);
    TideGraph *g = tide_graph_new(p, "other");
    TideTensor x = tide_input(g, "x", TIDE_F32, (TideShape){ 1, { 512 } });

    tide_output(g, tide_name(g, fake_mix(g, &x, 1, (FakeAttr){ .elements = 512, .scratch = 640 }), "y"));
    return p;
}

Test(described, a_plan_made_elsewhere_is_the_same_and_runs_where_the_device_is)
{
    Side here, there;
    TidePlan *back;
    TideRun *run;

    open_here(&here);
    open_described(&there, chain_program);
    cr_expect_eq(tide_profile_filled(there.f), 0);
    cr_expect_eq(there.plan->program_hash, here.plan->program_hash);
    cr_expect_eq(there.plan->numerics_hash, here.plan->numerics_hash);
    cr_expect_eq(there.plan->arena_bytes[SPACE_DEVICE], here.plan->arena_bytes[SPACE_DEVICE]);
    cr_assert_eq(tide_plan_save(there.p, there.plan, in_folder("plan.json")), TIDE_OK, "%s",
                 tide_message(there.t));
    cr_assert_eq(tide_plan_load(here.p, in_folder("plan.json"), &back), TIDE_OK, "%s", tide_message(here.t));
    cr_assert_eq(tide_run_new(here.p, back, &run), TIDE_OK, "%s", tide_message(here.t));
    cr_expect_eq(tide_step(run, 0), TIDE_OK, "%s", tide_message(here.t));
    tide_run_free(run);
    tide_plan_free(back);
    side_close(&here);
    side_close(&there);
}

Test(described, nothing_is_run_or_timed_without_the_device)
{
    Side here, there;
    TideRun *run = NULL;
    TideProfile *f = NULL;

    open_here(&here);
    open_described(&there, chain_program);
    cr_expect_eq(tide_run_new(there.p, there.plan, &run), TIDE_DEVICE);
    cr_expect_null(run);
    cr_expect(strstr(tide_message(there.t), "not here"), "%s", tide_message(there.t));
    cr_expect_eq(tide_profile_measure(there.p, 3, &f), TIDE_DEVICE);
    cr_expect_null(f);
    cr_expect(strstr(tide_message(there.t), "not here"), "%s", tide_message(there.t));
    side_close(&here);
    side_close(&there);
}

Test(described, a_record_that_contradicts_the_profile_is_refused)
{
    Side here, there;
    TideProfile *back = NULL;

    open_here(&here);
    open_described(&there, chain_program);
    file_edit("algorithm 7", "algorithm 8");
    cr_expect_eq(tide_profile_load(there.p, in_folder("profile.json"), &back), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(there.t), "mix of 256"), "%s", tide_message(there.t));
    cr_expect_null(back);
    file_edit("\"made_with\":\"fake 1\"", "\"made_with\":\"fake 2\"");
    cr_expect_eq(tide_profile_load(there.p, in_folder("profile.json"), &back), TIDE_OK,
                 "of other versions: left aside, not: %s", tide_message(there.t));
    tide_profile_free(back);
    side_close(&here);
    side_close(&there);
}

/* What the profile lacks is scaled from another shape, and scratch is never less than there. */
Test(described, other_shapes_are_scaled)
{
    Side here = { .t = fake_open() }, there;

    here.p = other_program(here.t);
    cr_assert_eq(tide_profile_measure(here.p, 3, &here.f), TIDE_OK, "%s", tide_message(here.t));
    cr_assert_eq(tide_profile_save(here.p, here.f, in_folder("profile.json")), TIDE_OK, "%s",
                 tide_message(here.t));
    open_described(&there, chain_program);
    cr_expect_gt(tide_profile_filled(there.f), 0);
    cr_expect_geq(node_scratch(there.p, there.p->graphs[0]->nodes[0]), 640);
    side_close(&here);
    side_close(&there);
}

static void expect_refused(const char *from, const char *to, const char *message)
{
    Side here;
    Tide *t = NULL;

    open_here(&here);
    file_edit(from, to);
    cr_expect_eq(tide_open_profile(in_folder("profile.json"), (TideDeviceOptions){ 0 }, &t), TIDE_BAD_FILE,
                 "%s", to);
    cr_expect(strstr(tide_message(t), message), "%s", tide_message(t));
    tide_close(t);
    side_close(&here);
}

/* Sums of sizes that a file may hold do not overflow, in placement or anywhere else. */
Test(described, sizes_that_no_device_has_are_refused)
{
    /* Digits before those of the file make each number too large. */
    expect_refused("\"alignment\": ", "\"alignment\": 23058430092136", "alignment is ");
    expect_refused("\"fixed_bytes\": ", "\"fixed_bytes\": 703687441776640", "fixed_bytes is ");
    expect_refused("\"memory_bytes\": ", "\"memory_bytes\": 99999", "memory_bytes is ");
    expect_refused("\"scratch_bytes\": ", "\"scratch_bytes\": 703687441776640", "scratch_bytes is ");
}

/* Scratch is scaled by the work; by a measured work of next to nothing it grows beyond all numbers. */
Test(described, scaled_scratch_stays_a_number_of_bytes)
{
    Side here = { .t = fake_open() }, there;

    here.p = other_program(here.t);
    cr_assert_eq(tide_profile_measure(here.p, 3, &here.f), TIDE_OK, "%s", tide_message(here.t));
    for (int i = 0; i < here.f->n_entries; i++) {
        here.f->entries[i].flops = 1e-300;
        here.f->entries[i].bytes = 1e-300;
        here.f->entries[i].scratch_bytes = (size_t)PROFILE_MOST_BYTES;
    }
    cr_assert_eq(tide_profile_save(here.p, here.f, in_folder("profile.json")), TIDE_OK, "%s",
                 tide_message(here.t));
    open_described(&there, chain_program);
    for (int i = 0; i < there.p->graphs[0]->n_nodes; i++)
        cr_expect_leq(node_scratch(there.p, there.p->graphs[0]->nodes[i]), (size_t)PROFILE_MOST_BYTES);
    side_close(&here);
    side_close(&there);
}

/* Each entry is looked for among those before it: a file of a hundred thousand would be read for minutes. */
Test(described, more_entries_than_are_read_are_refused)
{
    Side here;
    Tide *t = NULL;

    open_here(&here);
    TideProfile *f = here.f;
    static char keys[20000][16];
    Entry *entries = f->entries, *many = calloc(20000, sizeof *many);
    int n = f->n_entries;
    cr_assert(many);
    for (int i = 0; i < 20000; i++) {
        snprintf(keys[i], sizeof keys[i], "key%d", i);
        many[i] = (Entry){ .key = keys[i], .seconds = 1, .source = SOURCE_MEASURED };
    }
    f->entries = many;
    f->n_entries = 20000;
    cr_assert_eq(tide_profile_save(here.p, f, in_folder("profile.json")), TIDE_OK, "%s",
                 tide_message(here.t));
    f->entries = entries;
    f->n_entries = n;
    free(many);
    cr_expect_eq(tide_open_profile(in_folder("profile.json"), (TideDeviceOptions){ 0 }, &t), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(t), "20000 items"), "%s", tide_message(t));
    tide_close(t);
    side_close(&here);
}

Test(described, a_profile_without_its_device_is_refused)
{
    Side here;
    Tide *t = NULL;

    open_here(&here);
    file_edit("  \"types\": [\"f32\", \"i32\"],", "");
    cr_expect_eq(tide_open_profile(in_folder("profile.json"), (TideDeviceOptions){ 0 }, &t), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(t), "profile it again"), "%s", tide_message(t));
    tide_close(t);
    side_close(&here);
}

Test(described, profiles_grow_by_other_programs_of_the_same_device)
{
    Side here;
    TideProfile *f = NULL, *back = NULL;

    open_here(&here);
    TideProgram *other = other_program(here.t);
    cr_assert_eq(tide_profile_measure(other, 3, &f), TIDE_OK, "%s", tide_message(here.t));
    int alone = f->n_entries;
    cr_assert_eq(tide_profile_merge(other, f, here.f), TIDE_OK, "%s", tide_message(here.t));
    cr_expect_eq(f->n_entries, alone + here.f->n_entries, "the programs have no operation in common");
    cr_assert_eq(tide_profile_save(other, f, in_folder("profile.json")), TIDE_OK, "%s", tide_message(here.t));
    cr_assert_eq(tide_profile_load(here.p, in_folder("profile.json"), &back), TIDE_OK, "%s",
                 tide_message(here.t));
    cr_expect_eq(tide_profile_filled(back), 0);
    snprintf(f->versions, sizeof f->versions, "fake 2");
    cr_expect_eq(tide_profile_merge(here.p, here.f, f), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(here.t), "fake 2"), "%s", tide_message(here.t));
    tide_profile_free(back);
    tide_profile_free(f);
    tide_program_free(other);
    side_close(&here);
}
