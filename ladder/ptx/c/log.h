/* log.h -- races, and uses of words that a copy still owns, found from what is logged between two barriers.
 *
 * A race is judged by meaning, not by the order in which lanes happened to run: two threads, one place, at least one
 * write, and no barrier in between. The accesses of an epoch, from one barrier to the next, are logged; when it ends,
 * they are judged, unless nobody wrote or the same log has passed before. What is judged is all in the log: an epoch
 * that begins with copies under way says so first. With named barriers there are no epochs of a threadblock, and all is
 * judged as it comes.
 *
 * An entry of the log, in 64-bit words: its segment, what it says, how many groups follow, and how often each warp has
 * synchronised (one word a warp); then for each group its number, the lanes that took part (one word a warp), their
 * addresses. */
#ifndef LADDER_LOG_H
#define LADDER_LOG_H

#include "clocks.h"

enum { LOG_WORDS = 1 << 21, PASSED_WORDS = 1 << 18 }; /* of the log, and of a log worth remembering */

/* What an entry says of its groups: that all their accesses were made, or of their copies that they are under way, or
 * that they have landed. */
enum entry { MADE, UNDER_WAY, LANDED };

/* Judging -------------------------------------------------------------------------------------------------------- */

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

static struct shadow *shadow_of(struct run *r, uint64_t granule)
{
    struct shadow *const shadow = r->shadows + granule;
    if (shadow->epoch != r->epoch) {
        const struct who nobody = {NOBODY, NOBODY, 0};
        const size_t ticks = 1 + 2 * (size_t)r->warps;
        *shadow = (struct shadow){r->epoch, 0, nobody, nobody, nobody};
        if (r->kernel->named) memset(r->ticks + granule * ticks, 0, ticks * sizeof *r->ticks);
    }
    return shadow;
}

/* One access to one granule: whether nothing orders it after another, of which one writes. Atomics do not race with each
 * other. */
static int races(struct shadow *shadow, int32_t access, int32_t thread, int32_t time)
{
    const int writes = access == STORE || access == COPY;
    int bad = clashes(&shadow->written, thread, time);
    if (!is_read(access)) bad |= clashes(&shadow->read, thread, time);
    if (is_read(access) || writes) bad |= clashes(&shadow->updated, thread, time);
    join(is_read(access) ? &shadow->read : writes ? &shadow->written : &shadow->updated, thread, time);
    return bad;
}

static int judge_access(
    struct run *r, enum entry entry, int32_t access, int32_t thread, int32_t time, uint64_t byte, int32_t width)
{
    const int32_t shift = r->kernel->granule_shift;
    for (uint64_t granule = byte >> shift; granule <= (byte + (uint64_t)width - 1) >> shift; ++granule) {
        struct shadow *const shadow = shadow_of(r, granule);
        if (entry == LANDED) shadow->under_way = 0;
        if (entry != UNDER_WAY) {
            struct tick *const ticks = r->ticks + granule * (1 + 2 * (uint64_t)r->warps);
            if (shadow->under_way) return SUSPECT;
            if (r->kernel->named ? clock_races(r, ticks, access, thread) : races(shadow, access, thread, time))
                return SUSPECT;
        }
        if (entry != LANDED && access == COPY) shadow->under_way = 1;
    }
    return 0;
}

/* ldmatrix: eight lanes give the rows of a matrix, of which each of all lanes reads two halves. */
static int judge_matrices(
    struct run *r, const struct site *site, int32_t warp, int32_t time, int32_t matrices, const uint64_t *rows)
{
    for (int32_t row = 0; row < 8 * matrices; row += 8)
        for (int32_t lane = 0; lane < WARP; ++lane)
            for (int32_t half = 0; half < 2; ++half) {
                const int32_t inner = 2 * (lane % 4) + half, outer = lane / 4, across = site->access == MATRIX_TRANSPOSED;
                const uint64_t byte = rows[row + (across ? inner : outer)] + 2 * (uint64_t)(across ? outer : inner);
                const uint64_t at = byte + (uint64_t)(int64_t)site->offset;
                if (judge_access(r, MADE, LOAD, warp * WARP + lane, time, at, 2)) return SUSPECT;
            }
    return 0;
}

/* The accesses of one site, of lanes that a log entry names. */
static int judge_site(
    struct run *r, const struct site *site, enum entry entry, const uint64_t *times, const uint64_t *lanes,
    const uint64_t *address)
{
    for (int32_t warp = 0; warp < r->warps; ++warp) {
        const int32_t time = (int32_t)times[warp];
        uint32_t left = (uint32_t)lanes[warp];
        if (site->access == MATRIX || site->access == MATRIX_TRANSPOSED) {
            if (judge_matrices(r, site, warp, time, __builtin_popcount(left) / 8, address + warp * WARP)) return SUSPECT;
            continue;
        }
        for (; left; left &= left - 1) {
            const int32_t thread = warp * WARP + __builtin_ctz(left);
            const uint64_t at = address[thread] + (uint64_t)(int64_t)site->offset;
            if (judge_access(r, entry, site->access, thread, time, at, site->width)) return SUSPECT;
        }
    }
    return 0;
}

/* All that the log holds, in the order in which it came. */
static int judge(struct run *r)
{
    const int64_t group_words = 1 + r->warps + r->kernel->threads;
    const uint64_t *word = r->log.words, *const end = word + r->log.used;
    while (word < end) {
        const struct segment *const s = (const struct segment *)(uintptr_t)word[0];
        const enum entry entry = (enum entry)word[1];
        const uint64_t groups = word[2], *const times = word + 3, *const first = times + r->warps;
        word = first + groups * (uint64_t)group_words;
        /* The copies of a segment come before all else that it does in shared memory. */
        for (int copies = 1; copies >= (entry != MADE); --copies)
            for (const uint64_t *group = first; group < word; group += group_words)
                for (int32_t i = 0; i < s->site_count; ++i) {
                    const struct site *const site = s->sites + i;
                    if ((uint64_t)site->group != group[0] || (site->access == COPY) != copies) continue;
                    if (judge_site(r, site, entry, times, group + 1, group + 1 + r->warps)) return SUSPECT;
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

/* Logging -------------------------------------------------------------------------------------------------------- */

/* Begin an entry of up to `groups` groups at the end of the log; NULL when what has come so far is suspect. */
static uint64_t *begin_entry(struct run *r, const struct segment *s, enum entry says, int64_t groups)
{
    const int64_t most = 3 + r->warps + groups * (1 + r->warps + r->kernel->threads);
    if (r->log.used + most > LOG_WORDS) {
        /* What has come so far goes to the shadows, and is judged against what follows there. */
        if (judge(r)) return NULL;
        forget_entries(r);
        r->log_settled = 1;
    }
    uint64_t *const entry = r->log.words + r->log.used;
    entry[0] = (uint64_t)(uintptr_t)s;
    entry[1] = says;
    entry[2] = 0;
    for (int32_t warp = 0; warp < r->warps; ++warp) entry[3 + warp] = (uint64_t)r->warp_time[warp];
    return entry;
}

/* An entry is complete. */
static int end_entry(struct run *r)
{
    if (!r->kernel->named) return 0;
    if (judge(r)) return SUSPECT;
    r->log.used = 0;
    return 0;
}

static uint64_t *add_group(
    const struct run *r, uint64_t *entry, uint64_t *word, int32_t group, const uint32_t *lanes, const uint64_t *address)
{
    const int32_t threads = r->kernel->threads;
    ++entry[2];
    *word++ = (uint64_t)group;
    for (int32_t warp = 0; warp < r->warps; ++warp) *word++ = lanes[warp];
    memcpy(word, address, (size_t)threads * sizeof *word);
    for (int32_t warp = 0; warp < r->warps; ++warp) {
        if (lanes[warp] == ~0u) continue;
        for (int32_t thread = warp * WARP; thread < (warp + 1) * WARP && thread < threads; ++thread)
            if (!(lanes[warp] >> thread % WARP & 1)) word[thread] = 0;
    }
    return word + threads;
}

/* Log the segment's accesses to shared memory, unless its last entry says the same. */
static int log_segment(struct run *r, const struct segment *s)
{
    int writes = 0, copies = 0;
    uint64_t *const entry = begin_entry(r, s, MADE, s->group_count);
    if (!entry) return SUSPECT;
    uint64_t *word = entry + 3 + r->warps;
    for (int32_t g = 0; g < s->group_count; ++g) {
        if (!s->groups[g].shared_sites || space_of(r, s, g) != SHARED) continue;
        word = add_group(r, entry, word, g, lanes_of(r, s, g), addresses_of(r, g));
        copies |= s->groups[g].copies;
    }
    if (!entry[2]) return 0;
    const int64_t size = word - entry, last = r->last_entry[s->number];
    if (!copies && !r->kernel->named && last >= 0 && last + size <= r->log.used
        && !memcmp(r->log.words + last, entry, (size_t)size * sizeof *entry))
        return 0;
    for (int32_t i = 0; i < s->site_count; ++i) writes |= !is_read(s->sites[i].access);
    /* An access that comes again after a copy was issued is another matter. */
    if (copies) memset(r->last_entry, -1, (size_t)r->kernel->segment_total * sizeof *r->last_entry);
    r->last_entry[s->number] = r->log.used;
    r->log.used += size;
    r->log_writes |= writes;
    return end_entry(r);
}

#endif
