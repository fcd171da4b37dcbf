/* copies.h -- cp.async: which copies are under way, and when each lane's have landed.
 *
 * A copy's words lie in shared memory as soon as it is issued. Nobody can tell, since whoever goes there before the
 * copying thread has waited is suspect; the log sees to that. */
#ifndef LADDER_COPIES_H
#define LADDER_COPIES_H

#include "log.h"

/* Remember the copies that a segment has just issued. */
static int issue_copies(struct run *r, const struct segment *s)
{
    const int32_t threads = r->kernel->threads;
    for (int32_t g = 0; g < s->group_count; ++g) {
        if (!s->groups[g].copies || s->groups[g].space != SHARED) continue;
        if (r->copy_count == r->copy_capacity) {
            const int32_t more = r->copy_capacity * 2 + 16;
            struct copy *const larger = realloc(r->copies, (size_t)more * sizeof *larger);
            if (!larger) return SUSPECT;
            memset(larger + r->copy_capacity, 0, (size_t)(more - r->copy_capacity) * sizeof *larger);
            r->copies = larger, r->copy_capacity = more;
        }
        struct copy *const copy = r->copies + r->copy_count++;
        if (!copy->address) copy->address = malloc((size_t)threads * sizeof *copy->address);
        if (!copy->committed) copy->committed = malloc((size_t)threads * sizeof *copy->committed);
        if (!copy->address || !copy->committed) return SUSPECT;
        copy->segment = s, copy->group = g;
        memcpy(copy->lanes, lanes_of(r, s, g), (size_t)r->warps * sizeof *copy->lanes);
        memcpy(copy->address, addresses_of(r, g), (size_t)threads * sizeof *copy->address);
        memcpy(copy->committed, r->committed, (size_t)threads * sizeof *copy->committed);
    }
    return 0;
}

/* Log some lanes' part of a copy. */
static int log_copy(struct run *r, const struct copy *copy, enum entry says, const uint32_t *lanes)
{
    uint64_t *const entry = begin_entry(r, copy->segment, says, 1);
    if (!entry) return SUSPECT;
    r->log.used = add_group(r, entry, entry + 3 + r->warps, copy->group, lanes, copy->address) - r->log.words;
    r->log_writes = 1;
    return end_entry(r);
}

/* A new epoch begins with the copies that are under way. */
static int begin_epoch(struct run *r)
{
    for (int32_t i = 0; i < r->copy_count; ++i)
        if (log_copy(r, r->copies + i, UNDER_WAY, r->copies[i].lanes)) return SUSPECT;
    return 0;
}

/* cp.async.commit_group: what each of some lanes has issued since its last commit becomes a group. */
static void commit_copies(struct run *r, const uint32_t *lanes)
{
    for (int32_t warp = 0; warp < r->warps; ++warp) {
        r->totals.copy_groups += lanes[warp] != 0;
        for (uint32_t left = lanes[warp]; left; left &= left - 1)
            ++r->committed[warp * WARP + __builtin_ctz(left)];
    }
}

/* A warp's part of a copy that lands when some lanes wait for all but their last `keep` groups; -1 waits for all. */
static uint32_t landing(const struct run *r, const struct copy *copy, int32_t warp, uint32_t waiting, int64_t keep)
{
    uint32_t lanes = 0;
    if (keep < 0) return copy->lanes[warp] & waiting;
    for (uint32_t left = copy->lanes[warp] & waiting; left; left &= left - 1) {
        const int32_t lane = __builtin_ctz(left), thread = warp * WARP + lane;
        if (copy->committed[thread] < r->committed[thread] - keep) lanes |= 1u << lane;
    }
    return lanes;
}

/* cp.async.wait_group and wait_all. */
static int await_copies(struct run *r, const uint32_t *waiting, int64_t keep)
{
    uint32_t lanes[WARP];
    int32_t kept = 0;
    for (int32_t i = 0; i < r->copy_count; ++i) {
        struct copy *const copy = r->copies + i;
        uint32_t any = 0, left = 0;
        for (int32_t warp = 0; warp < r->warps; ++warp) {
            any |= lanes[warp] = landing(r, copy, warp, waiting[warp], keep);
            left |= copy->lanes[warp] &= ~lanes[warp];
        }
        if (any && log_copy(r, copy, LANDED, lanes)) return SUSPECT;
        if (!left) continue;
        const struct copy moved = r->copies[kept]; /* its memory is used again */
        r->copies[kept++] = *copy;
        if (copy != r->copies + kept - 1) *copy = moved;
    }
    r->copy_count = kept;
    return 0;
}

#endif
