"""Options that are declared once are flags, plain values, and keys."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from hierogram.daemon.cli.flags import flag_of, given, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.storage.options import Declared, Option, OptionError, all_plain, as_plain, check, from_plain


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True, kw_only=True)
class Paint:
    """What to paint, and how."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    what: Annotated[str, Option("What to paint.", positional=True)]
    coats: Annotated[int, Option("Number of coats.", least=1, most=9)] = 2
    share: Annotated[float | None, Option("Share of water.", above=0, below=1, shown="as it comes")] = None
    colour: Annotated[Colour, Option("Colour.")] = Colour.RED
    tool: Annotated[str, Option("Tool", values={"brush": "", "roller": "for walls"})] = "brush"
    into: Annotated[Path | None, Option("Tin.", flags=("--into", "-i"), metavar="TIN")] = None
    names: Annotated[tuple[str, ...] | None, Option("Names.")] = None
    twice: Annotated[bool, Option("Again.")] = False
    dry: Annotated[bool, Option("Let it dry.")] = True
    thinner: Annotated[float, Option("Thinner.", least=0, most=1, expert=True)] = 0.5
    layers: Annotated[tuple[str, ...], Option("Layers.", expert=True)] = ()
    sand: Annotated[bool, Option("Sand it first.", expert=True)] = False


@pytest.mark.parametrize("value", [1 << 63, [1, 1 << 63]])
def test_whole_numbers_are_no_larger_than_databases_hold(value: object) -> None:
    assert Option("n").problem((1 << 63) - 1) is None
    assert Option("n").problem(value) == "9223372036854775808 has to be at most 9223372036854775807"
    assert Option("n", least=2).problem([2, 1]) == "1 has to be at least 2"


def test_weights_may_be_written_where_they_were_read(tmp_path: Path) -> None:
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
    with pytest.raises(UsageError, match="is read by this command"):
        CliRunner().invoke(mixing, [*arguments, "--more", str(weights)], catch_exceptions=False)


app = typer.Typer(rich_markup_mode=None)
seen: list[tuple[Paint, set[str], bool]] = []


@app.command()
@with_options
def paint(context: typer.Context, how: Paint, loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
    """Paint."""
    seen.append((how, given(context, Paint), loud))


def run(*arguments: str) -> tuple[Paint, set[str], bool]:
    seen.clear()
    ran = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return seen[0]


def test_a_field_without_a_flag_has_its_default() -> None:
    assert run("wall") == (Paint(what="wall"), {"what"}, False)


def test_flags_give_fields_of_their_types() -> None:
    made, chosen, loud = run(
        *("wall", "--coats", "3", "--share", "0.5", "--colour", "green", "--tool", "roller", "-i", "tin"),
        *("--names", "a,b", "--twice", "--no-dry", "--loud"),
    )
    wanted = Paint(
        what="wall",
        coats=3,
        share=0.5,
        colour=Colour.GREEN,
        tool="roller",
        into=Path("tin"),
        names=("a", "b"),
        twice=True,
        dry=False,
    )
    assert made == wanted
    assert chosen == set(asdict(wanted)) - {"thinner", "layers", "sand"}
    assert loud


def test_help_says_bounds_values_and_defaults() -> None:
    shown = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    for said in (
        "1<=x<=9",
        "[default: (as it comes)]",
        "Tool: brush, roller (for walls).",
        "--into",
        "TIN",
        "--no-dry",
    ):
        assert said in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--share", "1"), "--share: 1.0 has to be below 1"),
        (("--share", "nan"), "--share: nan has to be above 0"),
        (("--tool", "hand"), "--tool: 'hand' is not there; there are brush, roller"),
    ],
)
def test_what_cannot_be_names_the_flag(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as error:
        run("wall", *arguments)
    assert str(error.value) == said


def test_bounds_of_the_command_line_are_those_declared() -> None:
    for wrong in (("--coats", "0"), ("--coats", "10")):
        ran = CliRunner().invoke(app, ["wall", *wrong])
        assert ran.exit_code == 2
        assert f"Invalid value for '{wrong[0]}'" in ran.output
    with pytest.raises(OptionError, match="coats: 0 has to be at least 1"):
        check(Paint(what="wall", coats=0))


def test_plain_values_and_back() -> None:
    made = Paint(what="wall", colour=Colour.GREEN, into=Path("tin"), names=("a",))
    plain = as_plain(made)
    assert json.loads(json.dumps(plain)) == {"what": "wall", "colour": "green", "into": "tin", "names": ["a"]}
    assert from_plain(Paint, plain) == made
    assert set(all_plain(made)) == set(Declared.of(Paint))


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError):
        from_plain(Paint, {"what": "wall", "lacquer": 3})


def test_flags_are_named_as_people_type_them() -> None:
    assert [flag_of(field) for field in Declared.of(Paint).values()][:3] == ["WHAT", "--coats", "--share"]


def test_options_for_experts_are_set_by_name() -> None:
    made, chosen, _ = run("wall", "--set", "thinner=0.25", "--set", "layers=a,b", "--set", "sand=true")
    assert (made.thinner, made.layers, made.sand) == (0.25, ("a", "b"), True)
    assert {"thinner", "layers", "sand"} <= chosen
    assert flag_of(Declared.of(Paint)["thinner"]) == "--set thinner"
    assert "--thinner" not in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("thinner=2", "--set thinner: 2.0 has to be at most 1"),
        ("thinner=much", "'much' is not a number"),
        ("sand=yes", "'yes' is neither true nor false"),
        ("coats=2", "there is no such setting; there are thinner, layers, sand"),
        ("thinner=?", "Thinner. [default: 0.5]"),
    ],
)
def test_wrong_options_for_experts_are_named(wrong: str, why: str) -> None:
    ran = CliRunner().invoke(app, ["wall", "--set", wrong])
    assert isinstance(ran.exception, UsageError)
    assert why in str(ran.exception)


def test_what_a_setting_is_can_be_asked_without_arguments() -> None:
    ran = CliRunner().invoke(app, ["--set", "thinner=?"])
    assert isinstance(ran.exception, UsageError)
    assert "Thinner. [default: 0.5]" in str(ran.exception)
