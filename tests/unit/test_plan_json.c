/* test_plan_json.c - a plan file comes back as it went, and nothing else is accepted. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/support/chain.h"
#include "tests/support/fake.h"
#include "tests/support/hand_plan.h"
#include "tests/support/random_graph.h"
#include "tests/support/scratch_folder.h"

typedef struct Text {
    char *s;
    size_t n;
} Text;

static Text file_read(const char *path)
{
    FILE *f = fopen(path, "rb");
    Text t = { malloc(1 << 22), 0 };

    cr_assert(f && t.s, "%s", path);
    t.n = fread(t.s, 1, (1 << 22) - 1, f);
    t.s[t.n] = 0;
    fclose(f);
    return t;
}

static void file_write(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");

    cr_assert(f, "%s", path);
    cr_assert_eq(fwrite(text, 1, n, f), n);
    fclose(f);
}

TestSuite(plan_json, .init = scratch_folder_make, .fini = scratch_folder_remove);

/* ---- There and back -------------------------------------------------------- */

static void there_and_back(const TideProgram *p, const TidePlan *plan, const char *what)
{
    Tide *t = tide_program_device(p);
    TidePlan *back;

    cr_assert_eq(tide_plan_save(p, plan, in_folder("a.json")), TIDE_OK, "%s", tide_message(t));
    cr_assert_eq(tide_plan_load(p, in_folder("a.json"), &back), TIDE_OK, "%s: %s", what, tide_message(t));
    cr_assert_eq(tide_plan_save(p, back, in_folder("b.json")), TIDE_OK, "%s", tide_message(t));
    Text a = file_read(in_folder("a.json")), b = file_read(in_folder("b.json"));
    cr_expect(a.n == b.n && memcmp(a.s, b.s, a.n) == 0, "%s: the second save differs", what);
    cr_expect_eq(tide_plan_fate(back, (TideTensor){ 1 }), tide_plan_fate(plan, (TideTensor){ 1 }));
    TidePlanStats s = tide_plan_stats(back), w = tide_plan_stats(plan);
    cr_expect(s.seconds == w.seconds && s.keep_bytes == w.keep_bytes && s.stall_seconds == w.stall_seconds);
    tide_plan_free(back);
    free(a.s);
    free(b.s);
}

Test(plan_json, save_load_save_gives_equal_bytes)
{
    Tide *t = fake_open();

    for (uint64_t seed = 0; seed < 20; seed++) {
        TideProgram *p = random_program(t, (RandomSpec){ .seed = seed });
        TidePlan *plan = hand_plan_everything(p);
        there_and_back(p, plan, "bare");
        cr_assert(hand_decorate(plan));
        there_and_back(p, plan, "decorated");
        tide_plan_free(plan);
        tide_program_free(p);
    }
    TideProgram *p = chain_program(t);
    TidePlan *plan = chain_plan(p);
    there_and_back(p, plan, "chain");
    tide_plan_free(plan);
    tide_program_free(p);
    tide_close(t);
}

/* ---- What is refused ------------------------------------------------------- */

typedef struct Good {
    Tide *t;
    TideProgram *p;
    Text text;
} Good;

static Good good_new(void)
{
    Good g = { .t = fake_open() };

    g.p = chain_program(g.t);
    TidePlan *plan = chain_plan(g.p);
    cr_assert(hand_decorate(plan));
    cr_assert_eq(tide_plan_save(g.p, plan, in_folder("a.json")), TIDE_OK);
    tide_plan_free(plan);
    g.text = file_read(in_folder("a.json"));
    return g;
}

static void good_free(Good *g)
{
    free(g->text.s);
    tide_program_free(g->p);
    tide_close(g->t);
}

static void expect_bad(Good *g, const char *text, size_t n, const char *what)
{
    TidePlan *plan = NULL;

    file_write(in_folder("bad.json"), text, n);
    cr_expect_eq(tide_plan_load(g->p, in_folder("bad.json"), &plan), TIDE_BAD_FILE, "%s: accepted, or: %s",
                 what, tide_message(g->t));
    cr_expect_null(plan);
    cr_expect(strstr(tide_message(g->t), "bad.json"), "%s: no file in: %s", what, tide_message(g->t));
}

Test(plan_json, a_file_cut_short_is_refused)
{
    Good g = good_new();
    size_t whole = g.text.n - 2; /* without the last brace and line end */

    for (size_t i = 0; i <= 50; i++) expect_bad(&g, g.text.s, whole * i / 50, "cut");
    good_free(&g);
}

/* The first place where `from` stands becomes `to`, and the message must have `word`. */
typedef struct Change {
    const char *from, *to, *word;
} Change;

static const Change changes[] = {
    { "{\"tide_plan\": 1,", "{", "tide_plan" },
    { "\"tide_plan\": 1", "\"tide_plan\": 2", "version 2" },
    { "\"tide_plan\": 1", "\"tide_plan\": \"1\"", "\"1\"" },
    { "\"tide_plan\": 1", "\"tide_plan\": 1, \"tide_plan\": 1", "duplicate" },
    { "\"tide_plan\": 1", "\"tide_plan\": 1, \"extra\": 0", "extra" },
    { "\"program\": \"", "\"program\": \"z", "program" },
    { "\"program\": \"", "\"program\": \"0000000000000000\", \"x\": \"", "\"x\"" },
    { "\"numerics\": \"", "\"numerics\": \"0", "16 hexadecimal" },
    { "\"policy\": \"offload-inputs\"", "\"policy\": \"best\"", "\"best\"" },
    { "\"policy\": \"offload-inputs\"", "\"policy\": 3", "must be a string" },
    { "\"fixed_bytes\": 12345", "\"fixed_bytes\": -1", "-1" },
    { "\"fixed_bytes\": 12345", "\"fixed_bytes\": 12345.5", "12345.5" },
    { "\"fixed_bytes\": 12345", "\"fixed_bytes\": NaN", "line 5" },
    { "\"fixed_bytes\": 12345", "\"fixed_bytes\": 99999999999999999999", "too big" },
    { "\"fixed_bytes\": 12345", "\"fixed_bytes\": 9223372036854775807", "9223372036854775807" },
    { "\"fixed_bytes\": 12345,", "", "fixed_bytes" },
    { "\"device\": 4096", "\"device\": 4095", "4095" },
    { "\"device\": 4096", "\"device\": 1e300", "1.0000000000000001e+300" },
    { "\"device\": 4096", "\"device\": null", "null" },
    { "\"device\": 4096, \"host\"", "\"device\": 4096, \"disk\"", "disk" },
    { "\"device\": 4096, ", "", "\"device\"" },
    { "\"homes\": []", "\"homes\": {}", "an object" },
    { "\"homes\": []", "\"homes\": [[1, \"device\", 0, 1024, \"x\"]]", "no flat" },
    { "\"homes\": []", "\"homes\": [[1, \"device\", 0, 1024]]", "homes[0] has 4 items" },
    { "[1, \"offload\", ", "[1, \"auction\", ", "auction" },
    { "[1, \"offload\", ", "[99, \"offload\", ", "tensor 99" },
    { "[1, \"offload\", ", "[1.5, \"offload\", ", "decisions[0][0] is 1.5" },
    { "[1, \"offload\", 0.1", "[1, \"offload\", 1e999", "line" },
    { "\"keep_seconds\": 0", "\"keep_seconds\": -1", "stats.keep_seconds is -1" },
    { "\"keep_seconds\": 0", "\"keep_seconds\": \"0\"", "stats.keep_seconds" },
    { "\"keep_seconds\": 0,", "", "keep_seconds" },
    { "\"tallies\": {\"auto\": [0, 0]", "\"tallies\": {\"auto\": [0]", "stats.tallies.auto has 1 items" },
    { "\"tallies\": {\"auto\": [0, 0]", "\"tallies\": {\"none\": [0, 0]", "none" },
    { "\"sections\": [", "\"sections\": [], \"more\": [", "more" },
    { "{\"graph\": \"chain\"", "{\"graph\": \"train\"", "\"train\"" },
    { "{\"graph\": \"chain\"", "7, {\"graph\": \"chain\"", "sections[0] is 7" },
    { "{\"graph\": \"chain\"", "{\"graph\": 0", "sections[0].graph is 0" },
    { "\"events\": 7", "\"events\": 8", "event 7 of 8" },
    { "\"events\": 7", "\"events\": 6", "event 6 of 6" },
    { "\"events\": 7", "\"events\": 2147483648", "2147483648" },
    { "\"slots\": [", "\"slots\": [1, ", "slots[0] is 1" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"device\", 1024, 1024]", "slots[1] has 4 items" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"device\", 1024, 1024, \"a\", 1]", "slots[1] has 6 items" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"device\", 1024, 1024, 7]", "slots[1][4] is 7" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"moon\", 1024, 1024, \"a\"]", "\"moon\"" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"device\", -64, 1024, \"a\"]", "slots[1][2] is -64" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"device\", 4611686018427387904, 1024, \"a\"]",
      "leaves its arena" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"device\", 1024, 4611686018427387904, \"a\"]",
      "leaves its arena" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"device\", 1024, 0, \"a\"]", "too small" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"device\", 1000, 1024, \"a\"]", "multiple of 64" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[8, \"device\", 1024, 1024, \"a\"]", "tensor 8" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[-2, \"device\", 1024, 1024, \"a\"]", "slots[1][0] is -2" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[4294967298, \"device\", 1024, 1024, \"a\"]", "4294967298" },
    { "[2, \"device\", 1024, 1024, \"a\"]", "[2, \"device\", 2048, 1024, \"a\"]", "share 1024 bytes" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"run\", \"compute\", 0, [0, 1]]",
      "2 arguments, it takes 3" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"run\", \"compute\", 0, [0, 1, -1, -1]]", "4 arguments" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"run\", \"compute\", 6, [0, 1, -1]]", "node 6" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"run\", \"compute\", 0, 1]", "steps[5][3] is 1" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"run\", \"compute\", 0]", "steps[5] has 3 items" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"walk\", \"compute\", 0, [0, 1, -1]]", "\"walk\"" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"run\", \"side\", 0, [0, 1, -1]]", "\"side\"" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"run\", \"out\", 0, [0, 1, -1]]", "compute lane" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"run\", \"compute\", 0, [0, 1000, -1]]",
      "slot 1000 of 12" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[\"run\", \"compute\", 0, [1, 0, -1]]", "tensor 1 (x)" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "[]", "steps[5] has 0 items" },
    { "[\"run\", \"compute\", 0, [0, 1, -1]]", "null", "steps[5] is null" },
    { "[\"copy\", \"in\", 10, 0]", "[\"copy\", \"in\", 10]", "steps[2] has 3 items" },
    { "[\"copy\", \"in\", 10, 0]", "[\"copy\", \"in\", 10, 12]", "of 12" },
    { "[\"wait\", \"in\", 0]", "[\"wait\", \"in\", 70]", "event 70" },
    { "[\"wait\", \"in\", 0]", "[\"wait\", \"in\", 0, 0]", "steps[1] has 4 items" },
    { "[\"wait\", \"in\", 0]", "[\"wait\", \"in\", true]", "true" },
    { "\"timeline\": [", "\"timeline\": [[0, 1], ", "has 27 items" },
    { "\"timeline\": [\n    [0, ", "\"timeline\": [\n    [\"0\", ", "timeline[0][0]" },
    { "\"timeline\": [\n    [0, ", "\"timeline\": [\n    [5, ", "timeline[0][1]" },
    { "\"timeline\"", "\"times\"", "\"times\"" },
};

Test(plan_json, what_is_malformed_is_refused)
{
    Good g = good_new();

    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const Change *c = &changes[i];
        char *at = strstr(g.text.s, c->from);
        cr_assert(at, "no %s in the file", c->from);
        size_t before = (size_t)(at - g.text.s), room = g.text.n + strlen(c->to) + 1;
        char *text = malloc(room);
        cr_assert(text);
        int n = snprintf(text, room, "%.*s%s%s", (int)before, g.text.s, c->to, at + strlen(c->from));
        expect_bad(&g, text, (size_t)n, c->to);
        cr_expect(strstr(tide_message(g.t), c->word), "%s: no '%s' in: %s", c->to, c->word,
                  tide_message(g.t));
        free(text);
    }
    good_free(&g);
}

static const char *const documents[] = { "",
                                         " ",
                                         "null",
                                         "[]",
                                         "{}",
                                         "\"tide_plan\"",
                                         "{\"tide_plan\": 1}",
                                         "{]",
                                         "\x00\x01\x02",
                                         "\xff\xfe{}",
                                         "{\"tide_plan\": 1} {}" };

Test(plan_json, what_is_no_plan_is_refused)
{
    Good g = good_new();

    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
        expect_bad(&g, documents[i], strlen(documents[i]), documents[i]);
    char *deep = malloc(1 << 20);
    cr_assert(deep);
    memset(deep, '[', 1 << 20);
    expect_bad(&g, deep, 1 << 20, "a million brackets");
    free(deep);
    good_free(&g);
}

/* A file of a gigabyte is not read into memory to learn that it is no plan. */
Test(plan_json, a_huge_file_is_refused)
{
    Good g = good_new();
    TidePlan *plan;

    file_write(in_folder("bad.json"), "{", 1);
    cr_assert_eq(truncate(in_folder("bad.json"), (off_t)1 << 30), 0);
    cr_expect_eq(tide_plan_load(g.p, in_folder("bad.json"), &plan), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(g.t), "larger than 67108864 bytes"), "%s", tide_message(g.t));
    good_free(&g);
}

/* Any one byte may change: the file is refused, or it is still a plan that was proven. */
Test(plan_json, a_changed_byte_does_no_harm)
{
    Good g = good_new();
    uint64_t state = 3;
    int refused = 0;

    for (int i = 0; i < 2000; i++) {
        size_t at = chance(&state, (uint32_t)g.text.n);
        char was = g.text.s[at];
        TidePlan *plan = NULL;
        g.text.s[at] = (char)chance(&state, 256);
        file_write(in_folder("bad.json"), g.text.s, g.text.n);
        TideStatus status = tide_plan_load(g.p, in_folder("bad.json"), &plan);
        cr_expect(status == TIDE_OK || status == TIDE_BAD_FILE, "byte %d: %s", (int)at, tide_message(g.t));
        cr_expect_eq(status == TIDE_OK, plan != NULL);
        refused += status != TIDE_OK;
        tide_plan_free(plan);
        g.text.s[at] = was;
    }
    cr_expect_gt(refused, 1000);
    good_free(&g);
}

Test(plan_json, another_program_is_refused)
{
    Good g = good_new();
    TideProgram *other = random_program(g.t, (RandomSpec){ .seed = 1 });
    TidePlan *plan;

    cr_expect_eq(tide_plan_load(other, in_folder("a.json"), &plan), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(g.t), "another model or shape"), "%s", tide_message(g.t));
    tide_program_free(other);
    good_free(&g);
}

Test(plan_json, the_world_may_fail)
{
    Good g = good_new();
    TidePlan *plan = chain_plan(g.p), *loaded;

    cr_expect_eq(tide_plan_load(g.p, in_folder("none.json"), &loaded), TIDE_IO);
    cr_expect(strstr(tide_message(g.t), "none.json"), "%s", tide_message(g.t));
    cr_expect_eq(tide_plan_load(g.p, scratch_folder(), &loaded), TIDE_IO, "a folder: %s", tide_message(g.t));
    cr_expect_eq(tide_plan_save(g.p, plan, in_folder("no/such/folder.json")), TIDE_IO);
    cr_expect(strstr(tide_message(g.t), "folder.json"), "%s", tide_message(g.t));
    cr_expect_eq(tide_plan_save(g.p, plan, "/dev/full"), TIDE_IO, "%s", tide_message(g.t));
    plan->stats.keep_seconds = HUGE_VAL;
    cr_expect_eq(tide_plan_save(g.p, plan, in_folder("b.json")), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(g.t), "keep_seconds"), "%s", tide_message(g.t));
    cr_expect_neq(access(in_folder("b.json"), F_OK), 0, "nothing was written");
    tide_plan_free(plan);
    good_free(&g);
}

/* ---- The listing ----------------------------------------------------------- */

Test(plan_json, the_listing_names_steps_places_and_times)
{
    static const char *const lines[] = {
        "policy offload-inputs",
        "device 4.00 KiB",
        "offloaded 1 (4.00 KiB)",
        "graph chain: 6 nodes, 26 steps, 12 slots, 7 events",
        "    5  compute  run     a  x -> a @1K  142.86 ms\n",
        "    8  out      copy     a @1K -> a @host:0  1.00 KiB  142.86 ms\n",
        "   19  compute  run     b  a -> b @2K  142.86 ms  again\n",
        "   25  compute  wait    e6\n",
    };
    Good g = good_new();
    TidePlan *plan;
    FILE *to = fopen(in_folder("b.json"), "wb");

    cr_assert_eq(tide_plan_load(g.p, in_folder("a.json"), &plan), TIDE_OK, "%s", tide_message(g.t));
    cr_assert(to);
    tide_plan_print(g.p, plan, to);
    fclose(to);
    Text text = file_read(in_folder("b.json"));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect(strstr(text.s, lines[i]), "no '%s' in\n%s", lines[i], text.s);
    free(text.s);
    tide_plan_free(plan);
    good_free(&g);
}
