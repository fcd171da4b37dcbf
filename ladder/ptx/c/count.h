/* count.h -- what a segment's warp requests cost, counted after its lanes have run.
 *
 * Few patterns are new: neighbouring iterations and threadblocks issue the same one elsewhere. So each request of each
 * warp remembers its last pattern, relative to where it starts, and what that cost. */
#ifndef LADDER_COUNT_H
#define LADDER_COUNT_H

#include "run.h"

enum { WAYS = 8 }; /* patterns remembered: by the word of the sector in which they start, or the side of a copy */

static void touch(struct run *r, enum touch how, int64_t sector)
{
    uint64_t *const word = r->touched[how] + (sector >> 6);
    if (!*word) r->touched_words[how][r->touched_count[how]++] = (int32_t)(sector >> 6);
    *word |= 1ull << (sector & 63);
}

static __attribute__((noinline)) void remember(
    struct memo *memo, const struct request *q, int32_t space, uint32_t active, const uint64_t *address,
    uint64_t origin, int64_t phase)
{
    int64_t pattern[WARP] = {0};
    memo->active = active, memo->asked = memo->placed = 0;
    for (int32_t lane = 0; lane < WARP; ++lane) {
        if (!(active >> lane & 1)) continue;
        memo->relative[lane] = address[lane] - origin;
        pattern[lane] = (int64_t)memo->relative[lane] + phase;
    }
    memo->wavefronts = count_wavefronts(pattern, q->width, space == SHARED && q->access == LOAD, active);
    if (space != GLOBAL) return;
    memo->sectors = memo->listed = count_sectors(pattern, active, memo->list);
    if (q->access == COPY) memo->wavefronts = 0; /* see count_copy */
    if (q->access >= REDUCE && q->width == WORD_BYTES) {
        memo->wavefronts = reduction_wavefronts(pattern, active);
        memo->sectors = reduction_sectors(pattern, active);
    }
}

/* Touch a request's sectors, unless the warp's last request of this group has just touched the same. */
static void touch_all(struct run *r, struct recent *recent, const struct memo *memo, enum touch how, int64_t first)
{
    const size_t size = (size_t)memo->listed * sizeof *memo->list;
    if (recent->serial == r->serial && recent->first == first && recent->how == (int32_t)how
        && recent->listed == memo->listed && !memcmp(recent->list, memo->list, size))
        return;
    recent->serial = r->serial, recent->first = first, recent->how = (int32_t)how, recent->listed = memo->listed;
    memcpy(recent->list, memo->list, size);
    for (int32_t i = 0; i < memo->listed; ++i) touch(r, how, first + memo->list[i]);
}

/* Passes of one side of a warp's copies, by groups of lanes; where its addresses begin changes nothing. */
static const int32_t *passes_of(
    struct run *r, const struct request *q, int32_t side, int32_t group, int32_t warp, uint32_t active)
{
    struct memo *const memo = r->memos + ((int64_t)q->memo * r->warps + warp) * WAYS + side;
    const uint64_t *const address = addresses_of(r, group) + warp * WARP;
    const uint64_t start = active ? address[__builtin_ctz(active)] : 0;
    if (memo->active != active || !same_lanes(memo->relative, address, start, active)) {
        memo->active = active;
        for (int32_t lane = 0; lane < WARP; ++lane) memo->relative[lane] = address[lane] - start;
        count_passes((const int64_t *)memo->relative, q->width, active, memo->list);
    }
    return memo->list;
}

/* A warp's copies through L1: the last pass that reads is the first that writes. Lanes that fill with zeros do not
 * read. */
static void count_copy(struct run *r, const struct segment *s, const struct request *q, int32_t warp, uint32_t active)
{
    const uint32_t reading = lanes_of(r, s, q->source)[warp];
    const int32_t *const to = passes_of(r, q, 0, q->group, warp, active);
    const int32_t *const from = passes_of(r, q, 1, q->source, warp, reading);
    for (int32_t group = 0; group < q->width / WORD_BYTES; ++group)
        r->totals.global_wavefronts += (int64_t)q->times * (to[group] + from[group] - (to[group] && from[group]));
}

/* Where the lanes of a request are. */
static void place(int64_t *pattern, const uint64_t *address, int64_t offset, uint32_t active)
{
    for (; active; active &= active - 1) {
        const int32_t lane = __builtin_ctz(active);
        pattern[lane] = (int64_t)(address[lane] + (uint64_t)offset);
    }
}

/* Whether a remembered pattern's cost may depend on where it is, for the sector of a line in which it starts here. */
static int place_of(struct memo *memo, const struct request *q, uint32_t active, uint64_t origin)
{
    const uint64_t at = origin + (uint64_t)q->offset;
    const int32_t bit = 1 << (at >> SECTOR_SHIFT & (LINE_BYTES / 32 - 1));
    if (!(memo->asked & bit)) {
        int64_t pattern[WARP];
        place(pattern, memo->relative, (int64_t)(at & (LINE_BYTES - 1)) + (1 << 30), active);
        memo->asked |= bit;
        if (place_matters(pattern, q->width, active, q->access >= REDUCE)) memo->placed |= bit;
    }
    return memo->placed & bit;
}

/* What a load takes because its threadblock has not loaded some of its lines before. */
static void count_fetch(
    struct run *r, const struct request *q, const struct memo *memo, uint32_t active, const uint64_t *address,
    const struct buffer *buffer)
{
    int64_t pattern[WARP];
    uint32_t missing = 0;
    place(pattern, address, q->offset, active);
    for (uint32_t left = active; left; left &= left - 1) {
        const int32_t lane = __builtin_ctz(left);
        const int64_t sector = ((pattern[lane] - (int64_t)buffer->start) >> SECTOR_SHIFT) + buffer->first_sector;
        if (!(r->touched[READ][sector >> 6] >> (sector & 63) & 1)) missing |= 1u << lane;
    }
    if (missing) r->totals.fetch_wavefronts += fetching_wavefronts(pattern, q->width, active, missing) - memo->wavefronts;
}

static void count_request(
    struct run *r, const struct segment *s, const struct request *q, int32_t space, int32_t warp, uint32_t active)
{
    struct totals *const t = &r->totals;
    const uint64_t *const address = addresses_of(r, q->group) + warp * WARP;
    /* A shift by a period changes no count but what place_of tells of: by a bank's word, a sector, or a line. */
    const int64_t period = space == SHARED ? WORD_BYTES : 1 << (q->access >= REDUCE ? LINE_SHIFT : SECTOR_SHIFT);
    const int64_t phase = q->offset & (period - 1);
    const uint64_t start = address[__builtin_ctz(active)];
    const uint64_t origin = start & ~(uint64_t)(period - 1);
    const int64_t way = space == SHARED ? 0 : start / WORD_BYTES % WAYS;
    struct memo *const memo = r->memos + ((int64_t)q->memo * r->warps + warp) * WAYS + way;
    if (memo->active != active || !same_lanes(memo->relative, address, origin, active))
        remember(memo, q, space, active, address, origin, phase);
    if (space == SHARED) {
        t->shared_wavefronts[!is_read(q->access)] += (int64_t)q->times * memo->wavefronts;
        t->shared_requests[!is_read(q->access)] += q->times;
        return;
    }
    t->asked_bytes += (int64_t)q->times * q->width * __builtin_popcount(active);
    const int reduces = q->access >= REDUCE && q->width == WORD_BYTES;
    int32_t wavefronts = memo->wavefronts;
    if (reduces && place_of(memo, q, active, origin)) {
        int64_t pattern[WARP];
        place(pattern, address, q->offset, active);
        wavefronts = reduction_wavefronts(pattern, active);
    }
    t->global_wavefronts += (int64_t)q->times * wavefronts;
    t->global_requests += q->times;
    if (q->access == LOAD) t->global_loads += q->times;
    if (q->access == STORE) t->global_stores += q->times;
    const int reads = q->access == LOAD || q->access == COPY;
    *(reads ? &t->read_sectors : &t->write_sectors) += (int64_t)q->times * memo->sectors;
    if (!r->footprints.per_block[READ]) return;
    const struct buffer *const buffer = r->machine.buffers + r->machine.group_buffer[q->group];
    const int64_t first =
        ((int64_t)(origin - buffer->start + (uint64_t)(q->offset - phase)) >> SECTOR_SHIFT) + buffer->first_sector;
    const enum touch how = reads ? READ : q->access == STORE ? WRITTEN : UPDATED;
    if (q->access == LOAD && place_of(memo, q, active, origin)) count_fetch(r, q, memo, active, address, buffer);
    touch_all(r, r->recents + (int64_t)s->groups[q->group].memo * r->warps + warp, memo, how, first);
}

static void count_segment(struct run *r, const struct segment *s)
{
    for (int32_t i = 0; i < s->request_count; ++i) {
        const struct request *const q = s->requests + i;
        const uint32_t *const lanes = lanes_of(r, s, q->group);
        const int32_t space = space_of(r, s, q->group);
        if (space == LOCAL) continue;
        for (int32_t warp = 0; warp < r->warps; ++warp) {
            if (!lanes[warp]) continue;
            if (space == SHARED && q->access == COPY)
                count_copy(r, s, q, warp, lanes[warp]);
            else
                count_request(r, s, q, space, warp, lanes[warp]);
        }
    }
}

/* The threadblock at `position` has ended: list what it touched. 0 when memory runs out. */
static int list_footprint(struct run *r, int64_t position)
{
    struct footprints *const f = &r->footprints;
    for (int32_t how = 0; how < TOUCHES; ++how) {
        const int64_t before = f->count[how];
        const int64_t most = before + (int64_t)r->touched_count[how] * 64;
        if (most > f->capacity[how]) {
            int64_t *const larger = realloc(f->sectors[how], (size_t)most * 2 * sizeof *larger);
            if (!larger) return 0;
            f->sectors[how] = larger, f->capacity[how] = most * 2;
        }
        for (int32_t i = 0; i < r->touched_count[how]; ++i) {
            const int64_t word = r->touched_words[how][i];
            for (uint64_t bits = r->touched[how][word]; bits; bits &= bits - 1)
                f->sectors[how][f->count[how]++] = word * 64 + __builtin_ctzll(bits);
            r->touched[how][word] = 0;
        }
        r->touched_count[how] = 0;
        f->per_block[how][position] = f->count[how] - before;
    }
    return 1;
}

#endif
