/* The integer spiking network: what every network is made of. A byte holds the slots of a neuron,
 * bit t is slot t. Maps are [line][pixel][channel]. */
#ifndef FALCON_RUNTIME_H
#define FALCON_RUNTIME_H
#include <stdint.h>

/* One input of a stage: spikes through weights, or the spikes themselves. */
typedef struct {
    const uint8_t *spikes;
    int lines, pixels, channels;
    const int8_t *weights; /* [kernel line][kernel pixel][channel][output]; 0: spike c to output c */
    int kernel[2], stride[2], padding[2];
    const int32_t *factor; /* [output] */
} falcon_term;

/* V starts at `initial`; each slot adds `added` and the terms' input; fires at `threshold`. */
typedef struct {
    const int32_t *initial, *added, *threshold;
} falcon_neurons;

/* `sums` has room for slots x outputs numbers, `more` too where a second term has weights. */
void falcon_source(uint8_t *out, int lines, int pixels, int outputs, const int8_t *inputs,
                   const falcon_term *term, const falcon_neurons *neurons, int slots,
                   const uint8_t *trains, int32_t *sums);
void falcon_fire(uint8_t *out, int lines, int pixels, int outputs, const falcon_term *terms,
                 int number, const falcon_neurons *neurons, int slots, int delay, int32_t *sums,
                 int32_t *more);
void falcon_code(int8_t *out, int lines, int pixels, int outputs, const falcon_term *term,
                 const int32_t *bias, const uint8_t *shift, int first, int32_t *sums);
void falcon_attention(uint8_t *out, int lines, int channels, int heads, const int8_t *q,
                      const int8_t *k, const uint8_t *v, const int32_t *curve,
                      const int32_t *factor, const falcon_neurons *neurons, int slots,
                      int32_t *sums);
int falcon_readout(int64_t *scores, int classes, const uint8_t *spikes, int lines, int pixels,
                   int channels, int window_lines, int window_pixels, const int32_t *weights,
                   const int32_t *bias);
#endif
