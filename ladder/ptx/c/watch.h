/* watch.h -- what watches shared memory once a segment's lanes have run: reads of what nobody wrote, found at once; and
 * the log, in which races are found later. */
#ifndef LADDER_WATCH_H
#define LADDER_WATCH_H

#include "copies.h"

/* Whether the warp's lanes have not yet been proved right at these addresses; then they are noted as about to be. */
static int is_fresh(struct run *r, const struct segment *s, int32_t group, int32_t warp, uint32_t active)
{
    const int64_t number = (int64_t)s->groups[group].memo * r->warps + warp;
    struct proof *const proofs = r->proofs + number * PROOFS;
    const uint64_t *const address = addresses_of(r, group) + warp * WARP;
    const int32_t first = __builtin_ctz(active);
    for (int32_t i = 0; i < PROOFS && proofs[i].serial == r->serial; ++i)
        if (proofs[i].active == active && proofs[i].address[first] == address[first]
            && same_lanes(proofs[i].address, address, 0, active))
            return 0;
    if (proofs[0].serial != r->serial) r->next_proof[number] = 0;
    struct proof *const proof = proofs + r->next_proof[number]++ % PROOFS;
    proof->serial = r->serial, proof->active = active;
    memcpy(proof->address, address, sizeof proof->address);
    return 1;
}

/* Reads must find every granule written; writes mark theirs. Once proved stays proved: nothing is ever unwritten. A
 * copy marks where it will land: until it has, the log tells of all who go there. */
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
                if (site->access != STORE && site->access != COPY) return SUSPECT;
                seen[n] = 1;
                --r->unwritten;
            }
        }
    }
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
    return log_segment(r, s) || issue_copies(r, s) ? SUSPECT : 0;
}

#endif
