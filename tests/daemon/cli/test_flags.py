"""Options are declared once and become flags, plain values, and keys."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from hierogram.daemon.cli.flags import given_options, option_flag, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.storage.options import Option, OptionError, OptionField, Options, as_plain, check, from_plain


class Color(StrEnum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True, kw_only=True)
class Paint(Options):
    what: Annotated[str, Option("Object to paint.", positional=True)]
    coats: Annotated[int, Option("Number of coats.", min=1, max=9)] = 2
    share: Annotated[float | None, Option("Share of water.", above=0, below=1, shown="as it comes")] = None
    color: Annotated[Color, Option("Color.")] = Color.RED
    tool: Annotated[str, Option("Tool", values={"brush": "", "roller": "for walls"})] = "brush"
    into: Annotated[Path | None, Option("Tin.", flags=("--into", "-i"), metavar="TIN")] = None
    names: Annotated[tuple[str, ...] | None, Option("Names.")] = None
    twice: Annotated[bool, Option("Again.")] = False
    dry: Annotated[bool, Option("Let it dry.")] = True


@pytest.mark.parametrize("value", [1 << 63, [1, 1 << 63]])
def test_integers_are_limited_to_64_bits(value: object) -> None:
    assert Option("n").problem((1 << 63) - 1) is None
    assert Option("n").problem(value) == "must be <= 9223372036854775807, got 9223372036854775808"
    assert Option("n", min=2).problem([2, 1]) == "must be >= 2, got 1"


def test_weights_are_the_only_input_that_the_output_may_replace(tmp_path: Path) -> None:
    weights = tmp_path / "w.toml"
    weights.write_text("[weights]\n")
    mixing = typer.Typer()

    @mixing.command()
    @with_options
    def mix(
        weights: Annotated[Path | None, Option("Weights.", metavar="FILE")] = None,
        output: Annotated[Path | None, Option("Output.", metavar="FILE")] = None,
        more: Annotated[list[str] | None, Option("More.")] = None,
    ) -> None:
        """Mix."""

    arguments = ["--weights", str(weights), "--output", str(weights), "--more", "word " * 1_000]
    assert CliRunner().invoke(mixing, arguments, catch_exceptions=False).exit_code == 0
    with pytest.raises(UsageError, match="is also an input of this command"):
        CliRunner().invoke(mixing, [*arguments, "--more", str(weights)], catch_exceptions=False)


app = typer.Typer(rich_markup_mode=None)
seen: list[tuple[Paint, set[str], bool]] = []


@app.command()
@with_options
def paint(context: typer.Context, how: Paint, loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
    """Paint."""
    seen.append((how, given_options(context, Paint), loud))


def run(*arguments: str) -> tuple[Paint, set[str], bool]:
    seen.clear()
    ran = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return seen[0]


def test_a_field_whose_flag_is_not_given_has_its_default() -> None:
    assert run("wall") == (Paint(what="wall"), {"what"}, False)


def test_flags_are_converted_to_the_types_of_fields() -> None:
    made, chosen, loud = run(
        *("wall", "--coats", "3", "--share", "0.5", "--color", "green", "--tool", "roller", "-i", "tin"),
        *("--names", "a,b", "--twice", "--no-dry", "--loud"),
    )
    wanted = Paint(
        what="wall",
        coats=3,
        share=0.5,
        color=Color.GREEN,
        tool="roller",
        into=Path("tin"),
        names=("a", "b"),
        twice=True,
        dry=False,
    )
    assert made == wanted
    assert chosen == set(asdict(wanted))
    assert loud


def test_help_shows_bounds_values_and_defaults() -> None:
    shown = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    for message in (
        "1<=x<=9",
        "[default: (as it comes)]",
        "Tool: brush, roller (for walls).",
        "--into",
        "TIN",
        "--no-dry",
    ):
        assert message in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--share", "1"), "--share: must be < 1, got 1.0"),
        (("--share", "nan"), "--share: must be > 0, got nan"),
        (("--tool", "hand"), "--tool: must be one of brush, roller, got 'hand'"),
    ],
)
def test_errors_of_invalid_values_name_the_flag(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as error:
        run("wall", *arguments)
    assert str(error.value) == message


def test_declared_bounds_apply_to_flags_and_objects() -> None:
    for wrong in (("--coats", "0"), ("--coats", "10")):
        ran = CliRunner().invoke(app, ["wall", *wrong])
        assert ran.exit_code == 2
        assert f"Invalid value for '{wrong[0]}'" in ran.output
    with pytest.raises(OptionError, match="coats: must be >= 1, got 0"):
        check(Paint(what="wall", coats=0))


def test_options_survive_a_round_trip_through_plain_values() -> None:
    made = Paint(what="wall", color=Color.GREEN, into=Path("tin"), names=("a",))
    plain = as_plain(made)
    assert json.loads(json.dumps(plain)) == {"what": "wall", "color": "green", "into": "tin", "names": ["a"]}
    assert from_plain(Paint, plain) == made
    assert set(as_plain(made, with_defaults=True)) == set(OptionField.of(Paint))


def test_plain_values_with_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError):
        from_plain(Paint, {"what": "wall", "lacquer": 3})


def test_flags_are_named_after_their_fields() -> None:
    assert [option_flag(field) for field in OptionField.of(Paint).values()][:3] == ["WHAT", "--coats", "--share"]
