"""Differences of a percent, where single runs differ by several.

Rounds run every variant once, in orders that are balanced: each stands before and behind each other
equally often, so that what drifts cancels. Of a round each comparison has one difference, and the
estimate is that of Hodges and Lehmann: the median of all means of two differences, with the interval
of Wilcoxon's test. A run that something disturbed counts as one run, however long it took. Rounds go
on until half of the 95 % interval is small enough, or the time is used up.

    python3 bench/steady.py     checks the estimator where the answer is known

  BENCH_HALF      the half width that is wanted, in percent (0.7)
  BENCH_SECONDS   that may be spent on it, for each program (360)
"""

import dataclasses
import itertools
import math
import os
import random
import sys
import time

HALF = float(os.environ.get("BENCH_HALF", "0.7"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "360"))
LEAST_ROUNDS, MOST_ROUNDS = 12, 900
Z = 1.96


def say(metric, value, unit):
    print(f"{metric}: {value:.4g} {unit}", flush=True)


@dataclasses.dataclass
class Estimate:
    value: float
    low: float
    high: float
    n: int

    @property
    def half(self):
        return (self.high - self.low) / 2


def say_estimate(metric, estimate, unit="%", rounds="rounds"):
    say(metric, estimate.value, f"{unit} (+- {estimate.half:.2g})")
    say(f"{metric}_half", estimate.half, unit)
    say(f"{metric}_{rounds}", estimate.n, "")


def estimate(values):
    """The middle of differences, and its 95 % interval. Below six they have none that is so sure."""
    n = len(values)
    if n == 0:
        return Estimate(math.nan, -math.inf, math.inf, 0)
    means = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2))
    middle = (means[(len(means) - 1) // 2] + means[len(means) // 2]) / 2
    if n < 6:
        return Estimate(middle, -math.inf, math.inf, n)
    cut = n * (n + 1) / 4 - Z * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    at = max(0, math.floor(cut))
    return Estimate(middle, means[at], means[-1 - at], n)


def orders(names):
    """Endless; all orders come equally often."""
    every = list(itertools.permutations(names)) if len(names) <= 4 else None
    while True:
        if every:
            yield from random.sample(every, len(every))
        else:
            yield random.sample(names, len(names))


def percent_more(times, name, *bases):
    """For each round, how much more `name` took than the mean of the others."""
    return [(a / (sum(b) / len(b)) - 1) * 100
            for a, *b in zip(times[name], *(times[base] for base in bases))]


def rounds(names, measure, differences, half=HALF, seconds=SECONDS):
    """name -> what measure(name) said in each round, until the differences(times) are known."""
    times = {name: [] for name in names}
    end = time.monotonic() + seconds
    for n, order in enumerate(orders(names), 1):
        for name in order:
            times[name].append(measure(name))
        # After whole blocks of orders only, so that they stay balanced.
        if n % math.factorial(min(len(names), 3)) == 0 and n >= LEAST_ROUNDS:
            if (time.monotonic() > end or n >= MOST_ROUNDS
                    or estimate(differences(times)).half <= half):
                return times


def on_cpu(number, pid=0):
    """For preexec_fn: there it stays with all that it starts. Without a second CPU, anywhere."""
    there = sorted(os.sched_getaffinity(0))
    if len(there) < 2:
        return lambda: None
    return lambda: os.sched_setaffinity(pid, {there[number % len(there)]})


# ---- Whether the estimator is right ----

def disturbed(dice, middle):
    """Differences as they are measured: some runs are much slower than others."""
    value = dice.gauss(middle, 2)
    if dice.random() < 0.1:
        value += dice.choice((-1, 1)) * dice.uniform(5, 40)
    return value


def check():
    dice = random.Random(1)
    assert estimate([1, 2, 3, 4, 5, 6, 7]).value == 4
    assert estimate([5]).half == math.inf
    held = wide = 0
    errors, means = [], []
    for _ in range(400):
        values = [disturbed(dice, 1.5) for _ in range(40)]
        got = estimate(values)
        held += got.low <= 1.5 <= got.high
        wide += got.half
        errors.append((got.value - 1.5) ** 2)
        means.append((sum(values) / len(values) - 1.5) ** 2)
    bias = sum(estimate([disturbed(dice, 1.5) for _ in range(40)]).value for _ in range(400)) / 400
    print(f"coverage {held / 4:.1f} %, half width {wide / 400:.2f}, bias {bias - 1.5:+.3f}, "
          f"error {math.sqrt(sum(errors) / 400):.2f} (of the mean: {math.sqrt(sum(means) / 400):.2f})")
    assert 0.92 <= held / 400 <= 0.985
    assert abs(bias - 1.5) < 0.1
    assert sum(errors) < sum(means)
    drift = itertools.count()
    times = rounds(["a", "b", "c"], lambda name: 100 + next(drift) * 0.05 + (name == "b"),
                   lambda t: percent_more(t, "b", "a", "c"), half=0.05, seconds=5)
    assert abs(estimate(percent_more(times, "b", "a", "c")).value - 1) < 0.05
    assert abs(estimate(percent_more(times, "c", "a")).value) < 0.05
    return 0


if __name__ == "__main__":
    sys.exit(check())
