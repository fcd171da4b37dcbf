/* product.h -- the sums of mma.sync, as ladder.ptx.mma models them: exact products added in double precision in order of
 * k, then C, then one rounding. */
#ifndef LADDER_PRODUCT_H
#define LADDER_PRODUCT_H

#include "halves.h"

enum { ROWS = 16, COLUMNS = 8, TOGETHER = 4 };

/* A row of eight columns; compilers use what vector registers the CPU has. */
typedef double row_of_doubles __attribute__((vector_size(COLUMNS * sizeof(double))));

/* sum = A @ B + C for A (16, k), B (k, 8), C (16, 8). Some rows go together, for their sums do not wait for each other. */
static inline void multiply(int32_t k, const double *a, const double *b, const float *c, double *sum)
{
    for (int32_t first = 0; first < ROWS; first += TOGETHER, a += TOGETHER * k) {
        row_of_doubles total[TOGETHER] = {{0}};
        for (int32_t step = 0; step < k; ++step) {
            row_of_doubles factors;
            memcpy(&factors, b + step * COLUMNS, sizeof factors);
            for (int32_t row = 0; row < TOGETHER; ++row) total[row] += a[row * k + step] * factors;
        }
        memcpy(sum + first * COLUMNS, total, sizeof total);
    }
    for (int32_t i = 0; i < ROWS * COLUMNS; ++i) sum[i] += (double)c[i];
}

/* A double rounded toward zero to a float. */
static float toward_zero(double x)
{
    const float near = (float)x;
    const uint32_t past = fabs((double)near) > fabs(x) && fabs(x) < 0x1p128;
    return as_f32(x == x ? bits_f32(near) - past : NAN32);
}

/* D (16, 8) rounded toward zero; D may be C. */
static void multiply_f32(int32_t k, const double *a, const double *b, const float *c, float *d)
{
    const uint64_t dropped = (1ull << (DBL_MANT_DIG - FLT_MANT_DIG)) - 1;
    double sum[ROWS * COLUMNS];
    int32_t others = 0;
    multiply(k, a, b, c, sum);
    for (int32_t i = 0; i < ROWS * COLUMNS; ++i) d[i] = (float)as_f64(bits_f64(sum[i]) & ~dropped);
    /* Subnormal floats keep fewer bits, and there is one NaN. */
    for (int32_t i = 0; i < ROWS * COLUMNS; ++i) others += !(fabs(sum[i]) >= (double)FLT_MIN) & (sum[i] != 0);
    for (int32_t i = 0; others && i < ROWS * COLUMNS; ++i) d[i] = toward_zero(sum[i]);
}

/* D (16, 8) rounded to nearest. */
static void multiply_f16(int32_t k, const double *a, const double *b, const float *c, uint16_t *d)
{
    double sum[ROWS * COLUMNS];
    multiply(k, a, b, c, sum);
    for (int32_t i = 0; i < ROWS * COLUMNS; ++i) d[i] = f16_of_f64(sum[i]);
}

#endif
