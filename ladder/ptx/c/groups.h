/* groups.h -- groups of lanes that go one way: which of them runs next, and where it goes.
 *
 * Groups that went different ways run lowest program counter first, which reconverges structured code. A barrier parks
 * a group until every live lane of the threadblock has come (lanes that have exited do not count). */
#ifndef LADDER_GROUPS_H
#define LADDER_GROUPS_H

#include "run.h"
#include "warps.h"

static void send(struct run *r, int32_t block, const uint32_t *lanes)
{
    uint32_t *const ready = r->ready + (int64_t)block * r->warps;
    const uint64_t bit = 1ull << (block & 63);
    for (int32_t warp = 0; warp < r->warps; ++warp)
        ready[warp] = r->pending[block >> 6] & bit ? ready[warp] | lanes[warp] : lanes[warp];
    r->pending[block >> 6] |= bit;
}

/* The lowest basic block from `from` on that lanes wait for; -1 when none do. */
static int32_t find_block(const struct run *r, int32_t from)
{
    for (int32_t word = from >> 6; word <= r->kernel->block_count >> 6; ++word) {
        uint64_t bits = r->pending[word];
        if (word == from >> 6) bits &= ~0ull << (from & 63);
        if (bits) return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

/* Whether lanes that are ready elsewhere cannot miss this basic block, and belong to warps that wait for it. */
static int expects_more(const struct run *r, int32_t block)
{
    const struct kernel *const k = r->kernel;
    const uint32_t *const mine = r->ready + (int64_t)block * r->warps;
    for (int32_t other = find_block(r, 0); other >= 0 && other < k->block_count; other = find_block(r, other + 1)) {
        if (other == block || !(k->blocks[other].leads_to[block >> 6] >> (block & 63) & 1)) continue;
        for (int32_t warp = 0; warp < r->warps; ++warp)
            if (mine[warp] && r->ready[(int64_t)other * r->warps + warp]) return 1;
    }
    return 0;
}

/* Take the lanes that run next, and make them the active ones: those at the lowest basic block, but one for whole warps
 * gives way while lanes of its warps will come there as well. -1 when nobody is left. */
static int32_t next_block(struct run *r)
{
    const struct kernel *const k = r->kernel;
    int32_t block = find_block(r, 0);
    if (block < 0) return -1;
    for (int32_t other = block; k->collective && other >= 0; other = find_block(r, other + 1))
        if (other == k->block_count || !k->blocks[other].collective || !expects_more(r, other)) {
            block = other;
            break;
        }
    r->pending[block >> 6] &= ~(1ull << (block & 63));
    memcpy(r->active, r->ready + (int64_t)block * r->warps, (size_t)r->warps * sizeof *r->active);
    return block;
}

/* The lanes of a warp that have not exited: those of the basic block in hand, and those that wait. */
static uint32_t alive(const struct run *r, int32_t warp)
{
    const struct kernel *const k = r->kernel;
    uint32_t lanes = r->active[warp] | r->parked[warp];
    for (int32_t block = find_block(r, 0); block >= 0 && block < k->block_count; block = find_block(r, block + 1))
        if (!k->blocks[block].leaves) lanes |= r->ready[(int64_t)block * r->warps + warp];
    return lanes;
}

/* Whether the lanes `here` of a warp are others than an instruction names; those that have exited are not missed. */
static int misses(const struct machine *m, int32_t warp, uint32_t named, uint32_t here)
{
    return here & ~named || (named & ~here && named & ~here & alive((const struct run *)m, warp));
}

/* __syncwarp of the lanes that `members` names, or each lane itself if that is NULL. */
static int sync_warps(struct run *r, const uint32_t *lanes, const uint32_t *members)
{
    for (int32_t warp = 0; warp < r->warps; ++warp) {
        if (!lanes[warp]) continue;
        uint32_t named = members ? *members : 0;
        if (!members) {
            const uint32_t *const each = r->machine.members + warp * WARP;
            if (disagree(each, lanes[warp])) return SUSPECT;
            for (uint32_t left = lanes[warp]; left; left &= left - 1) named |= each[__builtin_ctz(left)];
        }
        if (misses(&r->machine, warp, named, lanes[warp])) return SUSPECT;
        ++r->warp_time[warp];
        ++r->know[warp * r->warps + warp];
    }
    return 0;
}

static int32_t count_active(const struct run *r)
{
    int32_t count = 0;
    for (int32_t warp = 0; warp < r->warps; ++warp) count += __builtin_popcount(r->active[warp]);
    return count;
}

/* The active lanes as a list. */
static const uint16_t *list_active(struct run *r, int32_t count)
{
    if (count == r->kernel->threads) return r->everyone;
    uint16_t *next = r->who;
    for (int32_t warp = 0; warp < r->warps; ++warp)
        for (uint32_t left = r->active[warp]; left; left &= left - 1)
            *next++ = (uint16_t)(warp * WARP + __builtin_ctz(left));
    return r->who;
}

/* Part the active lanes of a guarded branch, of which `taken` go to its target. */
static void part(struct run *r, const struct block *b, int32_t next, int32_t taken, int32_t count)
{
    uint32_t going[WARP], staying[WARP]; /* a threadblock has at most 32 warps */
    if (taken == count) {
        if (b->end == BRANCH) send(r, b->target, r->active);
        return;
    }
    if (!taken) {
        send(r, next, r->active);
        return;
    }
    for (int32_t warp = 0; warp < r->warps; ++warp) {
        going[warp] = 0;
        for (uint32_t left = r->active[warp]; left; left &= left - 1) {
            const int32_t lane = __builtin_ctz(left);
            going[warp] |= (uint32_t)r->machine.taken[warp * WARP + lane] << lane;
        }
        staying[warp] = r->active[warp] & ~going[warp];
    }
    if (b->end == BRANCH) send(r, b->target, going);
    send(r, next, staying);
}

#endif
