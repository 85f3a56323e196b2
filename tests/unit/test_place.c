/* test_place.c - spans to offsets: by hand, at random, and real lists of buffers. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include "tests/support/buffer_list.h"

static const Placing at_will = { .alignment = 1, .iterations = 200 };

static void expect_apart(const Span *s, int n, size_t height)
{
    for (int i = 0; i < n; i++) {
        cr_expect_leq(s[i].offset + s[i].bytes, height, "span %d ends above the height", i);
        for (int j = 0; j < i; j++) {
            bool together = s[i].lower < s[j].upper && s[j].lower < s[i].upper;
            bool overlap = s[i].offset < s[j].offset + s[j].bytes && s[j].offset < s[i].offset + s[i].bytes;
            cr_expect(!(together && overlap && !(s[i].fixed && s[j].fixed)), "spans %d and %d overlap", j, i);
        }
    }
}

/*   offset
 *     6 +   cc
 *     4 + bbbb     nested lifetimes are a stack
 *     0 +-aaaaaa-> time      */
Test(place, nested_spans_stack)
{
    Span s[] = { { 0, 6, 4, 0, false }, { 1, 5, 2, 0, false }, { 2, 4, 3, 0, false } };

    cr_expect_eq(spans_place(s, 3, at_will), 9);
    cr_expect_eq(spans_bound(s, 3, 1), 9);
    expect_apart(s, 3, 9);
}

/*   aabb     spans that only touch in time share their bytes   */
Test(place, one_after_the_other_share_bytes)
{
    Span s[] = { { 0, 2, 5, 0, false }, { 2, 4, 5, 0, false } };

    cr_expect_eq(spans_place(s, 2, at_will), 5);
    cr_expect_eq(s[0].offset, s[1].offset);
}

/* The fixed span at 4..8 leaves a hole of 4 below it and is in the way of the span of 5. */
Test(place, fixed_spans_are_obstacles)
{
    Span s[] = { { 0, 9, 4, 4, true }, { 0, 9, 5, 0, false }, { 3, 4, 4, 0, false } };

    cr_expect_eq(spans_place(s, 3, at_will), 13);
    cr_expect_eq(s[0].offset, 4);
    cr_expect_eq(s[1].offset, 8);
    cr_expect_eq(s[2].offset, 0);
}

/* The bytes of a fixed span are free before its lifetime. */
Test(place, a_fixed_span_frees_its_bytes_before_it_lives)
{
    Span s[] = { { 5, 9, 8, 0, true }, { 0, 5, 8, 0, false } };

    cr_expect_eq(spans_place(s, 2, at_will), 8);
    cr_expect_eq(s[1].offset, 0);
}

Test(place, offsets_are_aligned)
{
    Span s[] = { { 0, 2, 3, 0, false }, { 0, 2, 65, 0, false }, { 0, 2, 64, 0, false } };
    Placing how = { .alignment = 64, .iterations = 10 };

    cr_expect_eq(spans_place(s, 3, how), 64 + 128 + 64);
    for (int i = 0; i < 3; i++) cr_expect_eq(s[i].offset % 64, 0);
    expect_apart(s, 3, 256);
}

Test(place, nothing_takes_nothing)
{
    cr_expect_eq(spans_place(NULL, 0, at_will), 0);
    cr_expect_eq(spans_bound(NULL, 0, 1), 0);
}

static uint32_t chance(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

Test(place, random_spans_never_overlap_and_repeat)
{
    enum { N = 60 };

    for (uint64_t seed = 1; seed <= 300; seed++) {
        Span s[N], t[N];
        uint64_t state = seed;
        int n = 1 + (int)chance(&state, N);
        for (int i = 0; i < n; i++) {
            int from = (int)chance(&state, 40);
            s[i] = (Span){ from, from + 1 + (int)chance(&state, 20), 1 + chance(&state, 5000), 0, false };
            if (i < 3) s[i] = (Span){ from, from + 5, 100, 256 * (size_t)i, true };
            t[i] = s[i];
        }
        Placing how = { .alignment = 1u << chance(&state, 9), .iterations = 20 };
        size_t height = spans_place(s, n, how);
        cr_expect_geq(height, spans_bound(s, n, 1), "seed %llu", (unsigned long long)seed);
        expect_apart(s, n, height);
        cr_expect_eq(spans_place(t, n, how), height);
        for (int i = 0; i < n; i++) cr_expect_eq(s[i].offset, t[i].offset, "the same spans, another place");
    }
}

/* No order is done before the time is over: what is left is stacked, above fixed spans too. */
Test(place, without_time_all_have_offsets_nevertheless)
{
    Span s[300] = { { 0, 400, 7, 100, true } };

    for (int i = 1; i < 300; i++) s[i] = (Span){ i, i + 1 + i % 90, (size_t)(i % 13), 0, false };
    size_t height = spans_place(s, 300, (Placing){ .alignment = 4, .iterations = 9, .seconds = 1e-9 });
    cr_expect_lt(height, 108 + 300 * 16);
    expect_apart(s, 300, height);
}

/* One order of these takes much longer. */
Test(place, time_is_kept_within_one_order, .timeout = 15)
{
    enum { N = 400000 };
    Span *s = calloc(N, sizeof *s);

    cr_assert(s);
    for (int i = 0; i < N; i++) s[i] = (Span){ i, i + 1 + i % 900, (size_t)(1 + i % 13), 0, false };
    cr_expect_lt(spans_place(s, N, (Placing){ .alignment = 1, .iterations = 9, .seconds = 0.2 }), SIZE_MAX);
    free(s);
}

/* Enough is enough: the search stops at the first order that is low enough. */
Test(place, stops_when_it_is_low_enough)
{
    Span s[] = { { 0, 4, 10, 0, false }, { 4, 8, 10, 0, false }, { 3, 5, 7, 0, false } };
    Placing how = { .alignment = 1, .enough = 1000 };

    cr_expect_leq(spans_place(s, 3, how), 1000);
    expect_apart(s, 3, 1000);
}

Test(place, real_lists_of_buffers, .timeout = 120)
{
    int there = 0;

    for (const BufferListFile *f = buffer_list_files; f->name; f++) {
        Buffers b;
        Placed placed;
        if (!buffer_list_read(f->name, &b)) continue;
        there++;
        cr_expect_eq(b.n, f->n, "%s has %d buffers, not %d", f->name, b.n, f->n);
        cr_assert_eq(place_buffers(b, 0, 0, &placed), TIDE_OK);
        cr_expect_eq(buffer_list_conflict(&b, placed.height), -1, "%s: buffers overlap", f->name);
        cr_expect_geq(placed.height, placed.bound, "%s", f->name);
        cr_expect_leq((double)placed.height, 1.4 * (double)placed.bound, "%s: ratio above 1.4", f->name);
        if (f->capacity)
            cr_expect_leq(placed.bound, f->capacity, "%s: the bound is above what was reached", f->name);
        printf("%-40s ratio %.4f\n", f->name, (double)placed.height / (double)placed.bound);
        buffer_list_free(&b);
    }
    if (!there) cr_skip_test("no lists of buffers: set TIDE_TEST_DATA");
}
