/* chain.h - a small program and a plan for it that uses everything a plan can do.
 *
 *     a = mix(x)   b = mix(a)   c = mix(b)   d = mix(c)   e = mix(d, a)   f = over(e, b)
 *
 * Every tensor takes 1024 bytes. a goes to the host and comes back, c takes its bytes in
 * between; b is made again; d and then the second b lie where b lay; f is written over e. */
#ifndef TIDE_TEST_CHAIN_H
#define TIDE_TEST_CHAIN_H
#include "runtime/graph.h"
#include "runtime/plan.h"

/* Slots of chain_plan(). */
enum {
    CHAIN_X,
    CHAIN_A,
    CHAIN_B,
    CHAIN_C,
    CHAIN_D,
    CHAIN_A2,
    CHAIN_E,
    CHAIN_B2,
    CHAIN_F,
    CHAIN_AH,
    CHAIN_XS,
    CHAIN_FS,
    CHAIN_SLOTS
};
enum { CHAIN_STEPS = 26 };

TideProgram *chain_program(Tide *t);
TidePlan *chain_plan(const TideProgram *p);

#endif
