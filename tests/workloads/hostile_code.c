/*
 * Runs code of files that are no good: maps each FILE@OFFSET whole and executable, whatever it is,
 * and calls what lies at OFFSET, all of them in turn. "-" is code of no file. "=NAME" changes the
 * name of the thread. Says "ready" when all is mapped. x86-64 only.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "work.h"

#define MOST 512

/* mov ecx, 300000; dec ecx; jnz; ret */
static const uint8_t loop[] = {0xb9, 0xe0, 0x93, 0x04, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3};

static void *map_file(char *arg)
{
    char *at = strrchr(arg, '@');
    struct stat st;

    *at = '\0';
    int fd = open(arg, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return NULL;
    uint8_t *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    return base == MAP_FAILED ? NULL : base + strtoul(at + 1, NULL, 0);
}

static void *map_anonymous(void)
{
    void *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memcpy(code, loop, sizeof(loop));
    printf("%p\n", code);
    return code;
}

int main(int argc, char **argv)
{
    void (*calls[MOST])(void);
    size_t n = 0;

    for (int i = 1; i < argc && n < MOST; i++) {
        if (argv[i][0] == '=') {
            prctl(PR_SET_NAME, argv[i] + 1);
            continue;
        }
        void *code = argv[i][0] == '-' ? map_anonymous() : map_file(argv[i]);
        if (!code) {
            perror(argv[i]);
            return 1;
        }
        memcpy(&calls[n++], &code, sizeof(code));
    }
    puts("ready");
    fflush(stdout);
    for (double until = seconds_now() + 300; seconds_now() < until;)
        for (size_t i = 0; i < n; i++)
            calls[i]();
    return 0;
}
