/* watch.h -- reads of shared memory that nobody wrote, and races, found after a segment's lanes have run.
 *
 * A race is judged by meaning, not by the order in which lanes happened to run: two threads, one place, at least one
 * write, and no barrier in between. The accesses of an epoch, from one barrier to the next, are logged; when it ends,
 * they are judged, unless nobody wrote or the same log has passed before.
 *
 * An entry of the log, in 64-bit words: its segment, how many groups follow, and how often each warp has synchronised
 * (one word a warp); then for each group its number, the lanes that took part (one word a warp), their addresses. */
#ifndef LADDER_WATCH_H
#define LADDER_WATCH_H

#include "run.h"

enum { LOG_WORDS = 1 << 21, PASSED_WORDS = 1 << 18 }; /* of the log, and of a log worth remembering */

/* Unwritten memory ---------------------------------------------------------------------------------------------- */

/* Whether the warp's lanes have not yet been proved right at these addresses; then they are noted as about to be. */
static int is_fresh(struct run *r, const struct segment *s, int32_t group, int32_t warp, uint32_t active)
{
    struct proof *const proof = r->proofs + (int64_t)s->groups[group].memo * r->warps + warp;
    const uint64_t *const address = addresses_of(r, group) + warp * WARP;
    if (proof->serial == r->serial && proof->active == active && same_lanes(proof->address, address, 0, active))
        return 0;
    proof->serial = r->serial, proof->active = active;
    memcpy(proof->address, address, sizeof proof->address);
    return 1;
}

/* Reads must find every granule written; writes mark theirs. Once proved stays proved: nothing is ever unwritten. */
static int watch_warp(struct run *r, const struct segment *s, int32_t warp)
{
    const int32_t shift = r->kernel->granule_shift;
    for (int32_t i = 0; i < s->site_count; ++i) {
        const struct site *const site = s->sites + i;
        if (!r->fresh[site->group]) continue;
        const uint64_t *const address = addresses_of(r, site->group) + warp * WARP;
        for (uint32_t left = lanes_of(r, s, site->group)[warp]; left; left &= left - 1) {
            const uint64_t at = address[__builtin_ctz(left)] + (uint64_t)(int64_t)site->offset;
            uint8_t *const seen = r->written + (at >> shift);
            for (int32_t n = 0; n < site->width >> shift; ++n) {
                if (seen[n]) continue;
                if (site->access != STORE) return SUSPECT;
                seen[n] = 1;
                --r->unwritten;
            }
        }
    }
    return 0;
}

/* Races --------------------------------------------------------------------------------------------------------- */

static int clashes(const struct who *before, int32_t thread, int32_t time)
{
    if (before->warp == NOBODY) return 0;
    if (before->warp != thread / WARP) return 1;
    return before->time == time && before->thread != thread;
}

static void join(struct who *who, int32_t thread, int32_t time)
{
    if (who->warp == NOBODY || (who->warp == thread / WARP && who->time != time))
        *who = (struct who){thread / WARP, thread, time};
    else if (who->warp != thread / WARP)
        who->warp = SEVERAL;
    else if (who->thread != thread)
        who->thread = SEVERAL;
}

/* One access to one granule: whether nothing orders it after another, of which one writes. Atomics do not race with
 * each other. */
static int races(struct run *r, uint64_t granule, int32_t access, int32_t thread, int32_t time)
{
    struct shadow *const shadow = r->shadows + granule;
    if (shadow->epoch != r->epoch) {
        const struct who nobody = {NOBODY, NOBODY, 0};
        *shadow = (struct shadow){r->epoch, nobody, nobody, nobody};
    }
    int bad = clashes(&shadow->written, thread, time);
    if (access != LOAD) bad |= clashes(&shadow->read, thread, time);
    if (access == LOAD || access == STORE) bad |= clashes(&shadow->updated, thread, time);
    join(access == LOAD ? &shadow->read : access == STORE ? &shadow->written : &shadow->updated, thread, time);
    return bad;
}

/* All that the log holds, in the order in which it came. */
static int judge(struct run *r)
{
    const struct kernel *const k = r->kernel;
    const int32_t shift = k->granule_shift;
    const uint64_t *word = r->log.words, *const end = word + r->log.used;
    while (word < end) {
        const struct segment *const s = (const struct segment *)(uintptr_t)word[0];
        const uint64_t groups = word[1];
        const uint64_t *const times = word + 2;
        word = times + r->warps;
        for (uint64_t g = 0; g < groups; ++g, word += 1 + r->warps + k->threads) {
            for (int32_t i = 0; i < s->site_count; ++i) {
                const struct site *const site = s->sites + i;
                if ((uint64_t)site->group != word[0]) continue;
                const uint64_t *const lanes = word + 1, *const address = lanes + r->warps;
                for (int32_t warp = 0; warp < r->warps; ++warp)
                    for (uint32_t left = (uint32_t)lanes[warp]; left; left &= left - 1) {
                        const int32_t thread = warp * WARP + __builtin_ctz(left);
                        const uint64_t at = (address[thread] + (uint64_t)(int64_t)site->offset) >> shift;
                        for (uint64_t n = 0; n < (uint64_t)site->width >> shift; ++n)
                            if (races(r, at + n, site->access, thread, (int32_t)times[warp])) return SUSPECT;
                    }
            }
        }
    }
    return 0;
}

static int has_passed(const struct run *r)
{
    for (int32_t i = 0; i < PASSED_LOGS; ++i)
        if (r->passed[i].used == r->log.used
            && !memcmp(r->passed[i].words, r->log.words, (size_t)r->log.used * sizeof *r->log.words))
            return 1;
    return 0;
}

static void forget_entries(struct run *r)
{
    r->log.used = 0;
    memset(r->last_entry, -1, (size_t)r->kernel->segment_total * sizeof *r->last_entry);
}

/* A barrier, or the threadblock's end. */
static int end_epoch(struct run *r)
{
    if (r->log_writes && (r->log_settled || !has_passed(r))) {
        if (judge(r)) return SUSPECT;
        if (!r->log_settled && r->log.used <= PASSED_WORDS) {
            struct log *const kept = r->passed + r->next_passed;
            r->next_passed = (r->next_passed + 1) % PASSED_LOGS;
            memcpy(kept->words, r->log.words, (size_t)r->log.used * sizeof *kept->words);
            kept->used = r->log.used;
        }
    }
    if (r->log.used) forget_entries(r);
    memset(r->warp_time, 0, (size_t)r->warps * sizeof *r->warp_time);
    r->log_writes = r->log_settled = 0;
    ++r->epoch;
    return 0;
}

/* Log the segment's accesses to shared memory, unless its last entry says the same. */
static int log_segment(struct run *r, const struct segment *s)
{
    const int32_t threads = r->kernel->threads;
    const int64_t most = 2 + r->warps + (int64_t)s->group_count * (1 + r->warps + threads);
    if (r->log.used + most > LOG_WORDS) {
        /* What has come so far goes to the shadows, and is judged against what follows there. */
        if (judge(r)) return SUSPECT;
        forget_entries(r);
        r->log_settled = 1;
    }
    uint64_t *const entry = r->log.words + r->log.used, *word = entry + 2;
    entry[0] = (uint64_t)(uintptr_t)s;
    entry[1] = 0;
    for (int32_t warp = 0; warp < r->warps; ++warp) *word++ = (uint64_t)r->warp_time[warp];
    for (int32_t g = 0; g < s->group_count; ++g) {
        if (!s->groups[g].shared_sites || space_of(r, s, g) != SHARED) continue;
        ++entry[1];
        *word++ = (uint64_t)g;
        const uint32_t *const lanes = lanes_of(r, s, g);
        for (int32_t warp = 0; warp < r->warps; ++warp) *word++ = lanes[warp];
        memcpy(word, addresses_of(r, g), (size_t)threads * sizeof *word);
        for (int32_t warp = 0; warp < r->warps; ++warp) {
            if (lanes[warp] == ~0u) continue;
            for (int32_t thread = warp * WARP; thread < (warp + 1) * WARP && thread < threads; ++thread)
                if (!(lanes[warp] >> thread % WARP & 1)) word[thread] = 0;
        }
        word += threads;
    }
    if (!entry[1]) return 0;
    const int64_t size = word - entry, last = r->last_entry[s->number];
    if (last >= 0 && last + size <= r->log.used && !memcmp(r->log.words + last, entry, (size_t)size * sizeof *entry))
        return 0;
    r->last_entry[s->number] = r->log.used;
    r->log.used += size;
    for (int32_t i = 0; i < s->site_count; ++i) r->log_writes |= s->sites[i].access != LOAD;
    return 0;
}

static int watch_segment(struct run *r, const struct segment *s)
{
    if (r->unwritten)
        for (int32_t warp = 0; warp < r->warps; ++warp) {
            int any = 0;
            for (int32_t g = 0; g < s->group_count; ++g) {
                const uint32_t active = lanes_of(r, s, g)[warp];
                r->fresh[g] = active && s->groups[g].shared_sites && space_of(r, s, g) == SHARED
                              && is_fresh(r, s, g, warp, active);
                any |= r->fresh[g];
            }
            if (any && watch_warp(r, s, warp)) return SUSPECT;
        }
    return log_segment(r, s);
}

#endif
