/*
 * More mappings than anybody needs: "same FILE" maps a file a thousand times, executable, never
 * adjacent; "many" makes as many executable mappings as the kernel allows; "files DIR" makes 3,000
 * files in a folder and maps each. Then it works.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "work.h"

NOINLINE void hostile_work(void)
{
    spin(50);
    sink++;
}

static void map_same(const char *path)
{
    int fd = open(path, O_RDONLY);

    for (int i = 0; i < 1000; i++)
        if (mmap(NULL, 16 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
            perror("mmap");
    close(fd);
}

/* Every other page another one's: none can be merged. */
static void map_many(void)
{
    for (size_t n = 0; n < 200000; n++) {
        int exec = n % 2 == 0 ? PROT_EXEC : 0;
        if (mmap(NULL, 4096, PROT_READ | exec, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            break;
    }
}

static void map_files(const char *folder)
{
    char path[4096];

    for (int i = 0; i < 3000; i++) {
        snprintf(path, sizeof(path), "%s/%d", folder, i);
        int fd = open(path, O_RDWR | O_CREAT, 0755);
        if (fd < 0 || ftruncate(fd, 8192) < 0 || write(fd, "\177ELF", 4) != 4)
            perror(path);
        if (mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
            perror("mmap");
        close(fd);
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";

    if (strcmp(how, "same") == 0)
        map_same(argv[2]);
    else if (strcmp(how, "files") == 0)
        map_files(argv[2]);
    else
        map_many();
    puts("ready");
    fflush(stdout);
    for (double until = seconds_now() + 300; seconds_now() < until;)
        hostile_work();
    return 0;
}
