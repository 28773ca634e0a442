// Objects of C++, counted: what was really allocated is printed as JSON.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

struct Order {
    char text[1000];
};

static volatile uintptr_t sink;

NOINLINE uint64_t make_orders()
{
    for (int i = 0; i < 60000; i++) {
        auto order = std::make_unique<Order>();
        sink = reinterpret_cast<uintptr_t>(order.get());
    }
    return 60000ull * sizeof(Order);
}

NOINLINE uint64_t make_columns()
{
    for (int i = 0; i < 1200; i++) {
        std::vector<double> column(5000, 1.0);
        sink = reinterpret_cast<uintptr_t>(column.data());
    }
    return 1200ull * 5000 * sizeof(double);
}

NOINLINE uint64_t keep_array()
{
    for (int i = 0; i < 400; i++)
        sink = reinterpret_cast<uintptr_t>(new char[30000]); // site: array
    return 400ull * 30000;
}

int main()
{
    unsigned long long orders = make_orders(), columns = make_columns(), array = keep_array();

    std::printf("{\"orders\": %llu, \"columns\": %llu, \"array\": %llu}\n", orders, columns, array);
    return 0;
}
