/* barriers.h -- barriers with names, as ladder.ptx.barriers has them: sixteen a threadblock, each with its own count of
 * threads. They count warps: a warp comes as a whole, and stands for 32 threads. */
#ifndef LADDER_BARRIERS_H
#define LADDER_BARRIERS_H

#include "clocks.h"
#include "groups.h"

enum { ALL = -1 };

/* The one value of a warp's lanes; 0 when they disagree. */
static int of_warp(const uint32_t *values, uint32_t lanes, uint32_t *value)
{
    *value = values[__builtin_ctz(lanes)];
    for (; lanes; lanes &= lanes - 1)
        if (values[__builtin_ctz(lanes)] != *value) return 0;
    return 1;
}

/* The barrier is over: let its warps go, tell them its result, and start it afresh. */
static void complete(struct run *r, struct barrier *b)
{
    ++r->totals.barriers;
    r->released |= b->waiting;
    for (uint32_t warps = b->waiting; warps; warps &= warps - 1)
        for (int32_t thread = __builtin_ctz(warps) * WARP, end = thread + WARP; thread < end; ++thread)
            r->machine.barrier_yes[thread] = b->yes, r->machine.barrier_came[thread] = b->came;
    learn(r, b->waiting, b->known);
    memset(b, 0, sizeof *b);
}

/* Some warps come to a barrier, which waits for so many threads. */
static int come(struct run *r, struct barrier *b, uint32_t warps, int64_t wanted, const uint32_t *lanes, int64_t how)
{
    if (warps & b->arrived || (b->wanted && b->wanted != wanted)) return SUSPECT;
    b->wanted = wanted;
    b->arrived |= warps;
    if (how & WAITS) b->waiting |= warps;
    for (uint32_t left = warps; left; left &= left - 1) {
        const int32_t warp = __builtin_ctz(left);
        b->came += (uint32_t)__builtin_popcount(lanes[warp]);
        for (uint32_t some = lanes[warp]; some && how & HAS_FLAG; some &= some - 1)
            b->yes += r->machine.barrier_flag[warp * WARP + __builtin_ctz(some)];
    }
    depart(r, warps, b->known);
    const int64_t threads = (int64_t)__builtin_popcount(b->arrived) * WARP;
    if (b->wanted != ALL && threads > b->wanted) return SUSPECT;
    if (threads == b->wanted) complete(r, b);
    return 0;
}

/* bar.sync, bar.red and bar.arrive. */
static int arrive(struct run *r, const uint32_t *lanes, int64_t how)
{
    uint32_t name[WARP], count[WARP], came[NAMES] = {0};
    for (int32_t warp = 0; warp < r->warps; ++warp) {
        if (!lanes[warp]) continue;
        if (lanes[warp] != alive(r, warp)) return SUSPECT;
        if (!of_warp(r->machine.barrier_name + warp * WARP, lanes[warp], name + warp) || name[warp] >= NAMES)
            return SUSPECT;
        if (how & HAS_COUNT) {
            if (!of_warp(r->machine.barrier_count + warp * WARP, lanes[warp], count + warp)) return SUSPECT;
            if (!count[warp] || count[warp] % WARP) return SUSPECT;
        }
        came[name[warp]] |= 1u << warp;
    }
    for (int32_t number = 0; number < NAMES; ++number) {
        const uint32_t warps = came[number];
        if (!warps) continue;
        const uint32_t *const first = count + __builtin_ctz(warps);
        for (uint32_t left = warps; left && how & HAS_COUNT; left &= left - 1)
            if (count[__builtin_ctz(left)] != *first) return SUSPECT;
        if (come(r, r->barriers + number, warps, how & HAS_COUNT ? (int64_t)*first : ALL, lanes, how)) return SUSPECT;
    }
    return 0;
}

/* Nobody can run: barriers of all threads are over when every warp that is left has come. */
static void settle(struct run *r)
{
    uint32_t left = 0, everyone = r->warps < WARP ? (1u << r->warps) - 1 : ~0u;
    for (int32_t warp = 0; warp < r->warps; ++warp) left |= r->parked[warp] ? 1u << warp : 0;
    for (int32_t number = 0; number < NAMES; ++number) {
        struct barrier *const b = r->barriers + number;
        if (b->wanted != ALL || !b->arrived || left & ~b->arrived) continue;
        /* A warp that has exited counts as one that came. */
        depart(r, everyone & ~left, b->known);
        complete(r, b);
    }
}

#endif
