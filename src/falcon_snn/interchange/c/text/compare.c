/* Runs clips and compares the integers of every stage with those that were expected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "falcon.h"

static FILE *expected;
static long long compared;

void falcon_watch(const char *stage, const void *found, size_t size)
{
    unsigned char wanted[4096];
    for (size_t at = 0, part; at < size; at += part) {
        part = size - at < sizeof wanted ? size - at : sizeof wanted;
        if (fread(wanted, 1, part, expected) != part) {
            printf("%s: the file of expected integers is too short\n", stage);
            exit(1);
        }
        if (memcmp((const char *)found + at, wanted, part)) {
            for (size_t n = 0; n < part; n++)
                if (((const unsigned char *)found)[at + n] != wanted[n]) {
                    printf("%s: byte %lu differs: %d, not %d\n", stage, (unsigned long)(at + n),
                           ((const unsigned char *)found)[at + n], wanted[n]);
                    exit(1);
                }
        }
    }
    compared += (long long)size;
}

int main(int arguments, char **argument)
{
    static falcon_input input[FALCON_INPUT];
    static int64_t scores[FALCON_CLASSES];
    if (arguments != 3) {
        printf("usage: compare CLIPS EXPECTED\n");
        return 2;
    }
    FILE *clips = fopen(argument[1], "rb");
    expected = fopen(argument[2], "rb");
    if (!clips || !expected) {
        printf("cannot open %s\n", clips ? argument[2] : argument[1]);
        return 2;
    }
    int number = 0;
    for (; fread(input, sizeof input[0], FALCON_INPUT, clips) == FALCON_INPUT; number++) {
        falcon_run(input, scores);
        falcon_watch("scores", scores, sizeof scores);
    }
    if (!number || fgetc(expected) != EOF) {
        printf("more is expected than the %d clips give\n", number);
        return 1;
    }
    printf("%d clips, %lld bytes of integers, all equal\n", number, compared);
    return 0;
}
