"""The interface that all samplers share, as in blackjax: build a kernel, make a state, take steps.

    kernel = build(model, batch, …)
    state = kernel.init(key)
    state, info = kernel.step(key, state, plan)

The rule table, and whatever else is sampled, is part of the state; batch, model and scratch memory belong to the
kernel.
"""

from typing import Protocol, TypeVar

State = TypeVar("State")
Plan = TypeVar("Plan", contravariant=True)
Info = TypeVar("Info", covariant=True)


class Kernel(Protocol[State, Plan, Info]):
    """A sampler of one model over one batch.

    `key` is the chain's seed: what is drawn is a function of the key, the plan and the state. A plan says what one step
    does: the sweep's number, and which pairs may change how far.
    """

    def init(self, key: int) -> State:
        """The initial state."""

    def step(self, key: int, state: State, plan: Plan) -> tuple[State, Info]:
        """The state one step further, and what the step did; consumes `state` (changes its arrays in place)."""
