/* groups.h -- groups of lanes that go one way: which of them runs next, and where it goes.
 *
 * Groups that went different ways run lowest program counter first, which reconverges structured code. A barrier parks
 * a group until every live lane of the threadblock has come (lanes that have exited do not count). */
#ifndef LADDER_GROUPS_H
#define LADDER_GROUPS_H

#include "run.h"

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

/* The lanes of a warp that wait for other basic blocks than `block`; those on their way out do not count. */
static uint32_t lanes_elsewhere(const struct run *r, int32_t block, int32_t warp)
{
    const int32_t end = r->kernel->block_count;
    uint32_t lanes = 0;
    for (int32_t other = find_block(r, 0); other >= 0 && other < end; other = find_block(r, other + 1))
        if (other != block) lanes |= r->ready[(int64_t)other * r->warps + warp];
    return lanes;
}

/* Whether no warp has lanes both here and on their way elsewhere. */
static int is_whole(const struct run *r, int32_t block)
{
    for (int32_t warp = 0; warp < r->warps; ++warp)
        if (r->ready[(int64_t)block * r->warps + warp] && lanes_elsewhere(r, block, warp)) return 0;
    return 1;
}

/* Take the lanes that run next, and make them the active ones: those at the lowest basic block, but one for whole warps
 * gives way while lanes of its warps are on their way elsewhere. -1 when nobody is left. */
static int32_t next_block(struct run *r)
{
    const struct kernel *const k = r->kernel;
    int32_t block = find_block(r, 0);
    if (block < 0) return -1;
    for (int32_t other = block; k->collective && other >= 0; other = find_block(r, other + 1))
        if (other == k->block_count || !k->blocks[other].collective || is_whole(r, other)) {
            block = other;
            break;
        }
    r->pending[block >> 6] &= ~(1ull << (block & 63));
    memcpy(r->active, r->ready + (int64_t)block * r->warps, (size_t)r->warps * sizeof *r->active);
    return block;
}

/* __syncwarp: the lanes that it names must all be there, but for those that have exited. */
static int sync_warps(struct run *r, uint32_t members)
{
    for (int32_t warp = 0; warp < r->warps; ++warp) {
        const uint32_t here = r->active[warp];
        if (!here) continue;
        if (here & ~members || members & ~here & (lanes_elsewhere(r, -1, warp) | r->parked[warp])) return SUSPECT;
        ++r->warp_time[warp];
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
