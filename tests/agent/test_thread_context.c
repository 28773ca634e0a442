#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "agent/thread_context.h"
#include "lib/test.h"

#define BIAS ((uint64_t)0x7f0000000000)

static struct parse_facts variable(enum parse_tls model, int64_t offset)
{
    return (struct parse_facts){.machine = EM_X86_64,
                                .has_thread_context = true,
                                .tls_model = (uint8_t)model,
                                .tls_offset = offset,
                                .tls_got = 0x4000};
}

static struct thread_context_search search(enum parse_tls model)
{
    struct parse_facts f = variable(model, 0);
    struct thread_context_search s;

    thread_context_of_file(&f, BIAS, false, false, &s);
    return s;
}

static void a_variable_of_the_program_lies_where_its_file_says(struct test *t)
{
    struct parse_facts f = variable(PARSE_TLS_LOCAL, -24);
    struct thread_context_search s;

    thread_context_of_file(&f, BIAS, true, false, &s);
    CHECK_INT(t, s.n_words, 0);
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_TLS);
    CHECK_INT(t, s.place.tls_offset, -24);
    thread_context_of_file(&f, BIAS, false, false, &s);
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_NONE); /* not so in a library */
    f.tls_offset = 24; /* above the thread pointer is nobody's on this machine... */
    thread_context_of_file(&f, BIAS, true, false, &s);
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_NONE);
    f.machine = EM_AARCH64; /* ...and everybody's on this */
    thread_context_of_file(&f, BIAS, true, false, &s);
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_TLS);
    f.has_thread_context = false;
    thread_context_of_file(&f, BIAS, true, false, &s);
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_NONE);
}

static void initial_exec_is_one_word(struct test *t)
{
    struct thread_context_search s = search(PARSE_TLS_INITIAL);

    CHECK_INT(t, s.n_words, 1);
    CHECK(t, s.at == BIAS + 0x4000);
    thread_context_words(&s, (uint64_t[]){(uint64_t)-120});
    CHECK_INT(t, s.n_words, 0);
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_TLS);
    CHECK_INT(t, s.place.tls_offset, -120);
}

static void general_dynamic_is_a_module_and_an_offset(struct test *t)
{
    struct thread_context_search s = search(PARSE_TLS_GENERAL);

    CHECK_INT(t, s.n_words, 2);
    thread_context_words(&s, (uint64_t[]){3, 16});
    CHECK_INT(t, s.n_words, 0);
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_TLS_DTV);
    CHECK_INT(t, s.place.tls_module, 3);
    CHECK_INT(t, s.place.tls_offset, 16);
}

static void a_descriptor_holds_an_offset_or_points_to_an_index(struct test *t)
{
    struct thread_context_search s = search(PARSE_TLS_DESCRIPTOR);

    thread_context_words(&s, (uint64_t[]){BIAS + 0x100, (uint64_t)-8});
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_TLS);
    CHECK_INT(t, s.place.tls_offset, -8);

    s = search(PARSE_TLS_DESCRIPTOR);
    thread_context_words(&s,
                         (uint64_t[]){BIAS + 0x100, 0x1c3f2a0}); /* the heap of a fixed program */
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_NONE);
    CHECK_INT(t, s.n_words, 2);
    CHECK(t, s.at == 0x1c3f2a0);
    thread_context_words(&s, (uint64_t[]){2, 0});
    CHECK_INT(t, s.n_words, 0);
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_TLS_DTV);
    CHECK_INT(t, s.place.tls_module, 2);
}

static void what_the_linker_has_not_filled_in_is_not_ready(struct test *t)
{
    static const enum parse_tls models[] = {PARSE_TLS_INITIAL, PARSE_TLS_GENERAL,
                                            PARSE_TLS_DESCRIPTOR};

    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct thread_context_search s = search(models[i]);
        thread_context_words(&s, (uint64_t[]){0, 0});
        CHECK_INT(t, s.n_words, 0);
        CHECK_INT(t, s.place.kind, THREAD_CONTEXT_NONE);
        CHECK(t, s.is_not_ready);
    }
}

static void words_that_cannot_be_are_refused(struct test *t)
{
    struct thread_context_search s = search(PARSE_TLS_INITIAL);

    thread_context_words(&s, (uint64_t[]){BIAS});
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_NONE);
    s = search(PARSE_TLS_GENERAL);
    thread_context_words(&s, (uint64_t[]){BIAS, 8});
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_NONE);
    s = search(PARSE_TLS_GENERAL);
    thread_context_words(&s, (uint64_t[]){1, UINT64_MAX});
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_NONE);
    /* A descriptor that leads nowhere is followed once. */
    s = search(PARSE_TLS_DESCRIPTOR);
    thread_context_words(&s, (uint64_t[]){1, 0x5000});
    thread_context_words(&s, (uint64_t[]){BIAS, 0x5000});
    CHECK_INT(t, s.n_words, 0);
    CHECK_INT(t, s.place.kind, THREAD_CONTEXT_NONE);
}

static void labels_of_go_lie_as_its_version_has_them(struct test *t)
{
    static const struct {
        const char *version;
        int curg, labels;
        bool is_slice;
    } cases[] = {
        {"go1.18", 192, 360, false},           {"go1.20.14", 192, 360, false},
        {"go1.21.0", 192, 344, false},         {"go1.22.12 X:boringcrypto", 192, 344, false},
        {"go1.23.12", 192, 352, false},        {"go1.24.13", 192, 352, true},
        {"go1.25rc1", 184, 344, true},         {"go1.26.8", 184, 352, true},
        {"devel go1.27-8f2a", 184, 352, true},
    };
    struct parse_facts f = {.machine = EM_X86_64, .is_go = true, .go_tls_offset = -8};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(f.go_version, sizeof(f.go_version), "%s", cases[i].version);
        struct thread_context_place found = thread_context_of_go(&f);
        CHECK_INT(t, found.kind, THREAD_CONTEXT_GO_LABELS);
        CHECK_INT(t, found.tls_offset, -8);
        CHECK_INT(t, found.g_m, 48);
        CHECK_INT(t, found.m_curg, cases[i].curg);
        CHECK_INT(t, found.g_labels, cases[i].labels);
        CHECK_INT(t, found.labels_are_slice, cases[i].is_slice);
    }
}

static void go_of_unknown_layout_has_no_labels(struct test *t)
{
    static const char *const versions[] = {"go1.17.13", "go1.4", "", "gccgo", "go2.1"};
    struct parse_facts f = {.machine = EM_X86_64, .is_go = true, .go_tls_offset = -8};

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        snprintf(f.go_version, sizeof(f.go_version), "%s", versions[i]);
        CHECK_INT(t, thread_context_of_go(&f).kind, THREAD_CONTEXT_NONE);
    }
    snprintf(f.go_version, sizeof(f.go_version), "go1.26.8");
    f.go_tls_offset = 0; /* where g is kept was not found */
    CHECK_INT(t, thread_context_of_go(&f).kind, THREAD_CONTEXT_NONE);
    f.machine = EM_AARCH64; /* in a register */
    CHECK_INT(t, thread_context_of_go(&f).kind, THREAD_CONTEXT_GO_LABELS);
}

static const struct test_case cases[] = {
    TEST(a_variable_of_the_program_lies_where_its_file_says),
    TEST(initial_exec_is_one_word),
    TEST(general_dynamic_is_a_module_and_an_offset),
    TEST(a_descriptor_holds_an_offset_or_points_to_an_index),
    TEST(what_the_linker_has_not_filled_in_is_not_ready),
    TEST(words_that_cannot_be_are_refused),
    TEST(labels_of_go_lie_as_its_version_has_them),
    TEST(go_of_unknown_layout_has_no_labels),
};

TEST_MAIN(cases)
