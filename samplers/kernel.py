"""Interface of samplers, as in blackjax: build a kernel, initialize a state, take steps.

    kernel = build(model, batch, …)
    state = kernel.init(key)
    state, info = kernel.step(key, state, plan)

The state has all sampled values and their counts. The kernel has the batch, the model and scratch memory.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

State = TypeVar("State")
Plan = TypeVar("Plan", contravariant=True)
Info = TypeVar("Info", covariant=True)

Report = Callable[[int], None]
"""Progress callback: `(number of items done)`."""


class Kernel(Protocol[State, Plan, Info]):
    """Sampler of one model over one batch.

    `key` is the chain's seed: draws are a function of key, plan and state. A plan contains the number of the step, and
    its options, such as the pairs that may change.
    """

    def init(self, key: int) -> State:
        """Return the initial state."""

    def step(self, key: int, state: State, plan: Plan) -> tuple[State, Info]:
        """Return the next state and information about the step. Consumes `state`: may change its arrays in place."""
