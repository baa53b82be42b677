/* Says the class of each clip on standard input: raw numbers, one clip after the other. */
#include <stdio.h>
#include <time.h>

#include "falcon.h"

int main(void)
{
    static falcon_input input[FALCON_INPUT];
    static int64_t scores[FALCON_CLASSES];
    int number = 0;
    clock_t spent = 0;
    for (; fread(input, sizeof input[0], FALCON_INPUT, stdin) == FALCON_INPUT; number++) {
        const clock_t before = clock();
        const int best = falcon_run(input, scores);
        spent += clock() - before;
        printf("%s\n", falcon_words[best]);
    }
    if (number)
        fprintf(stderr, "%d clips, %.3f ms a clip\n", number,
                1e3 * (double)spent / CLOCKS_PER_SEC / number);
    return 0;
}
