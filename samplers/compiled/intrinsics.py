"""Processor instructions that numba does not expose, and vectors of eight float64 numbers.

Arguments are checked by neither numba nor the processor: an index beyond the array reads or writes other memory.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

_LANES = 8
_EIGHT = ir.VectorType(ir.DoubleType(), _LANES)


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line where row `index` of an array begins. The index is not checked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, rows.strides)[0]
        offset = builder.mul(stride, context.cast(builder, arguments[1], signature.args[1], types.intp))
        start = builder.ptrtoint(rows.data, stride.type)
        address = builder.inttoptr(builder.add(start, offset), cgutils.voidptr_t)
        word = cgutils.int32_t
        instruction = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word]), "llvm.prefetch.p0"
        )
        builder.call(instruction, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


@intrinsic
def fetch_and_increment(typing_context: Any, counter: Any) -> Any:
    """Atomically increment the first item of an int64 array and return its previous value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, context.get_constant(types.int64, 1), "monotonic")

    return types.int64(counter), generate


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Return the position of the lowest set bit of a uint64 word. Undefined for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.int64(types.uint64), generate


class _Eight(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Eight")


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _EIGHT)


_eight = _Eight()


def _lane_pointer(context: Any, builder: Any, kinds: Any, array: Any, index: Any) -> Any:
    numbers = context.make_array(kinds[0])(context, builder, array)
    first = builder.gep(numbers.data, [context.cast(builder, index, kinds[1], types.intp)])
    return builder.bitcast(first, _EIGHT.as_pointer())


def _broadcast(builder: Any, number: Any, kind: Any) -> Any:
    vector = ir.VectorType(kind, _LANES)
    first_lane = builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.Constant(cgutils.int32_t, 0))
    lane_indices = ir.Constant(ir.VectorType(cgutils.int32_t, _LANES), [0] * _LANES)
    return builder.shuffle_vector(first_lane, ir.Constant(vector, ir.Undefined), lane_indices)


@intrinsic
def zero_eight(typing_context: Any) -> Any:
    """Return a vector of eight float64 zeros."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(_EIGHT, [0.0] * _LANES)

    return _eight(), generate


@intrinsic
def load_eight(typing_context: Any, array: Any, index: Any) -> Any:
    """Return the elements `index` to `index` + 7 of a float64 array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_lane_pointer(context, builder, signature.args, *arguments), align=8)

    return _eight(array, index), generate


@intrinsic
def add_eight(typing_context: Any, total: Any, factor: Any, eight: Any) -> Any:
    """Return total + factor · eight. `total` and `eight` are vectors, and `factor` is a float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        totals, number, numbers = arguments
        return builder.fadd(totals, builder.fmul(_broadcast(builder, number, ir.DoubleType()), numbers))

    return _eight(_eight, types.float64, _eight), generate


@intrinsic
def add_products(typing_context: Any, total: Any, one: Any, other: Any) -> Any:
    """Return total + one · other of three vectors, elementwise."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(arguments[0], builder.fmul(arguments[1], arguments[2]))

    return _eight(_eight, _eight, _eight), generate


@intrinsic
def sum_eight(typing_context: Any, eight: Any) -> Any:
    """Return the sum of a vector. The numbers are added in order, so that the sum is reproducible."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = [ir.Constant(cgutils.int32_t, lane) for lane in range(_LANES)]
        total = builder.extract_element(arguments[0], lanes[0])
        for lane in lanes[1:]:
            total = builder.fadd(total, builder.extract_element(arguments[0], lane))
        return total

    return types.float64(_eight), generate


@intrinsic
def accumulate_eight(typing_context: Any, array: Any, index: Any, eight: Any, skipped: Any) -> Any:
    """Add a vector to eight existing array elements from `index` on, except the first `skipped`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _lane_pointer(context, builder, signature.args[:2], *arguments[:2])
        word = cgutils.intp_t
        skipped = _broadcast(builder, context.cast(builder, arguments[3], signature.args[3], types.intp), word)
        counted = builder.icmp_signed(">=", ir.Constant(ir.VectorType(word, _LANES), list(range(_LANES))), skipped)
        added = builder.select(counted, arguments[2], ir.Constant(_EIGHT, [0.0] * _LANES))
        builder.store(builder.fadd(builder.load(pointer, align=8), added), pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, index, _eight, skipped), generate
