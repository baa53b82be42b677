/* Log-mel features of one second of sound as 8-bit inputs. */
#ifndef FALCON_FEATURES_H
#define FALCON_FEATURES_H
#include <stdint.h>

/* `logs` has room for frames x bands numbers. */
void falcon_features(const int16_t *samples, double *logs, int8_t *inputs);
#endif
