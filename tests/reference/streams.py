"""The random streams in Python integers, with all arithmetic modulo 2**64."""

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    """Return x after the finalizing permutation of splitmix64."""
    x &= MASK
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


class Stream:
    """Uniform draws of one pair in one sweep. Sweep 0 draws the initial state."""

    def __init__(self, seed: int, pair: int, sweep: int) -> None:
        key = mix(seed + GOLDEN)
        key = mix(key + pair * GOLDEN + 1)
        self.state = mix(key + sweep * GOLDEN + 2)

    def uniform(self) -> float:
        """Return the next uniform draw from [0, 1), with 53 random bits."""
        self.state = (self.state + GOLDEN) & MASK
        return (mix(self.state) >> 11) * 2.0**-53
