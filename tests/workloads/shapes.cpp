// Exceptions, inlined calls, virtual calls and templates.
#include <stdexcept>
#include <string>
#include <vector>

#include "work.h"

namespace shop {

template <typename T> struct Basket {
    NOINLINE void add_up(T n)
    {
        spin(static_cast<unsigned>(n));
        sink = sink + 1;
    }
};

struct Shape {
    virtual ~Shape() = default;
    virtual void draw() = 0;
};

struct Circle : Shape {
    NOINLINE void draw() override
    {
        spin(30);
        sink = sink + 1;
    }
};

static inline __attribute__((always_inline)) void inlined_middle(Shape &s)
{
    s.draw();
    sink = sink + 1;
}

NOINLINE void fails(int depth)
{
    if (depth == 0)
        throw std::runtime_error("as planned");
    fails(depth - 1);
    sink = sink + 1;
}

NOINLINE void catches()
{
    try {
        fails(20);
    } catch (const std::exception &e) {
        sink = sink + std::string(e.what()).size();
    }
}

} // namespace shop

int main(int argc, char **argv)
{
    double until = seconds_now() + seconds_asked(argc, argv);
    shop::Basket<int> basket;
    shop::Circle circle;

    while (seconds_now() < until) {
        basket.add_up(60);
        shop::inlined_middle(circle);
        shop::catches();
    }
    return 0;
}
