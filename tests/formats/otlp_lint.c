/* Says what of the rules of OTLP profiles a file breaks: otlp_lint FILE. */
#include <stdio.h>

#include "base/cleanup.h"
#include "formats/otlp_check.h"

int main(int argc, char **argv)
{
    CLEANUP(buf_done) struct buf problems = {0};
    static uint8_t content[64 << 20];

    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!f)
        return 2;
    size_t n = fread(content, 1, sizeof(content), f);
    fclose(f);
    int found = (int)otlp_check((struct bytes){content, n}, &problems);
    fwrite(problems.data, 1, problems.len, stdout);
    return found ? 1 : 0;
}
