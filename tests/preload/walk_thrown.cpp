// Exceptions on their way: in a destructor, in a handler, and thrown on from there.
extern "C" {
typedef void shape_fn(void *ctx);
__attribute__((visibility("default"))) int thrown_in_destructor(shape_fn *at, void *ctx);
__attribute__((visibility("default"))) int thrown_in_handler(shape_fn *at, void *ctx);
__attribute__((visibility("default"))) int thrown_on(shape_fn *at, void *ctx);
}

namespace
{

struct at_end {
    shape_fn *at;
    void *ctx;
    __attribute__((noinline)) ~at_end()
    {
        at(ctx);
        __asm__ volatile("" ::: "memory");
    }
};

__attribute__((noinline)) void throw_it(int n)
{
    volatile char room[200];
    room[n] = 0;
    throw n + room[n];
}

__attribute__((noinline)) void throw_beside(shape_fn *at, void *ctx)
{
    at_end last{at, ctx};
    throw_it(5);
}

} // namespace

int thrown_in_destructor(shape_fn *at, void *ctx)
{
    try {
        throw_beside(at, ctx);
    } catch (int n) {
        return n;
    }
    return 0;
}

int thrown_in_handler(shape_fn *at, void *ctx)
{
    try {
        throw_it(6);
    } catch (int n) {
        at(ctx);
        __asm__ volatile("" ::: "memory");
        return n;
    }
    return 0;
}

int thrown_on(shape_fn *at, void *ctx)
{
    try {
        try {
            throw_it(7);
        } catch (int n) {
            at_end last{at, ctx};
            throw;
        }
    } catch (int n) {
        return n;
    }
    return 0;
}
