/* test_profile.c - a profile comes back from its file as it went, what is malformed is refused, and the
 * numerics record travels with profiles and plans. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/plan.h"
#include "runtime/profile.h"
#include "tests/support/chain.h"
#include "tests/support/fake.h"
#include "tests/support/scratch_folder.h"

enum { TEXT_BYTES = 1 << 16 };

/* A fake device, a program on it, and that program's profile in a file. */
typedef struct Bed {
    Tide *t;
    TideProgram *p;
    TideProfile *f;
    char text[TEXT_BYTES];
} Bed;

TestSuite(profile, .init = scratch_folder_make, .fini = scratch_folder_remove);

static void file_read(const char *path, char *text)
{
    FILE *f = fopen(path, "rb");

    cr_assert(f, "%s", path);
    text[fread(text, 1, TEXT_BYTES - 1, f)] = 0;
    fclose(f);
}

static void file_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    cr_assert(f && fputs(text, f) >= 0, "%s", path);
    fclose(f);
}

static void bed_open(Bed *b)
{
    b->t = fake_open();
    b->p = chain_program(b->t);
    fake_choose(b->t, "mix of 256", "algorithm 7");
    cr_assert_eq(tide_profile_measure(b->p, 3, &b->f), TIDE_OK, "%s", tide_message(b->t));
    cr_assert_eq(tide_profile_save(b->p, b->f, in_folder("a.json")), TIDE_OK, "%s", tide_message(b->t));
    file_read(in_folder("a.json"), b->text);
}

static void bed_close(Bed *b)
{
    tide_profile_free(b->f);
    tide_program_free(b->p);
    tide_close(b->t);
}

/* ---- There and back -------------------------------------------------------------------------- */

Test(profile, save_load_save_gives_equal_bytes)
{
    static char again[TEXT_BYTES];
    static Bed b;
    TideProfile *back;

    bed_open(&b);
    cr_assert_eq(tide_profile_load(b.p, in_folder("a.json"), &back), TIDE_OK, "%s", tide_message(b.t));
    cr_expect_eq(tide_profile_filled(back), 0, "the file has all operations of its program");
    cr_assert_eq(tide_profile_save(b.p, back, in_folder("b.json")), TIDE_OK, "%s", tide_message(b.t));
    file_read(in_folder("b.json"), again);
    cr_expect_str_eq(again, b.text);
    cr_expect(strstr(b.text, "\"alignment\": 64") && strstr(b.text, "\"scratch_bytes\""), "%s", b.text);
    cr_expect(strstr(b.text, "\"mix of 256\":\"algorithm 7\""), "%s", b.text);
    tide_profile_free(back);
    bed_close(&b);
}

Test(profile, copies_are_measured_by_size_and_give_all_memory_back)
{
    static Bed b;

    bed_open(&b);
    cr_assert_eq(b.f->n_sizes, 6, "64 KiB to 64 MiB by fours");
    for (int i = 0; i < b.f->n_sizes; i++) {
        const LinkSpeed *s = &b.f->by_size[i];
        cr_expect_eq(s->bytes, (size_t)65536 << 2 * i);
        cr_expect(s->out > 0 && s->in > 0 && s->duplex_out > 0 && s->duplex_in > 0);
    }
    cr_expect(b.f->link.out > 0 && b.f->link.duplex <= b.f->link.out && b.f->link.latency > 0);
    cr_expect_eq(b.f->fixed_bytes, 0, "this device has no fixed part");
    cr_expect_eq(fake_counts(b.t)->device_bytes, 0);
    cr_expect_eq(fake_counts(b.t)->host_bytes, 0);
    bed_close(&b);
}

/* Files of the first programs had less. */
Test(profile, what_may_be_left_out)
{
    static Bed b;
    TideProfile *back;

    bed_open(&b);
    file_write(in_folder("b.json"),
               "{ \"tide_profile\": 1, \"device\": \"fake\", \"versions\": \"fake 0\", \"fixed_bytes\": 5, "
               "\"link\": { \"out_bytes_per_second\": 1e9, \"in_bytes_per_second\": 2e9, "
               "\"duplex_bytes_per_second\": 1e9, \"latency_seconds\": 1e-6 }, \"nodes\": [] }");
    cr_assert_eq(tide_profile_load(b.p, in_folder("b.json"), &back), TIDE_OK, "%s", tide_message(b.t));
    cr_expect_gt(tide_profile_filled(back), 0);
    cr_expect_eq(back->fixed_bytes, 5);
    cr_expect_eq(back->n_sizes, 0);
    cr_expect_null(back->record);
    tide_profile_free(back);
    bed_close(&b);
}

/* ---- What is refused --------------------------------------------------------------------------- */

/* The first place where `from` stands becomes `to`, and the message must have `word`. */
typedef struct Change {
    const char *from, *to, *word;
} Change;

static const Change changes[] = {
    { "{ \"tide_profile\": 1,", "{", "tide_profile" },
    { "\"tide_profile\": 1", "\"tide_profile\": 2", "tide_profile is 2" },
    { "\"tide_profile\": 1", "\"tide_profile\": 1, \"extra\": 0", "extra" },
    { "\"tide_profile\": 1", "\"tide_profile\": 1, \"tide_profile\": 1", "duplicate" },
    { "\"device\": \"fake\"", "\"device\": 7", "device is 7" },
    { "\"fixed_bytes\": 0", "\"fixed_bytes\": -1", "fixed_bytes is -1" },
    { "\"fixed_bytes\": 0", "\"fixed_bytes\": 0.5", "fixed_bytes is 0.5" },
    { "\"fixed_bytes\": 0,", "", "fixed_bytes" },
    { "\"alignment\": 64", "\"alignment\": 48", "alignment 48" },
    { "\"alignment\": 64", "\"alignment\": 0", "alignment 0" },
    { "\"alignment\": 64", "\"alignment\": \"64\"", "alignment is" },
    { "\"latency_seconds\"", "\"latency\"", "latency" },
    { "\"out_bytes_per_second\": ", "\"out_bytes_per_second\": -", "link.out_bytes_per_second" },
    { "\"link_by_size\": [", "\"link_by_size\": {}, \"x\": [", "\"x\"" },
    { "\"link_by_size\": [", "\"link_by_size\": [7, ", "link_by_size[0] is 7" },
    { "\"link_by_size\": [", "\"link_by_size\": [[1, 2, 3, 4], ", "link_by_size[0] has 4 items" },
    { "\"link_by_size\": [", "\"link_by_size\": [[1, 2, 3, 4, 0], ", "link_by_size[0][4] is 0" },
    { "\"link_by_size\": [", "\"link_by_size\": [[0, 1, 1, 1, 1], ", "link_by_size[0][0] is 0" },
    { "\"link_by_size\": [", "\"link_by_size\": [[65536, 1, 1, 1, 1], ", "sizes must ascend" },
    { "\"record\": {", "\"record\": null, \"y\": {", "\"y\"" },
    { "\"record\": {", "\"record\": { \"z\": 0, ", "\"z\"" },
    { "\"tide_numerics\":1", "\"tide_numerics\":2", "record.tide_numerics is 2" },
    { "\"choices\":{", "\"choices\":[], \"w\": {", "\"w\"" },
    { "\"made_with\":\"fake 1\"", "\"made_with\":1", "record.made_with is 1" },
    { "\"algorithm 7\"", "7", "mix of 256" },
    { "\"nodes\": [", "\"nodes\": [3, ", "nodes[0] is 3" },
    { "\"seconds\": ", "\"seconds\": -", "nodes[0].seconds" },
    { "\"seconds\": ", "\"seconds\": 0, \"moments\": ", "moments" },
    { "\"scratch_bytes\": 0", "\"scratch_bytes\": -64", "scratch_bytes is -64" },
    { "\"scratch_bytes\": 0", "\"scratch\": 0", "\"scratch\"" },
    { "\"flops\": ", "\"flops\": \"many\", \"f\": ", "\"f\"" },
};

static void expect_bad(Bed *b, const char *text, const char *what)
{
    TideProfile *back = NULL;

    file_write(in_folder("b.json"), text);
    cr_expect_eq(tide_profile_load(b->p, in_folder("b.json"), &back), TIDE_BAD_FILE, "%s: accepted, or: %s",
                 what, tide_message(b->t));
    cr_expect_null(back);
    cr_expect(strstr(tide_message(b->t), "b.json"), "%s: no file in: %s", what, tide_message(b->t));
}

Test(profile, what_is_malformed_is_refused)
{
    static char text[TEXT_BYTES];
    static Bed b;

    bed_open(&b);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const Change *c = &changes[i];
        char *at = strstr(b.text, c->from);
        cr_assert(at, "no %s in %s", c->from, b.text);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - b.text), b.text, c->to, at + strlen(c->from));
        expect_bad(&b, text, c->to);
        cr_expect(strstr(tide_message(b.t), c->word), "%s: no '%s' in: %s", c->to, c->word,
                  tide_message(b.t));
    }
    for (size_t i = 0, n = strlen(b.text) - 2; i <= 40; i++) {
        snprintf(text, n * i / 40 + 1, "%s", b.text);
        expect_bad(&b, text, "cut");
    }
    bed_close(&b);
}

/* ---- The numerics record ------------------------------------------------------------------------- */

Test(profile, a_device_adopts_the_record_of_a_profile_or_refuses_it)
{
    static Bed b;
    TideProfile *back = NULL;

    bed_open(&b);
    tide_profile_free(b.f);
    tide_program_free(b.p);
    tide_close(b.t);
    b.t = fake_open(); /* the next process */
    b.p = chain_program(b.t);
    cr_assert_eq(tide_profile_load(b.p, in_folder("a.json"), &b.f), TIDE_OK, "%s", tide_message(b.t));
    cr_assert(fake_choice(b.t, "mix of 256"), "the record was not adopted");
    cr_expect_str_eq(fake_choice(b.t, "mix of 256"), "algorithm 7");
    char *at = strstr(b.text, "algorithm 7");
    cr_assert(at);
    at[strlen("algorithm ")] = '8';
    file_write(in_folder("b.json"), b.text);
    cr_expect_eq(tide_profile_load(b.p, in_folder("b.json"), &back), TIDE_BAD_FILE,
                 "two records that disagree");
    cr_expect(strstr(tide_message(b.t), "b.json") && strstr(tide_message(b.t), "mix of 256"), "%s",
              tide_message(b.t));
    at = strstr(b.text, "\"made_with\":\"fake 1\"");
    cr_assert(at);
    at[strlen("\"made_with\":\"fake ")] = '2';
    file_write(in_folder("b.json"), b.text);
    cr_expect_eq(tide_profile_load(b.p, in_folder("b.json"), &back), TIDE_OK,
                 "of other versions: left aside, not: %s", tide_message(b.t));
    tide_profile_free(back);
    bed_close(&b);
}

static TidePlan *planned(const Bed *b)
{
    TidePlan *plan = NULL;

    cr_assert_eq(tide_plan_make(b->p, b->f, (TideBudget){ 0 }, &plan, NULL), TIDE_OK, "%s",
                 tide_message(b->t));
    return plan;
}

Test(profile, a_plan_stays_good_when_other_shapes_are_tuned)
{
    static Bed b;
    TidePlan *back;
    TideRun *run;

    bed_open(&b);
    TidePlan *plan = planned(&b);
    cr_assert(plan->record && strstr(plan->record, "algorithm 7"));
    cr_assert_eq(tide_plan_save(b.p, plan, in_folder("b.json")), TIDE_OK, "%s", tide_message(b.t));
    fake_choose(b.t, "mix of 512", "algorithm 3");
    cr_expect_eq(tide_plan_check(b.p, plan), TIDE_OK, "%s", tide_message(b.t));
    cr_assert_eq(tide_plan_load(b.p, in_folder("b.json"), &back), TIDE_OK, "%s", tide_message(b.t));
    cr_expect_eq(back->numerics_hash, plan->numerics_hash);
    cr_expect_str_eq(back->record, plan->record);
    cr_assert_eq(tide_run_new(b.p, back, &run), TIDE_OK, "%s", tide_message(b.t));
    cr_expect_eq(tide_step(run, 0), TIDE_OK, "%s", tide_message(b.t));
    tide_run_free(run);
    tide_plan_free(back);
    tide_plan_free(plan);
    bed_close(&b);
}

Test(profile, a_plan_is_refused_where_its_choices_cannot_be_kept)
{
    static char text[TEXT_BYTES];
    static Bed b;
    TidePlan *back = NULL;
    TideRun *run = NULL;

    bed_open(&b);
    TidePlan *plan = planned(&b);
    cr_assert_eq(tide_plan_save(b.p, plan, in_folder("b.json")), TIDE_OK, "%s", tide_message(b.t));
    fake_choose(b.t, "mix of 256", "algorithm 8");
    cr_expect_eq(tide_plan_load(b.p, in_folder("b.json"), &back), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(b.t), "b.json") && strstr(tide_message(b.t), "mix of 256"), "%s",
              tide_message(b.t));
    cr_expect_null(back);
    cr_expect_eq(tide_run_new(b.p, plan, &run), TIDE_BAD_FILE, "the device chose otherwise meanwhile");
    cr_expect_null(run);
    file_read(in_folder("b.json"), text);
    char *at = strstr(text, "algorithm 7");
    cr_assert(at);
    at[strlen("algorithm ")] = '8'; /* now it agrees with the device, but not with its own hash */
    file_write(in_folder("b.json"), text);
    cr_expect_eq(tide_plan_load(b.p, in_folder("b.json"), &back), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(b.t), "numerics"), "%s", tide_message(b.t));
    tide_plan_free(plan);
    bed_close(&b);
}

/* The text of a record in a file may be laid out anew by whoever edits the file. */
Test(profile, the_layout_of_a_record_means_nothing)
{
    static char text[TEXT_BYTES], laid_out[TEXT_BYTES];
    static Bed b;
    TidePlan *back;

    bed_open(&b);
    TidePlan *plan = planned(&b);
    cr_assert_eq(tide_plan_save(b.p, plan, in_folder("b.json")), TIDE_OK, "%s", tide_message(b.t));
    file_read(in_folder("b.json"), text);
    char *at = strstr(text, "\"choices\":{");
    cr_assert(at);
    snprintf(laid_out, sizeof laid_out, "%.*s\n \"choices\" :\n {%s", (int)(at - text), text, at + 11);
    file_write(in_folder("b.json"), laid_out);
    cr_expect_eq(tide_plan_load(b.p, in_folder("b.json"), &back), TIDE_OK, "%s", tide_message(b.t));
    tide_plan_free(back);
    tide_plan_free(plan);
    bed_close(&b);
}
