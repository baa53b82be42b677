/* Integers only: no sum leaves an int32, because conversion chose the grid so (readout: int64). */
#include "runtime.h"

#include <string.h>

static int count(unsigned bits)
{
    int spikes = 0;
    for (; bits; bits &= bits - 1) spikes++;
    return spikes;
}

/* What the weights add up to at one place: of each of the slots, or of all together (`whole`). */
static void add_up(const falcon_term *term, int line, int pixel, int outputs, int slots, int whole,
                   int32_t *sums)
{
    const unsigned mask = (1u << slots) - 1;
    memset(sums, 0, sizeof *sums * (size_t)((whole ? 1 : slots) * outputs));
    for (int ky = 0; ky < term->kernel[0]; ky++) {
        const int y = line * term->stride[0] + ky - term->padding[0];
        if (y < 0 || y >= term->lines) continue;
        for (int kx = 0; kx < term->kernel[1]; kx++) {
            const int x = pixel * term->stride[1] + kx - term->padding[1];
            if (x < 0 || x >= term->pixels) continue;
            const uint8_t *spikes = term->spikes + (y * term->pixels + x) * term->channels;
            const int8_t *row = term->weights
                + (ky * term->kernel[1] + kx) * term->channels * outputs;
            for (int c = 0; c < term->channels; c++, row += outputs) {
                const unsigned bits = spikes[c] & mask;
                if (!bits) continue;
                if (whole) {
                    const int n = count(bits);
                    for (int o = 0; o < outputs; o++) sums[o] += n * row[o];
                    continue;
                }
                for (int slot = 0; slot < slots; slot++) {
                    int32_t *sum = sums + slot * outputs;
                    if (bits >> slot & 1)
                        for (int o = 0; o < outputs; o++) sum[o] += row[o];
                }
            }
        }
    }
}

/* The slots that fire of one neuron whose input is all in. */
static uint8_t fire_whole(int32_t potential, int32_t threshold, int slots)
{
    uint8_t bits = 0;
    for (int slot = 0; slot < slots; slot++)
        if (potential >= threshold) {
            bits |= (uint8_t)(1 << slot);
            potential -= threshold;
        }
    return bits;
}

void falcon_source(uint8_t *out, int lines, int pixels, int outputs, const int8_t *inputs,
                   const falcon_term *term, const falcon_neurons *neurons, int slots,
                   const uint8_t *trains, int32_t *sums)
{
    for (int line = 0; line < lines; line++)
        for (int pixel = 0; pixel < pixels; pixel++, out += outputs) {
            if (!term->weights)
                for (int o = 0; o < outputs; o++)
                    sums[o] = inputs[(line * pixels + pixel) * outputs + o];
            else
                memset(sums, 0, sizeof *sums * (size_t)outputs);
            for (int ky = 0; term->weights && ky < term->kernel[0]; ky++) {
                const int y = line * term->stride[0] + ky - term->padding[0];
                if (y < 0 || y >= term->lines) continue;
                for (int kx = 0; kx < term->kernel[1]; kx++) {
                    const int x = pixel * term->stride[1] + kx - term->padding[1];
                    if (x < 0 || x >= term->pixels) continue;
                    const int8_t *input = inputs + (y * term->pixels + x) * term->channels;
                    const int8_t *row = term->weights
                        + (ky * term->kernel[1] + kx) * term->channels * outputs;
                    for (int c = 0; c < term->channels; c++, row += outputs)
                        for (int o = 0; o < outputs; o++) sums[o] += input[c] * row[o];
                }
            }
            for (int o = 0; o < outputs; o++) {
                const int32_t potential = neurons->initial[o] + slots * neurons->added[o]
                    + term->factor[o] * sums[o];
                out[o] = trains[count(fire_whole(potential, neurons->threshold[o], slots))];
            }
        }
}

void falcon_fire(uint8_t *out, int lines, int pixels, int outputs, const falcon_term *terms,
                 int number, const falcon_neurons *neurons, int slots, int delay, int32_t *sums,
                 int32_t *more)
{
    /* With full lookahead all input is in before the first decision: one sum will do. */
    const int whole = delay == slots, passes = whole ? 1 : slots;
    for (int line = 0; line < lines; line++)
        for (int pixel = 0; pixel < pixels; pixel++, out += outputs) {
            for (int n = 0; n < number; n++) {
                const falcon_term *term = terms + n;
                if (!term->weights) {
                    const uint8_t *spikes = term->spikes + (line * pixels + pixel) * outputs;
                    for (int slot = 0; slot < passes; slot++)
                        for (int o = 0; o < outputs; o++) {
                            const int spike = whole ? count(spikes[o]) : spikes[o] >> slot & 1;
                            int32_t *sum = sums + slot * outputs + o;
                            *sum = (n ? *sum : 0) + term->factor[o] * spike;
                        }
                    continue;
                }
                int32_t *found = n ? more : sums;
                add_up(term, line, pixel, outputs, slots, whole, found);
                for (int slot = 0; slot < passes; slot++)
                    for (int o = 0; o < outputs; o++) {
                        const int32_t drive = term->factor[o] * found[slot * outputs + o];
                        int32_t *sum = sums + slot * outputs + o;
                        *sum = (n ? *sum : 0) + drive;
                    }
            }
            for (int o = 0; o < outputs; o++) {
                const int32_t threshold = neurons->threshold[o], added = neurons->added[o];
                int32_t potential = neurons->initial[o];
                if (whole) {
                    out[o] = fire_whole(potential + slots * added + sums[o], threshold, slots);
                    continue;
                }
                uint8_t bits = 0;
                for (int slot = 0, next = 0; slot < slots; slot++) {
                    for (; next < slots && next < slot + delay; next++)
                        potential += added + sums[next * outputs + o];
                    if (potential >= threshold) {
                        bits |= (uint8_t)(1 << slot);
                        potential -= threshold;
                    }
                }
                out[o] = bits;
            }
        }
}

void falcon_code(int8_t *out, int lines, int pixels, int outputs, const falcon_term *term,
                 const int32_t *bias, const uint8_t *shift, int first, int32_t *sums)
{
    for (int line = 0; line < lines; line++)
        for (int pixel = 0; pixel < pixels; pixel++, out += outputs) {
            add_up(term, line, pixel, outputs, first, 1, sums);
            for (int o = 0; o < outputs; o++) {
                const int32_t level = term->factor[o] * sums[o] + bias[o];
                /* Rounds down; C leaves open what a shift does to negative numbers. */
                const int32_t code = level < 0 ? ~(~level >> shift[o]) : level >> shift[o];
                out[o] = (int8_t)(code < -127 ? -127 : code > 127 ? 127 : code);
            }
        }
}

/* How many of a head's 255 rising bounds a score has reached. */
static int level_of(int32_t score, const int32_t *curve)
{
    int level = 0;
    for (int step = 128; step; step >>= 1)
        if (score >= curve[level + step]) level += step;
    return level;
}

void falcon_attention(uint8_t *out, int lines, int channels, int heads, const int8_t *q,
                      const int8_t *k, const uint8_t *v, const int32_t *curve,
                      const int32_t *factor, const falcon_neurons *neurons, int slots,
                      int32_t *sums)
{
    const int size = channels / heads;
    for (int query = 0; query < lines; query++)
        for (int head = 0; head < heads; head++) {
            const int at = head * size;
            memset(sums, 0, sizeof *sums * (size_t)size);
            for (int key = 0; key < lines; key++) {
                const int8_t *one = q + query * channels + at, *other = k + key * channels + at;
                const uint8_t *value = v + key * channels + at;
                int32_t score = 0;
                for (int c = 0; c < size; c++) score += one[c] * other[c];
                const int level = level_of(score, curve + 257 * head);
                if (!level) continue;
                for (int c = 0; c < size; c++) sums[c] += level * count(value[c]);
            }
            for (int c = 0; c < size; c++) {
                const int o = at + c;
                const int32_t potential = neurons->initial[o] + slots * neurons->added[o]
                    + factor[o] * sums[c];
                out[query * channels + o] = fire_whole(potential, neurons->threshold[o], slots);
            }
        }
}

int falcon_readout(int64_t *scores, int classes, const uint8_t *spikes, int lines, int pixels,
                   int channels, int window_lines, int window_pixels, const int32_t *weights,
                   const int32_t *bias)
{
    int best = 0;
    for (int n = 0; n < classes; n++)
        scores[n] = (int64_t)bias[n] * window_lines * window_pixels;
    for (int line = 0; line + window_lines <= lines; line += window_lines)
        for (int pixel = 0; pixel + window_pixels <= pixels; pixel += window_pixels)
            for (int c = 0; c < channels; c++, weights += classes) {
                int32_t spiked = 0;
                for (int y = line; y < line + window_lines; y++)
                    for (int x = pixel; x < pixel + window_pixels; x++)
                        spiked += count(spikes[(y * pixels + x) * channels + c]);
                for (int n = 0; n < classes; n++) scores[n] += (int64_t)weights[n] * spiked;
            }
    for (int n = 1; n < classes; n++)
        if (scores[n] > scores[best]) best = n;
    return best;
}
