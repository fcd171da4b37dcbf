/* rules.h -- what a warp request costs: the rules of ladder.memory, which defines them, for one request at a time.
 *
 * A pattern is 32 byte offsets; bit l of `active` says that lane l takes part. Offsets of active lanes are aligned. */
#ifndef LADDER_RULES_H
#define LADDER_RULES_H

#include "machine.h"
#define BANKS 32
#define WORD_SHIFT 2 /* 4-byte words */
#define WORD_BYTES (1 << WORD_SHIFT)
#define WAVEFRONT_BYTES (BANKS * WORD_BYTES)
#define SECTOR_SHIFT 5 /* 32-byte sectors */
#define LINE_SHIFT 7 /* 128-byte lines, each of which has a tag */
#define LINE_BYTES (1 << LINE_SHIFT)
#define TAG_BANKS 4

/* The most distinct units that some lanes have in one of `columns` columns (unit u lies in column u % columns). */
static int32_t tallest_column(const int64_t *pattern, int32_t shift, uint32_t active, int32_t columns)
{
    int8_t head[BANKS], next[WARP], height[BANKS] = {0};
    int32_t most = 0;
    memset(head, -1, sizeof head);
    for (; active; active &= active - 1) {
        const int32_t lane = __builtin_ctz(active);
        const int64_t unit = pattern[lane] >> shift;
        const int32_t column = (int32_t)(unit & (columns - 1));
        int32_t other = head[column];
        while (other >= 0 && pattern[other] >> shift != unit) other = next[other];
        if (other >= 0) continue;
        next[lane] = head[column];
        head[column] = (int8_t)lane;
        if (++height[column] > most) most = height[column];
    }
    return most;
}

/* Whether every active lane has the offset of the lane `distance` from it, if that one is active too. */
static int partners_agree(const int64_t *pattern, uint32_t active, int32_t distance)
{
    for (int32_t lane = 0; lane < WARP; ++lane) {
        const int32_t partner = lane ^ distance;
        if (active >> lane & active >> partner & 1 && pattern[lane] != pattern[partner]) return 0;
    }
    return 1;
}

/* Wavefronts of a load or store. Lanes are served in groups that ask for 128 bytes; a group costs the most distinct
 * words in one bank. Wide shared loads whose lanes pair up serve two groups at once (`merges`). */
static int32_t count_wavefronts(const int64_t *pattern, int32_t width, int merges, uint32_t active)
{
    const int32_t unit = width > WORD_BYTES ? width : WORD_BYTES;
    const int32_t columns = WAVEFRONT_BYTES / unit; /* an aligned unit fills unit / 4 neighbouring banks */
    int32_t lanes = columns, total = 0;
    if (merges && width > WORD_BYTES && (partners_agree(pattern, active, 1) || partners_agree(pattern, active, 2)))
        lanes *= 2;
    for (int32_t first = 0; first < WARP; first += lanes) {
        const uint32_t group = lanes == WARP ? active : active & ((1u << lanes) - 1) << first;
        total += tallest_column(pattern, __builtin_ctz((uint32_t)unit), group, columns);
    }
    return total;
}

/* Passes of one side of a copy: the most lanes that meet in one bank, of each group of lanes that asks for 128 bytes.
 * Lanes are never merged. */
static void count_passes(const int64_t *pattern, int32_t width, uint32_t active, int32_t *passes)
{
    const int32_t columns = WAVEFRONT_BYTES / width, shift = __builtin_ctz((uint32_t)width);
    for (int32_t first = 0; first < WARP; first += columns) {
        int8_t hits[BANKS] = {0}, most = 0;
        for (int32_t lane = first; lane < first + columns; ++lane) {
            if (!(active >> lane & 1)) continue;
            int8_t *const here = hits + (pattern[lane] >> shift & (columns - 1));
            if (++*here > most) most = *here;
        }
        *passes++ = most;
    }
}

/* Distinct sectors, which `list` receives; no aligned access straddles two. */
static int32_t count_sectors(const int64_t *pattern, uint32_t active, int32_t *list)
{
    int32_t count = 0;
    for (; active; active &= active - 1) {
        const int32_t sector = (int32_t)(pattern[__builtin_ctz(active)] >> SECTOR_SHIFT);
        int32_t known = count;
        while (known > 0 && list[known - 1] != sector) --known;
        if (!known) list[count++] = sector;
    }
    return count;
}

/* The sum over aligned blocks of the most lanes on one of `columns` words: lanes on one word take turns. */
static int32_t count_turns(const int64_t *pattern, uint32_t active, int32_t block_shift, int32_t columns)
{
    int32_t total = 0;
    while (active) {
        const int64_t block = pattern[__builtin_ctz(active)] >> block_shift;
        int32_t hits[BANKS] = {0}, most = 0;
        for (uint32_t left = active; left; left &= left - 1) {
            const int32_t lane = __builtin_ctz(left);
            if (pattern[lane] >> block_shift != block) continue;
            active &= ~(1u << lane);
            const int32_t column = (int32_t)(pattern[lane] >> WORD_SHIFT & (columns - 1));
            if (++hits[column] > most) most = hits[column];
        }
        total += most;
    }
    return total;
}

/* The tag bank of a line. */
static int32_t tag_bank(uint64_t line)
{
    uint64_t high = line >> 2;
    for (int32_t shift = 24; shift >= 3; shift /= 2) high ^= high >> shift;
    return (int32_t)((line & 3) ^ (((high ^ high >> 2) & 1) | ((high >> 1 ^ high >> 2) & 1) << 1));
}

/* The lanes whose lines L1 looks up together, pass by pass: returns how many passes there are. */
static int32_t tag_passes(const int64_t *pattern, uint32_t active, uint32_t *lanes)
{
    int32_t taken[TAG_BANKS] = {0}, count = 0;
    while (active) {
        const int64_t line = pattern[__builtin_ctz(active)] >> LINE_SHIFT;
        const int32_t pass = taken[tag_bank((uint64_t)line)]++;
        if (pass == count) lanes[count++] = 0;
        for (uint32_t left = active; left; left &= left - 1) {
            const int32_t lane = __builtin_ctz(left);
            if (pattern[lane] >> LINE_SHIFT != line) continue;
            lanes[pass] |= 1u << lane;
            active &= ~(1u << lane);
        }
    }
    return count;
}

/* All lanes on the lines of some lanes. */
static uint32_t on_lines_of(const int64_t *pattern, uint32_t active, uint32_t some)
{
    uint32_t all = 0;
    for (; some; some &= ~all) {
        const int64_t line = pattern[__builtin_ctz(some)] >> LINE_SHIFT;
        for (uint32_t left = active; left; left &= left - 1)
            if (pattern[__builtin_ctz(left)] >> LINE_SHIFT == line) all |= 1u << __builtin_ctz(left);
    }
    return all;
}

/* Wavefronts of a global load whose lanes `missing` find their sectors gone. */
static int32_t fetching_wavefronts(const int64_t *pattern, int32_t width, uint32_t active, uint32_t missing)
{
    const uint32_t gone = on_lines_of(pattern, active, missing);
    uint32_t lanes[WARP];
    const int32_t passes = tag_passes(pattern, active, lanes);
    int32_t total = count_wavefronts(pattern, width, 0, active & ~gone);
    for (int32_t pass = 0; pass < passes; ++pass) total += count_wavefronts(pattern, width, 0, lanes[pass] & gone);
    return total;
}

/* The most lanes on one bank. */
static int32_t most_lanes(const int64_t *pattern, uint32_t active)
{
    int32_t hits[BANKS] = {0}, most = 0;
    for (; active; active &= active - 1) {
        int32_t *const here = hits + (pattern[__builtin_ctz(active)] >> WORD_SHIFT & (BANKS - 1));
        if (++*here > most) most = *here;
    }
    return most;
}

/* Whether a count may depend on which lines are looked up together: if not, each on its own costs what all do. */
static int place_matters(const int64_t *pattern, int32_t width, uint32_t active, int reduces)
{
    int32_t apart = 0;
    for (uint32_t left = active; left;) {
        const uint32_t line = on_lines_of(pattern, left, left & -left);
        apart += reduces ? most_lanes(pattern, line) : count_wavefronts(pattern, width, 0, line);
        left &= ~line;
    }
    return apart != (reduces ? most_lanes(pattern, active) : count_wavefronts(pattern, width, 0, active));
}

/* Wavefronts and sectors of a reduction on 4-byte words. */
static int32_t reduction_wavefronts(const int64_t *pattern, uint32_t active)
{
    uint32_t lanes[WARP];
    const int32_t passes = tag_passes(pattern, active, lanes);
    int32_t total = 0;
    for (int32_t pass = 0; pass < passes; ++pass) total += most_lanes(pattern, lanes[pass]);
    return total;
}
static int32_t reduction_sectors(const int64_t *pattern, uint32_t active)
{
    return count_turns(pattern, active, SECTOR_SHIFT, 1 << (SECTOR_SHIFT - WORD_SHIFT));
}

#endif
