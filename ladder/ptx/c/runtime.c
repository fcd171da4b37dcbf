/* runtime.c -- runs a kernel's threadblocks one after the other; see machine.h for how a kernel is described.
 *
 * Nothing here explains a fault. Whoever finds one, or something like one, returns SUSPECT, and the numpy engine runs
 * the launch again to say what it was. Only an endless loop is named here: numpy would take minutes to get there. */
#include "barriers.h"
#include "count.h"
#include "product.h"
#include "watch.h"

#define ENDLESS (-2)
#define NO_MEMORY (-3)

enum order { LOCKSTEP, WARP_SERIAL, WARP_SERIAL_REVERSED };

struct launch {
    const uint8_t *params;
    const struct buffer *buffers;
    int64_t shared_bytes, step_limit;
    int64_t sectors;         /* of all buffers; 0 to leave footprints alone */
    int64_t most_blocks;     /* threadblocks of one call of ladder_run */
    int32_t grid[3], buffer_count, order, counting;
};

/* Threadblocks --------------------------------------------------------------------------------------------------- */

/* What a segment ends in. */
static int come_after(struct run *r, const struct segment *s)
{
    const uint32_t *const lanes = s->after_guarded ? r->machine.after_lanes : r->active;
    const uint32_t members = (uint32_t)s->value;
    if (s->after == SYNC_WARPS) return sync_warps(r, lanes, &members);
    if (s->after == SYNC_MEMBERS) return sync_warps(r, lanes, NULL);
    if (s->after == AWAIT_COPIES) return await_copies(r, lanes, s->value);
    if (s->after == ARRIVE) return arrive(r, lanes, s->value);
    commit_copies(r, lanes);
    return 0;
}

static int32_t run_segment(struct run *r, const struct segment *s, const uint16_t *who, int32_t count)
{
    struct machine *const m = &r->machine;
    for (int32_t g = 0; g < s->group_count; ++g) {
        if (s->groups[g].guarded)
            memset(m->group_mask + (int64_t)g * r->warps, 0, (size_t)r->warps * sizeof *m->group_mask);
        m->group_space[g] = m->group_buffer[g] = -1;
    }
    if (s->after_guarded) memset(m->after_lanes, 0, (size_t)r->warps * sizeof *m->after_lanes);
    const int32_t taken = s->code ? s->code(m, who, count) : 0;
    if (taken < 0) return SUSPECT;
    if (r->counting && s->request_count) count_segment(r, s);
    if (s->site_count && watch_segment(r, s)) return SUSPECT;
    if (s->after && come_after(r, s)) return SUSPECT;
    return taken;
}

/* Run until all lanes that `send` has sent wait at a barrier or have exited. */
static int32_t run_to_barrier(struct run *r, int64_t *steps)
{
    int32_t index;
    while ((index = next_block(r)) >= 0) {
        if (index >= r->kernel->block_count) continue;
        const struct block *const b = r->kernel->blocks + index;
        *steps += b->instructions;
        if (*steps > r->step_limit) {
            r->totals.endless_block = index;
            /* A race on the way here is the better explanation. */
            return end_epoch(r) ? SUSPECT : ENDLESS;
        }
        const int32_t count = count_active(r);
        const uint16_t *const who = list_active(r, count);
        r->totals.thread_instructions += (int64_t)b->instructions * count;
        for (int32_t i = 0; i < FP32; ++i) r->totals.fp32[i] += (int64_t)b->fp32[i] * count;
        int32_t taken = 0;
        for (int32_t i = 0; i < b->segment_count; ++i)
            if ((taken = run_segment(r, b->segments + i, who, count)) < 0) return SUSPECT;
        if (b->guarded)
            part(r, b, index + 1, taken, count);
        else if (b->end == FALL)
            send(r, index + 1, r->active);
        else if (b->end == BRANCH)
            send(r, b->target, r->active);
        else if (b->end == BARRIER) {
            if (r->parked_at >= 0 && r->parked_at != index + 1 && !r->kernel->named)
                return SUSPECT; /* they will never meet */
            r->parked_at = index + 1;
            for (int32_t warp = 0; warp < r->warps; ++warp) {
                r->parked[warp] |= r->active[warp];
                if (r->active[warp]) r->rest_at[warp] = index + 1;
            }
        }
    }
    return 0;
}

static void enter(struct run *r, int64_t number)
{
    struct machine *const m = &r->machine;
    for (int32_t axis = 0; axis < 3; ++axis) {
        m->ctaid[axis] = (uint32_t)(number % r->grid[axis]);
        number /= r->grid[axis];
    }
    ++r->serial;
    memset(m->lanes, 0, (size_t)r->kernel->threads * (size_t)r->kernel->lane_bytes);
    memset(m->local, 0xff, (size_t)r->kernel->threads * (size_t)r->kernel->local_stride);
    memset(m->shared, 0xff, (size_t)m->shared_bytes);
    memset(r->written, 0, (size_t)r->granules);
    r->unwritten = r->granules;
    r->copy_count = 0;
}

/* Run a threadblock that has barriers with names, from where its lanes are parked: those go on whose barrier is over. */
static int32_t run_named(struct run *r, int64_t *steps)
{
    const int32_t agents = r->order == LOCKSTEP ? 1 : r->warps;
    memset(r->barriers, 0, sizeof r->barriers);
    memset(r->know, 0, (size_t)(r->warps * r->warps) * sizeof *r->know);
    memset(r->rest_at, 0, sizeof r->rest_at);
    r->released = ~0u;
    for (;;) {
        uint32_t left = 0, mine[WARP] = {0};
        for (int32_t warp = 0; warp < r->warps; ++warp) left |= r->parked[warp];
        if (!left) break;
        settle(r);
        const uint32_t going = r->released;
        if (!going) return SUSPECT; /* nobody else will come */
        r->released = 0;
        for (int32_t agent = 0; agent < agents; ++agent) {
            const int32_t turn = r->order == WARP_SERIAL_REVERSED ? agents - 1 - agent : agent;
            for (int32_t warp = 0; warp < r->warps; ++warp) {
                if (!(going >> warp & 1 && r->parked[warp]) || (agents > 1 && warp != turn)) continue;
                mine[warp] = r->parked[warp], r->parked[warp] = 0;
                send(r, r->rest_at[warp], mine);
                mine[warp] = 0;
            }
            const int32_t failed = run_to_barrier(r, steps);
            if (failed) return failed;
        }
    }
    ++r->epoch;
    return 0;
}

static int32_t run_threadblock(struct run *r, int64_t number)
{
    const int32_t agents = r->order == LOCKSTEP ? 1 : r->warps, threads = r->kernel->threads;
    uint32_t coming[WARP], mine[WARP];
    int32_t start = 0, failed;
    int64_t steps = 0;
    enter(r, number);
    for (int32_t warp = 0; warp < r->warps; ++warp)
        coming[warp] = threads - warp * WARP >= WARP ? ~0u : (1u << (threads - warp * WARP)) - 1;
    if (r->kernel->named) {
        memcpy(r->parked, coming, (size_t)r->warps * sizeof *coming);
        return run_named(r, &steps);
    }
    while (start >= 0) {
        r->parked_at = -1;
        if (begin_epoch(r)) return SUSPECT;
        memset(r->parked, 0, (size_t)r->warps * sizeof *r->parked);
        for (int32_t agent = 0; agent < agents; ++agent) {
            const int32_t warp = r->order == WARP_SERIAL_REVERSED ? agents - 1 - agent : agent;
            memcpy(mine, coming, sizeof mine);
            if (r->order != LOCKSTEP) {
                memset(mine, 0, sizeof mine);
                mine[warp] = coming[warp];
                if (!coming[warp]) continue;
            }
            send(r, start, mine);
            if ((failed = run_to_barrier(r, &steps))) return failed;
        }
        if (end_epoch(r)) return SUSPECT;
        start = r->parked_at;
        r->totals.barriers += start >= 0;
        memcpy(coming, r->parked, (size_t)r->warps * sizeof *coming);
    }
    return 0;
}

/* What Python calls ---------------------------------------------------------------------------------------------- */

static void *table(int *complete, int64_t count, size_t size)
{
    void *const rows = calloc((size_t)(count > 0 ? count : 1), size);
    if (!rows) *complete = 0;
    return rows;
}

EXPORTED void ladder_close(struct run *r)
{
    struct machine *const m = &r->machine;
    void *const mine[] = {
        m->shared, m->local, m->lanes, m->taken, m->address, m->group_mask, m->group_space, m->group_buffer,
        r->everyone, r->who, r->ready, r->pending, r->active, r->parked, r->memos, r->recents, r->written, r->fresh,
        r->proofs, r->next_proof, r->log.words, r->last_entry, r->warp_time, r->shadows, r->committed,
        r->know, r->ticks, m->after_lanes, m->members, m->barrier_name, m->barrier_count, m->barrier_flag, m->barrier_came,
        m->barrier_yes};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; ++i) free(mine[i]);
    for (int32_t how = 0; how < TOUCHES; ++how) {
        free(r->touched[how]), free(r->touched_words[how]);
        free(r->footprints.sectors[how]), free(r->footprints.per_block[how]);
    }
    for (int32_t i = 0; i < PASSED_LOGS; ++i) free(r->passed[i].words);
    for (int32_t i = 0; i < r->copy_capacity; ++i) free(r->copies[i].address), free(r->copies[i].committed);
    free(r->copies);
    free(r);
}

/* The state of a launch that has run no threadblock yet; NULL when memory runs out. */
EXPORTED struct run *ladder_open(const struct kernel *k, const struct launch *launch)
{
    int complete = 1;
    struct run *const r = table(&complete, 1, sizeof *r);
    if (!r) return NULL;
    struct machine *const m = &r->machine;
    const int64_t warps = r->warps = (k->threads + WARP - 1) / WARP, rows = k->group_rows;
    r->kernel = k;
    r->order = launch->order, r->counting = launch->counting, r->step_limit = launch->step_limit;
    m->params = launch->params, m->buffers = launch->buffers, m->buffer_count = launch->buffer_count;
    m->shared_bytes = launch->shared_bytes, m->local_bytes = k->local_bytes;
    for (int32_t axis = 0; axis < 3; ++axis) r->grid[axis] = (int32_t)(m->nctaid[axis] = (uint32_t)launch->grid[axis]);
    m->shared = table(&complete, m->shared_bytes, 1);
    m->local = table(&complete, (int64_t)k->threads * k->local_stride, 1);
    m->lanes = table(&complete, warps * WARP, (size_t)k->lane_bytes);
    m->taken = table(&complete, warps * WARP, 1);
    m->address = table(&complete, rows * k->stride, sizeof *m->address);
    m->group_mask = table(&complete, rows * warps, sizeof *m->group_mask);
    m->group_space = table(&complete, rows, sizeof *m->group_space);
    m->group_buffer = table(&complete, rows, sizeof *m->group_buffer);
    r->everyone = table(&complete, k->threads, sizeof *r->everyone);
    r->who = table(&complete, k->threads, sizeof *r->who);
    r->ready = table(&complete, (k->block_count + 1) * warps, sizeof *r->ready);
    r->pending = table(&complete, (k->block_count >> 6) + 1, sizeof *r->pending);
    r->active = table(&complete, warps, sizeof *r->active);
    r->parked = table(&complete, warps, sizeof *r->parked);
    r->memos = table(&complete, k->request_memos * warps * WAYS, sizeof *r->memos);
    r->recents = table(&complete, k->group_memos * warps, sizeof *r->recents);
    r->granules = (m->shared_bytes + (1 << k->granule_shift) - 1) >> k->granule_shift;
    r->written = table(&complete, r->granules, 1);
    r->fresh = table(&complete, rows, 1);
    r->proofs = table(&complete, k->group_memos * warps * PROOFS, sizeof *r->proofs);
    r->next_proof = table(&complete, k->group_memos * warps, 1);
    r->log.words = table(&complete, LOG_WORDS, sizeof *r->log.words);
    for (int32_t i = 0; i < PASSED_LOGS; ++i) r->passed[i].words = table(&complete, PASSED_WORDS, sizeof(uint64_t));
    r->last_entry = table(&complete, k->segment_total, sizeof *r->last_entry);
    r->warp_time = table(&complete, warps, sizeof *r->warp_time);
    r->shadows = table(&complete, r->granules, sizeof *r->shadows);
    r->committed = table(&complete, k->threads, sizeof *r->committed);
    r->know = table(&complete, warps * warps, sizeof *r->know);
    r->ticks = table(&complete, k->named ? r->granules * (1 + 2 * warps) : 0, sizeof *r->ticks);
    m->after_lanes = table(&complete, warps, sizeof *m->after_lanes);
    m->members = table(&complete, warps * WARP, sizeof *m->members);
    m->barrier_name = table(&complete, warps * WARP, sizeof *m->barrier_name);
    m->barrier_count = table(&complete, warps * WARP, sizeof *m->barrier_count);
    m->barrier_flag = table(&complete, warps * WARP, sizeof *m->barrier_flag);
    m->barrier_came = table(&complete, warps * WARP, sizeof *m->barrier_came);
    m->barrier_yes = table(&complete, warps * WARP, sizeof *m->barrier_yes);
    r->epoch = 1;
    m->active = r->active;
    m->misses = misses, m->multiply_f32 = multiply_f32, m->multiply_f16 = multiply_f16;
    for (int32_t how = 0; how < TOUCHES && launch->sectors; ++how) {
        r->touched[how] = table(&complete, launch->sectors / 64 + 1, sizeof *r->touched[how]);
        r->touched_words[how] = table(&complete, launch->sectors / 64 + 1, sizeof *r->touched_words[how]);
        r->footprints.per_block[how] = table(&complete, launch->most_blocks, sizeof *r->footprints.per_block[how]);
    }
    if (!complete) {
        ladder_close(r);
        return NULL;
    }
    forget_entries(r);
    for (int32_t thread = 0; thread < k->threads; ++thread) r->everyone[thread] = (uint16_t)thread;
    return r;
}

/* Run threadblocks by their linear indices until `most_pairs` sectors are listed; returns 0 or what went wrong, and in
 * `done` how many have run to their end. The footprints are those of this call. */
EXPORTED int32_t ladder_run(struct run *r, const int64_t *numbers, int64_t count, int64_t most_pairs, int64_t *done)
{
    struct footprints *const f = &r->footprints;
    memset(f->count, 0, sizeof f->count);
    for (*done = 0; *done < count && f->count[READ] + f->count[UPDATED] + f->count[WRITTEN] < most_pairs; ++*done) {
        const int32_t failed = run_threadblock(r, numbers[*done]);
        if (failed) return failed;
        if (r->counting) r->totals.asked_bytes -= r->machine.short_bytes;
        r->machine.short_bytes = 0;
        if (f->per_block[READ] && !list_footprint(r, *done)) return NO_MEMORY;
    }
    return 0;
}

EXPORTED const struct totals *ladder_totals(const struct run *r) { return &r->totals; }
EXPORTED const struct footprints *ladder_footprints(const struct run *r) { return &r->footprints; }

/* The rules, for tests. */
EXPORTED int32_t ladder_wavefronts(const int64_t *pattern, int32_t width, int32_t merges, uint32_t active)
{
    return count_wavefronts(pattern, width, merges, active);
}
EXPORTED int32_t ladder_sectors(const int64_t *pattern, uint32_t active)
{
    int32_t list[WARP];
    return count_sectors(pattern, active, list);
}
EXPORTED int32_t ladder_reduction_wavefronts(const int64_t *pattern, uint32_t active)
{
    return reduction_wavefronts(pattern, active);
}
EXPORTED int32_t ladder_reduction_sectors(const int64_t *pattern, uint32_t active)
{
    return reduction_sectors(pattern, active);
}
