/* In double, as where the network was trained: in single precision an input in some thousands would
 * come out one step off. What is left differs by some 1e-13, far less than a step. */
#include "features.h"

#include <math.h>

#include "feature_tables.h"

#define HALF (FALCON_FFT / 2)

static double buffer[2 * HALF], spectrum[2 * HALF]; /* real and imaginary parts side by side */

/* The transform of n complex numbers that lie `step` apart. */
static void transform(const double *in, double *out, int n, int step)
{
    if (n == 1) {
        out[0] = in[0], out[1] = in[1];
        return;
    }
    const int parts = n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5, size = n / parts;
    for (int part = 0; part < parts; part++)
        transform(in + 2 * part * step, out + 2 * part * size, size, step * parts);
    for (int k = 0; k < size; k++) {
        double real[5], imaginary[5];
        for (int part = 0; part < parts; part++) {
            real[part] = out[2 * (part * size + k)];
            imaginary[part] = out[2 * (part * size + k) + 1];
        }
        for (int bin = k; bin < n; bin += size) {
            double re = 0, im = 0;
            for (int part = 0; part < parts; part++) {
                const int turn = part * bin % n * (FALCON_FFT / n);
                const double c = falcon_cosine[turn], s = falcon_sine[turn];
                re += real[part] * c + imaginary[part] * s;
                im += imaginary[part] * c - real[part] * s;
            }
            out[2 * bin] = re, out[2 * bin + 1] = im;
        }
    }
}

/* The power of bin k of the real signal, from the transform of its even and odd samples. */
static double power_of(int k)
{
    const int one = k % HALF, other = (HALF - one) % HALF;
    const double even_re = (spectrum[2 * one] + spectrum[2 * other]) / 2;
    const double even_im = (spectrum[2 * one + 1] - spectrum[2 * other + 1]) / 2;
    const double odd_re = (spectrum[2 * one + 1] + spectrum[2 * other + 1]) / 2;
    const double odd_im = (spectrum[2 * other] - spectrum[2 * one]) / 2;
    const double c = falcon_cosine[k], s = falcon_sine[k];
    const double re = even_re + odd_re * c + odd_im * s, im = even_im + odd_im * c - odd_re * s;
    return re * re + im * im;
}

void falcon_features(const int16_t *samples, double *logs, int8_t *inputs)
{
    const int numbers = FALCON_FRAMES * FALCON_BANDS;
    double mean = 0, deviation = 0;
    for (int frame = 0; frame < FALCON_FRAMES; frame++) {
        for (int n = 0; n < FALCON_FFT; n++)
            buffer[n] = samples[frame * FALCON_HOP + n] / 32768.0 * falcon_window[n];
        transform(buffer, spectrum, HALF, 1);
        for (int k = 0; k <= HALF; k++) buffer[k] = power_of(k);
        const double *weight = falcon_filters;
        for (int band = 0; band < FALCON_BANDS; band++) {
            double energy = 0;
            for (int k = falcon_first_bin[band]; k < falcon_end_bin[band]; k++)
                energy += buffer[k] * *weight++;
            logs[frame * FALCON_BANDS + band] = log(energy + FALCON_LOG_FLOOR);
        }
    }
    for (int n = 0; n < numbers; n++) mean += logs[n];
    mean /= numbers;
    for (int n = 0; n < numbers; n++) deviation += (logs[n] - mean) * (logs[n] - mean);
    deviation = sqrt(deviation / numbers);
    if (deviation < 1e-3) deviation = 1e-3; /* digital silence */
    for (int n = 0; n < numbers; n++) {
        const float feature = (float)((logs[n] - mean) / deviation);
        const float level = rintf((feature - FALCON_ZERO) * FALCON_LEVELS);
        inputs[n] = (int8_t)(level < -127 ? -127 : level > 127 ? 127 : level);
    }
}
