/* clocks.h -- races in kernels that have barriers of less than a threadblock: vector clocks, as ladder.ptx.clocks has
 * them. know[v][u] is how many epochs of warp u are over as far as warp v can tell. Of each granule the last write and
 * each warp's last read and atomic are kept. */
#ifndef LADDER_CLOCKS_H
#define LADDER_CLOCKS_H

#include "run.h"

/* Warps come to a barrier: what they know together is added to `known`, and a new epoch begins for each of them. */
static void depart(struct run *r, uint32_t warps, int32_t *known)
{
    for (uint32_t left = warps; left; left &= left - 1) {
        const int32_t warp = __builtin_ctz(left);
        int32_t *const own = r->know + warp * r->warps;
        ++own[warp];
        for (int32_t other = 0; other < r->warps; ++other)
            if (own[other] > known[other]) known[other] = own[other];
    }
}

/* Warps leave a barrier and know what those knew who came to it. */
static void learn(struct run *r, uint32_t warps, const int32_t *known)
{
    for (; warps; warps &= warps - 1) {
        int32_t *const own = r->know + __builtin_ctz(warps) * r->warps;
        for (int32_t other = 0; other < r->warps; ++other)
            if (known[other] > own[other]) own[other] = known[other];
    }
}

/* Whether an access by a warp does not happen after an earlier one by another thread, of warp `other`. */
static inline int is_unordered(const struct run *r, const struct tick *before, int32_t other, int32_t thread)
{
    return before->epoch > r->know[thread / WARP * r->warps + other] && before->thread != thread;
}

static int any_unordered(const struct run *r, const struct tick *of_warps, int32_t thread)
{
    int bad = 0;
    for (int32_t other = 0; other < r->warps; ++other) bad |= is_unordered(r, of_warps + other, other, thread);
    return bad;
}

/* One access to one granule, whose ticks are the last write, then each warp's last read, then its last atomic. */
static inline __attribute__((always_inline)) int clock_races(struct run *r, struct tick *ticks, int32_t access, int32_t thread)
{
    struct tick *const written = ticks, *const read = ticks + 1, *const updated = read + r->warps;
    const int32_t warp = thread / WARP, now = r->know[warp * r->warps + warp] + 1;
    const int reads = is_read(access), writes = access == STORE || access == COPY;
    int bad = written->thread >= 0 && is_unordered(r, written, written->thread / WARP, thread);
    if (!reads) bad |= any_unordered(r, read, thread);
    if (r->any_updates && (reads || writes)) bad |= any_unordered(r, updated, thread);
    r->any_updates |= !reads && !writes;
    struct tick *const kept = writes ? written : reads ? read + warp : updated + warp;
    const int crowded = !writes && kept->epoch == now && kept->thread != thread;
    *kept = (struct tick){now, crowded ? SEVERAL : thread};
    return bad;
}

#endif
