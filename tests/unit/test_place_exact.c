/* test_place_exact.c - the exact search for a placement: against all placements of few buffers, on cut
 * rectangles whose least height is known, and on real lists of buffers. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include "runtime/place_lower.h"
#include "tests/support/buffer_list.h"

enum { FEW = 20, MANY = 300, NODES = 1000000 };

static uint32_t chance(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

/* ---- All placements of few buffers --------------------------------------- */

static bool overlap(const Span *a, const Span *b)
{
    return a->lower < b->upper && b->lower < a->upper && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* The lowest offset upon s[fixed..placed-1] at which x is clear of s[0..fixed-1]. */
static size_t offset_upon(const Span *s, int fixed, int placed, Span x)
{
    x.offset = 0;
    for (int j = fixed; j < placed; j++)
        if (s[j].lower < x.upper && x.lower < s[j].upper && s[j].offset + s[j].bytes > x.offset)
            x.offset = s[j].offset + s[j].bytes;
    for (int j = 0; j < fixed; j++) {
        if (!overlap(&s[j], &x)) continue;
        x.offset = s[j].offset + s[j].bytes;
        j = -1;
    }
    return x.offset;
}

/* Can s[placed..n-1] be put right upon those before them, one after the other by ascending offset, around
 * those that are fixed? A lowest placement pushed down as far as it goes is among these. */
static bool fits(Span *s, int fixed, int placed, int n, size_t capacity)
{
    if (placed == n) return true;
    for (int i = placed; i < n; i++) {
        Span next = s[i];
        next.offset = offset_upon(s, fixed, placed, next);
        if (next.offset + next.bytes > capacity) return false; /* it only becomes worse */
        if (placed > fixed && next.offset < s[placed - 1].offset) continue;
        s[i] = s[placed];
        s[placed] = next;
        bool found = fits(s, fixed, placed + 1, n, capacity);
        s[placed] = s[i];
        s[i] = next;
        if (found) return true;
    }
    return false;
}

/* A few long buffers, and short ones that fill each moment up to the bound: of twenty such lists about one
 * does not fit its bound. Some are left out. Returns how many are left. */
static int random_buffers(uint64_t seed, Span *s)
{
    enum { MOMENTS = 6 };
    uint64_t state = seed * 2654435761u;
    int n = 3 + (int)chance(&state, 5), left = 0;
    size_t alive[MOMENTS] = { 0 }, most = 0;

    for (int i = 0; i < n; i++) {
        int from = (int)chance(&state, MOMENTS - 1),
            to = from + 2 + (int)chance(&state, MOMENTS - 1 - (uint32_t)from);
        s[i] = (Span){ from, to, 1 + chance(&state, 10), 0, false };
        for (int m = from; m < to; m++) alive[m] += s[i].bytes;
    }
    for (int m = 0; m < MOMENTS; m++) most = alive[m] > most ? alive[m] : most;
    for (int m = 0; m < MOMENTS; m++)
        if (alive[m] < most) s[n++] = (Span){ m, m + 1, most - alive[m], 0, false };
    for (int i = 0; i < n; i++)
        if (chance(&state, 32)) s[left++] = s[i];
    return left;
}

static void expect_apart(const Span *s, int n, size_t height, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        cr_expect_leq(s[i].offset + s[i].bytes, height, "%llu: %d is above", (unsigned long long)seed, i);
        for (int j = 0; j < i; j++)
            cr_expect(!overlap(&s[i], &s[j]), "%llu: %d and %d overlap", (unsigned long long)seed, j, i);
    }
}

static Verdict search(Span *s, int n, size_t capacity, long nodes)
{
    PlaceState *state;
    Effort effort = { nodes, 0 };

    cr_assert_eq(state_new(s, n, 1, &state), TIDE_OK);
    Verdict verdict = exact_search(state, (int64_t)capacity, &effort);
    for (int b = 0; b < state->n; b++) s[state->span[b]].offset = (size_t)state->offset[b];
    state_free(state);
    return verdict;
}

/* Fixed spans in front, which may lie above holes but do not overlap each other. Returns how many. */
static int add_fixed(uint64_t seed, Span *s, int n, size_t height)
{
    uint64_t state = seed;
    Span x = { .fixed = true };

    for (int k = 0; k < 3; k++) {
        x.lower = (int)chance(&state, 5);
        x.upper = x.lower + 1 + (int)chance(&state, 6 - (uint32_t)x.lower);
        x.bytes = 1 + chance(&state, 3);
        x.offset = chance(&state, (uint32_t)height);
        if (k && overlap(&x, &s[0])) return k;
        if (k > 1 && overlap(&x, &s[1])) return k;
        for (int i = n + k; i > 0; i--) s[i] = s[i - 1];
        s[0] = x;
    }
    return 3;
}

/* What fits is found, what does not fit is proven. Returns how much took a search to refute. */
static int compare_with_all_orders(Span *s, int fixed, int n, uint64_t seed)
{
    Span t[FEW + 3];
    size_t least = spans_bound(s, n, 1);
    int refuted = 0;

    for (int i = 0; i < n; i++) t[i] = s[i];
    for (int i = 0; i < fixed; i++)
        if (s[i].offset + s[i].bytes > least) least = s[i].offset + s[i].bytes;
    for (; !fits(t, fixed, fixed, n, least); least++, refuted++)
        cr_expect_eq(search(s, n, least, NODES), VERDICT_NEVER, "seed %llu", (unsigned long long)seed);
    cr_expect_eq(search(s, n, least, NODES), VERDICT_FITS, "seed %llu", (unsigned long long)seed);
    expect_apart(s, n, least, seed);
    return refuted;
}

/* Though the bound says nothing. */
Test(place_exact, few_buffers_against_all_orders, .timeout = 60)
{
    int refuted = 0;

    for (uint64_t seed = 1; seed <= 1000; seed++) {
        Span s[FEW];
        refuted += compare_with_all_orders(s, 0, random_buffers(seed, s), seed);
    }
    cr_expect_geq(refuted, 20, "only %d of them take a search to refute", refuted);
}

Test(place_exact, few_buffers_around_fixed_ones, .timeout = 60)
{
    int refuted = 0;

    for (uint64_t seed = 1; seed <= 2000; seed++) {
        Span s[FEW + 3];
        int n = random_buffers(seed, s);
        if (n > 8) continue; /* all orders of more take too long */
        int fixed = add_fixed(seed, s, n, spans_bound(s, n, 1));
        refuted += compare_with_all_orders(s, fixed, fixed + n, seed);
    }
    cr_expect_geq(refuted, 200, "only %d of them take a search to refute", refuted);
}

/* Seven bytes are alive at each moment, and eight are needed. The bound that is reported is what was
 * proven. */
Test(place_exact, the_bound_is_raised_by_proof)
{
    int64_t lower[] = { 0, 2, 1, 2, 0, 1, 4, 5 }, upper[] = { 4, 6, 5, 4, 1, 2, 5, 6 };
    int64_t size[] = { 1, 2, 1, 3, 6, 5, 4, 5 }, offset[8];
    Buffers b = { 8, lower, upper, size, offset };
    Placed placed;

    cr_assert_eq(place_buffers(b, 7, 0, &placed), TIDE_OK);
    cr_expect_eq(placed.height, 8);
    cr_expect_eq(placed.bound, 8);
    cr_expect_eq(buffer_list_conflict(&b, 8), -1);
    cr_assert_eq(place_buffers(b, 8, 0, &placed), TIDE_OK);
    cr_expect_eq(placed.height, 8);
    cr_expect_eq(placed.bound, 7, "nothing was to be proven");
}

/* ---- Cut rectangles ------------------------------------------------------ */

enum { WIDTH = 100000, HEIGHT = 1048576 };

/* Cut one of the larger pieces, across time or across bytes, until there are n: placed as they were cut they
 * fill the height, so that nothing is left over anywhere. */
static void cut_rectangle(uint64_t seed, Span *s, int n)
{
    uint64_t state = seed * 2654435761u;

    s[0] = (Span){ 0, WIDTH, HEIGHT, 0, false };
    for (int k = 1; k < n;) {
        int best = (int)chance(&state, (uint32_t)k);
        for (int i = 0; i < 2; i++) {
            int other = (int)chance(&state, (uint32_t)k);
            double area = (double)(s[other].upper - s[other].lower) * (double)s[other].bytes;
            if (area > (double)(s[best].upper - s[best].lower) * (double)s[best].bytes) best = other;
        }
        Span *a = &s[best], b = *a;
        uint32_t permille = 200 + chance(&state, 600);
        if (chance(&state, 2))
            a->upper = b.lower = a->lower + (int)((int64_t)(a->upper - a->lower) * permille / 1000);
        else {
            a->bytes = a->bytes * permille / 1000;
            b.bytes -= a->bytes;
        }
        if (a->lower < a->upper && b.lower < b.upper && a->bytes && b.bytes)
            s[k++] = b;
        else
            *a = b; /* too small to be cut */
    }
}

static int leave_out(uint64_t seed, Span *s, int n, uint32_t one_of)
{
    uint64_t state = seed;
    int left = 0;

    for (int i = 0; i < n; i++)
        if (chance(&state, one_of)) s[left++] = s[i];
    return left;
}

Test(place_exact, cut_rectangles_fit_together_again, .timeout = 60)
{
    for (int n = 50; n <= MANY; n += 50)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            Span s[MANY];
            cut_rectangle(seed * 1000 + (uint64_t)n, s, n);
            cr_expect_eq(search(s, n, HEIGHT, NODES), VERDICT_FITS, "%d pieces, seed %d", n, (int)seed);
            expect_apart(s, n, HEIGHT, seed);
        }
}

/* Room that is left over somewhere makes it harder: what lies wrong is noticed later. */
Test(place_exact, cut_rectangles_with_pieces_left_out, .timeout = 60)
{
    for (int n = 50; n <= 150; n += 25)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            Span s[MANY];
            cut_rectangle(seed * 1000 + (uint64_t)n, s, n);
            int left = leave_out(seed, s, n, 20);
            cr_expect_eq(search(s, left, HEIGHT, NODES), VERDICT_FITS, "%d pieces, seed %d", n, (int)seed);
            expect_apart(s, left, HEIGHT, seed);
        }
}

/* ---- Lowering ------------------------------------------------------------ */

/* The hole at 0..20 is used before the fixed span begins and under it; the height is that of the bound. */
Test(place_exact, lowering_around_a_fixed_span)
{
    Span s[] = { { 4, 9, 10, 20, true }, { 0, 4, 25, 5, false },  { 0, 9, 5, 0, false },
                 { 2, 9, 6, 60, false }, { 0, 3, 30, 30, false }, { 5, 9, 7, 80, false } };
    Goal goal = { 0, { NODES, 0 } };
    size_t height = spans_lower(s, 6, 1, &goal);

    cr_expect_eq(s[0].offset, 20);
    cr_expect_eq(height, 66);
    cr_expect_eq(spans_bound(s, 6, 1), 66);
    expect_apart(s, 6, height, 0);
}

/* Fixed spans may overlap each other; then the placement stays as it is. */
Test(place_exact, overlapping_fixed_spans_are_left_alone)
{
    Span s[] = { { 0, 9, 10, 20, true }, { 4, 9, 10, 25, true }, { 0, 9, 5, 40, false } };
    Goal goal = { 0, { NODES, 0 } };

    cr_expect_eq(spans_lower(s, 3, 1, &goal), 45);
    cr_expect_eq(s[2].offset, 40);
}

/* Where the goal is out of reach the least height is found, and the goal becomes what was proven. */
Test(place_exact, lowering_ends_at_the_least_height)
{
    int above_bound = 0;

    for (uint64_t seed = 1; seed <= 300; seed++) {
        Span s[FEW], t[FEW];
        int n = random_buffers(seed, s);
        size_t at = 0, bound = spans_bound(s, n, 1), least = bound;
        for (int i = 0; i < n; i++) {
            s[i].offset = at;
            at += s[i].bytes;
            t[i] = s[i];
        }
        while (!fits(t, 0, 0, n, least)) least++;
        Goal goal = { 0, { NODES, 0 } };
        cr_expect_eq(spans_lower(s, n, 1, &goal), least, "seed %llu", (unsigned long long)seed);
        cr_expect_eq(goal.height, least, "seed %llu", (unsigned long long)seed);
        expect_apart(s, n, least, seed);
        above_bound += least > bound;
    }
    cr_expect_geq(above_bound, 5);
}

/* ---- Real lists ---------------------------------------------------------- */

Test(place_exact, real_lists_fit_their_capacity, .timeout = 120)
{
    int there = 0;

    for (const BufferListFile *f = buffer_list_files; f->name; f++) {
        Buffers b;
        Placed placed;
        if (!f->capacity || !buffer_list_read(f->name, &b)) continue;
        there++;
        cr_assert_eq(place_buffers(b, f->capacity, 0, &placed), TIDE_OK);
        cr_expect_leq(placed.height, f->capacity, "%s: height %lld", f->name, (long long)placed.height);
        cr_expect_eq(buffer_list_conflict(&b, placed.height), -1, "%s: buffers overlap", f->name);
        buffer_list_free(&b);
    }
    if (!there) cr_skip_test("no lists of buffers: set TIDE_TEST_DATA");
}
