/* test_numerics.c - the numerics record: what is adopted, what is refused, what the cache keeps. Needs no
 * GPU. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/cuda/numerics.h"

static Numerics record_of(const char *made_with)
{
    Numerics n = { 0 };

    snprintf(n.made_with, sizeof n.made_with, "%s", made_with);
    return n;
}

Test(numerics, text_and_back_keep_every_choice)
{
    Numerics n = record_of("Device A, library 1"), back = record_of("Device A, library 1");
    char key[32], why[NUMERICS_VALUE_BYTES] = "";

    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "gemm %d", i);
        cr_assert(numerics_add(&n, key, key + 5, CHOICE_TIMED));
    }
    char *text = numerics_text(&n);
    cr_assert(text);
    cr_assert(!numerics_adopt(&back, text, CHOICE_GIVEN, why, sizeof why), "%s", why);
    cr_expect_eq(back.n_choices, 100);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "gemm %d", i);
        const char *value = numerics_use(&back, key, NULL);
        cr_expect(value && strcmp(value, key + 5) == 0, "%s is %s", key, value ? value : "missing");
    }
    char *again = numerics_text(&back);
    cr_expect(again && strcmp(text, again) == 0);
    free(text);
    free(again);
    numerics_free(&n);
    numerics_free(&back);
}

static const char record[] = "{\"tide_numerics\": 1, \"made_with\": \"A\", \"choices\": {\"k\": \"one\"}}";
static const char other[] = "{\"tide_numerics\": 1, \"made_with\": \"A\", \"choices\": {\"k\": \"two\"}}";

Test(numerics, another_device_or_version_is_left_aside)
{
    Numerics n = record_of("B");
    char why[NUMERICS_VALUE_BYTES];

    cr_expect(!numerics_adopt(&n, record, CHOICE_GIVEN, why, sizeof why));
    cr_expect_eq(n.n_choices, 0);
    numerics_free(&n);
}

Test(numerics, a_given_record_stands_above_the_cache_and_contradictions_are_refused)
{
    Numerics n = record_of("A");
    char why[NUMERICS_VALUE_BYTES];

    cr_expect(!numerics_adopt(&n, record, CHOICE_CACHED, why, sizeof why));
    cr_expect_null(numerics_use(&n, "k", "a wish"), "a choice of the cache stood against a wish");
    cr_expect(!numerics_adopt(&n, other, CHOICE_GIVEN, why, sizeof why), "%s", why);
    cr_expect_str_eq(numerics_use(&n, "k", "a wish"), "two");
    cr_expect_eq(numerics_adopt(&n, record, CHOICE_GIVEN, why, sizeof why), TIDE_BAD_FILE);
    cr_expect(strstr(why, "\"k\"") && strstr(why, "already decided"), "%s", why);
    cr_expect(!numerics_adopt(&n, other, CHOICE_GIVEN, why, sizeof why), "the same choice again: %s", why);
    numerics_free(&n);
}

Test(numerics, what_is_in_use_cannot_change)
{
    Numerics n = record_of("A");
    char why[NUMERICS_VALUE_BYTES];

    cr_expect(!numerics_adopt(&n, record, CHOICE_CACHED, why, sizeof why));
    cr_expect_str_eq(numerics_use(&n, "k", NULL), "one");
    cr_expect_eq(numerics_adopt(&n, other, CHOICE_GIVEN, why, sizeof why), TIDE_BAD_FILE);
    numerics_free(&n);
}

Test(numerics, malformed_records_are_refused)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"tide_numerics\": 2, \"made_with\": \"A\", \"choices\": {}}",
        "{\"tide_numerics\": 1, \"made_with\": \"A\"}",
        "{\"tide_numerics\": 1, \"made_with\": \"A\", \"choices\": []}",
        "{\"tide_numerics\": 1, \"made_with\": \"A\", \"choices\": {\"k\": 1}}",
        "{\"tide_numerics\": 1, \"made_with\": \"A\", \"choices\": {\"k\": \"1\", \"k\": \"2\"}}",
        "{\"tide_numerics\": 1, \"made_with\": \"A\", \"choices\": {}, \"more\": 1}"
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Numerics n = record_of("A");
        char why[NUMERICS_VALUE_BYTES] = "";
        cr_expect_eq(numerics_adopt(&n, bad[i], CHOICE_GIVEN, why, sizeof why), TIDE_BAD_FILE, "%s", bad[i]);
        cr_expect(why[0], "no reason for %s", bad[i]);
        numerics_free(&n);
    }
}

Test(numerics, the_cache_keeps_what_was_timed)
{
    char folder[] = "/tmp/tide-numerics-XXXXXX";
    Numerics n = record_of("Device A, 1"), back = record_of("Device A, 1"), newer = record_of("Device A, 2");

    cr_assert(mkdtemp(folder));
    cr_assert(!setenv("XDG_CACHE_HOME", folder, 1));
    numerics_cache_read(&n);
    cr_expect_eq(n.n_choices, 0, "an empty cache gave choices");
    cr_assert(numerics_add(&n, "timed", "yes", CHOICE_TIMED) &&
              numerics_add(&n, "first", "no", CHOICE_FIRST) && numerics_add(&n, "given", "no", CHOICE_GIVEN));
    numerics_cache_write(&n);
    numerics_cache_read(&back);
    cr_expect_eq(back.n_choices, 1);
    cr_expect_str_eq(numerics_use(&back, "timed", NULL), "yes");
    numerics_cache_read(&newer);
    cr_expect_eq(newer.n_choices, 0, "choices of another version were adopted");
    numerics_free(&n);
    numerics_free(&back);
    numerics_free(&newer);
}

Test(numerics, a_file_carries_what_was_used_or_given_not_the_whole_cache)
{
    Numerics n = record_of("A");
    char why[NUMERICS_VALUE_BYTES];

    cr_expect(!numerics_adopt(&n, record, CHOICE_CACHED, why, sizeof why));
    char *idle = numerics_text(&n);
    cr_expect(idle && !strstr(idle, "one"), "%s", idle);
    cr_expect_str_eq(numerics_use(&n, "k", NULL), "one");
    char *used = numerics_text(&n);
    cr_expect(used && strstr(used, "one"), "%s", used);
    free(idle);
    free(used);
    numerics_free(&n);
}

Test(numerics, a_plan_that_gives_back_what_was_timed_keeps_it_from_no_cache)
{
    char folder[] = "/tmp/tide-numerics-XXXXXX", why[NUMERICS_VALUE_BYTES];
    Numerics n = record_of("A"), beside = record_of("A"), back = record_of("A");

    cr_assert(mkdtemp(folder));
    cr_assert(!setenv("XDG_CACHE_HOME", folder, 1));
    cr_assert(numerics_add(&n, "k", "one", CHOICE_TIMED));
    cr_expect(!numerics_adopt(&n, record, CHOICE_GIVEN, why, sizeof why), "%s", why);
    numerics_cache_write(&n);
    cr_assert(numerics_add(&beside, "another", "two", CHOICE_TIMED)); /* of a process beside this one */
    numerics_cache_write(&beside);
    numerics_cache_read(&back);
    cr_expect_eq(back.n_choices, 2);
    numerics_free(&n);
    numerics_free(&beside);
    numerics_free(&back);
}
