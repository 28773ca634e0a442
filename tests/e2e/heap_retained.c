/* Prints the retained size of every node of a heap snapshot, one per line in the order of the file:
 * what the end-to-end test holds against another implementation. */
#include <inttypes.h>
#include <stdio.h>

#include "formats/heapsnapshot.h"

int main(int argc, char **argv)
{
    struct budget budget;
    struct error err = {""};
    struct input *in;
    struct heap h;

    if (argc != 2)
        return 2;
    budget_init(&budget, (size_t)4 << 30);
    struct dict *dict = dict_new(&budget);
    if (input_open(argv[1], &budget, &in, &err) < 0 || heap_load(in, dict, &h, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < h.retained_size.len; i++)
        printf("%" PRIu64 "\n", h.retained_size.data[i]);
    heap_done(&h);
    input_close(in);
    dict_free(dict);
    return 0;
}
