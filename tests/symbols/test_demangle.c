#include "lib/test.h"
#include "symbols/demangle.h"

struct expectation {
    const char *raw, *simple, *templates, *full;
};

static void check(struct test *t, const char *raw, enum demangle_mode mode, const char *want)
{
    struct buf out = {0};
    demangle(raw, mode, &out);
    CHECK_STR(t, buf_cstr(&out), want);
    buf_done(&out);
}

static void check_all(struct test *t, const struct expectation *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        check(t, e[i].raw, DEMANGLE_DEFAULT, e[i].simple);
        check(t, e[i].raw, DEMANGLE_TEMPLATES, e[i].templates);
        check(t, e[i].raw, DEMANGLE_FULL, e[i].full);
        check(t, e[i].raw, DEMANGLE_NONE, e[i].raw);
    }
}

static void shortens_cpp_names_as_pprof_does(struct test *t)
{
    static const struct expectation cases[] = {
        {"_Z3fooIiEvT_.cold", "foo", "foo<int>", "void foo<int>(int)"},
        {"_ZN12_GLOBAL__N_13barEi", "(anonymous namespace)::bar", "(anonymous namespace)::bar",
         "(anonymous namespace)::bar(int)"},
        {"_ZN3FooclEi", "Foo::operator()", "Foo::operator()", "Foo::operator()(int)"},
        {"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector::push_back",
         "std::vector<int, std::allocator<int> >::push_back",
         "std::vector<int, std::allocator<int> >::push_back(int const&)"},
        {"_ZNK3geo2Sq4areaEv", "geo::Sq::area", "geo::Sq::area", "geo::Sq::area() const"},
        {"_ZZ3foociENKUlvE_clEv", "foo::{lambda()#1}::operator()", "foo::{lambda()#1}::operator()",
         "foo(char, int)::{lambda()#1}::operator()() const"},
        {"_ZlsRSoi", "operator<<", "operator<<", "operator<<(std::ostream&, int)"},
        {"_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", "std::operator<<",
         "std::operator<< <std::char_traits<char> >",
         "std::basic_ostream<char, std::char_traits<char> >& std::operator<< "
         "<std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, "
         "char const*)"},
        {"_ZThn16_NSt13basic_fstreamIcSt11char_traitsIcEED1Ev",
         "non-virtual thunk to std::basic_fstream::~basic_fstream()",
         "non-virtual thunk to std::basic_fstream<char, std::char_traits<char> "
         ">::~basic_fstream()",
         "non-virtual thunk to std::basic_fstream<char, std::char_traits<char> "
         ">::~basic_fstream()"},
    };
    check_all(t, cases, sizeof(cases) / sizeof(cases[0]));
}

static void reads_both_kinds_of_rust_names(struct test *t)
{
    static const struct expectation cases[] = {
        {"_RINvNtCs6GmmlP4bgsG_1r3geo5totalDNtB2_4AreaEL_EB4_", "r::geo::total::<>",
         "r::geo::total::<dyn r::geo::Area>", "r::geo::total::<dyn r::geo::Area>"},
        {"_RNvXNtCs6GmmlP4bgsG_1r3geoNtB2_2SqNtB2_4Area4area.llvm.123",
         "<r::geo::Sq as r::geo::Area>::area", "<r::geo::Sq as r::geo::Area>::area",
         "<r::geo::Sq as r::geo::Area>::area"},
        {"_ZN1r3fib17h68f661e397fcaed4E", "r::fib", "r::fib", "r::fib"},
        {"_ZN43_$LT$r..geo..Sq$u20$as$u20$r..geo..Area$GT$4area17hcc9ab7f852148344E.llvm.77",
         "<r::geo::Sq as r::geo::Area>::area", "<r::geo::Sq as r::geo::Area>::area",
         "<r::geo::Sq as r::geo::Area>::area"},
    };
    check_all(t, cases, sizeof(cases) / sizeof(cases[0]));
}

static void shortens_go_generics_and_leaves_other_names_alone(struct test *t)
{
    check(t, "main.Map[go.shape.int,go.shape.string].func1", DEMANGLE_DEFAULT,
          "main.Map[...].func1");
    check(t, "main.Map[go.shape.int]", DEMANGLE_FULL, "main.Map[go.shape.int]");
    check(t, "main.(*Tree[...]).Insert", DEMANGLE_DEFAULT, "main.(*Tree[...]).Insert");
    check(t, "java.util.HashMap.<init>(int)", DEMANGLE_DEFAULT, "java.util.HashMap.<init>(int)");
    check(t, "runtime.(*mheap).alloc", DEMANGLE_DEFAULT, "runtime.(*mheap).alloc");
    check(t, "_start", DEMANGLE_DEFAULT, "_start");
    check(t, "", DEMANGLE_DEFAULT, "");
    check(t, "$s4main3fooyyF", DEMANGLE_FULL, "$s4main3fooyyF");
}

static void shortens_names_that_are_readable_already(struct test *t)
{
    check(t, "std::vector<int>::push_back(int const&)", DEMANGLE_DEFAULT, "std::vector::push_back");
    check(t, "std::vector<int>::push_back(int const&)", DEMANGLE_TEMPLATES,
          "std::vector<int>::push_back");
    check(t, "std::vector<int>::push_back(int const&)", DEMANGLE_FULL,
          "std::vector<int>::push_back(int const&)");
    check(t, "a::operator>(b)", DEMANGLE_DEFAULT, "a::operator>");
}

static void reads_d_names(struct test *t)
{
    check(t, "_D3std5stdio7writelnFZv", DEMANGLE_FULL, "std.stdio.writeln()");
    check(t, "_D9", DEMANGLE_FULL, "_D9");
}

static void survives_names_that_nest_deeply(struct test *t)
{
    struct buf out = {0};
    char *deep = malloc(3 * DEMANGLE_NAME_MAX);
    memset(deep, 'P', 3 * DEMANGLE_NAME_MAX);
    memcpy(deep, "_Z1f", 4);
    for (size_t n = 8; n < 3 * DEMANGLE_NAME_MAX; n += n / 2) {
        deep[n - 2] = 'i';
        deep[n - 1] = '\0';
        demangle(deep, DEMANGLE_FULL, &out);
        CHECK(t, out.len > 0 && out.len <= DEMANGLE_OUTPUT_MAX);
        deep[n - 2] = deep[n - 1] = 'P';
    }
    free(deep);
    buf_done(&out);
}

static void doubles_itself_only_up_to_the_limit(struct test *t)
{
    /* f<A, pair<A,A>, pair<pair,pair>...>: the readable form doubles with every part. */
    struct buf name = {0}, out = {0};
    buf_add_str(&name, "_Z1fI1pIiiE");
    for (int i = 0; i < 36; i++) {
        char id[8];
        int n = i + 1; /* S_ is p, S0_ the first p<..> */
        snprintf(id, sizeof(id), "%c", n <= 9 ? '0' + n - 1 : 'A' + n - 10);
        if (n > 35)
            break;
        buf_addf(&name, "S_IS%s_S%s_E", id, id);
    }
    buf_add_str(&name, "EvT_");
    demangle(buf_cstr(&name), DEMANGLE_FULL, &out);
    CHECK(t, out.len <= DEMANGLE_OUTPUT_MAX);
    buf_done(&name);
    buf_done(&out);
}

static void knows_the_names_of_its_modes(struct test *t)
{
    enum demangle_mode m;
    CHECK(t, demangle_mode_parse("", &m) && m == DEMANGLE_DEFAULT);
    CHECK(t, demangle_mode_parse("full", &m) && m == DEMANGLE_FULL);
    CHECK(t, demangle_mode_parse("templates", &m) && m == DEMANGLE_TEMPLATES);
    CHECK(t, demangle_mode_parse("none", &m) && m == DEMANGLE_NONE);
    CHECK(t, !demangle_mode_parse("fully", &m));
}

static const struct test_case cases[] = {
    TEST(shortens_cpp_names_as_pprof_does),
    TEST(reads_both_kinds_of_rust_names),
    TEST(shortens_go_generics_and_leaves_other_names_alone),
    TEST(shortens_names_that_are_readable_already),
    TEST(reads_d_names),
    TEST(survives_names_that_nest_deeply),
    TEST(doubles_itself_only_up_to_the_limit),
    TEST(knows_the_names_of_its_modes),
};
TEST_MAIN(cases)
