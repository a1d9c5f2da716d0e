"""Interface of samplers, as in blackjax: build a kernel, initialize a state, take steps.

    kernel = build(model, batch, …)
    state = kernel.init(key)
    state, info = kernel.step(key, state, plan)

The state has all sampled values and their counts. The kernel has the batch, the model and scratch memory. `key` is the
chain's seed: draws are a function of key, plan and state. A plan contains the number of the step, and its options, such
as the pairs that may change. A step consumes the state: it may change the arrays in place.
"""

from collections.abc import Callable

Report = Callable[[int], None]
"""Progress callback: `(number of items done)`."""
