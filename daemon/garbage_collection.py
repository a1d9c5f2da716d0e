"""How seldom Python looks for garbage in cycles."""

import gc

_NEW_OBJECTS = 100_000
"""Objects made and not yet given back before it looks; Python's own 700 cost a tenth of the time to a first sweep."""


def collect_seldom() -> None:
    """Look seldom: nearly all that is made while modules load and kernels are read lives as long as the process."""
    gc.set_threshold(_NEW_OBJECTS, 50, 100)
