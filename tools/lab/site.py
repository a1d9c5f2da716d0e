"""Build a website from the README, docs/, notebooks and docstrings, and check its links.

    python -m hierogram.tools.lab.site -o site

Requires the extra `site`. Links to source files are replaced by their text.
"""

import inspect
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import hierogram
from hierogram.daemon.exceptions import UsageError

ROOT = Path(__file__).resolve().parents[2]
README, REFERENCE = "index.md", "reference.md"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_TOP = ("CONTRIBUTING.md", "CHANGELOG.md")


def pages() -> dict[str, str]:
    """Return the Markdown pages of the site by path in the site. Links point to these paths."""
    texts = {README: (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")}
    for name in _TOP:
        texts[name] = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        relative_path = path.relative_to(ROOT / "docs")
        up = "../" * (len(relative_path.parts) - 1)
        text = path.read_text(encoding="utf-8")
        for name, page_name in (("README.md", README), *((name, name) for name in _TOP)):
            text = text.replace(f"]({up}../{name}", f"]({up}{page_name}")
        texts[str(relative_path)] = text
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        texts[f"notebooks/{path.stem}.md"] = notebook_page(json.loads(path.read_text(encoding="utf-8")))
    texts[REFERENCE] = reference()
    return {name: _plain_sources(name, text.replace(".ipynb)", ".md)")) for name, text in texts.items()}


def _plain_sources(page: str, text: str) -> str:
    """Replace links to files of the repository that are not in the site by the text of the link."""

    def replace_link(link: re.Match[str]) -> str:
        picture, label, target = link.groups()
        path = (ROOT / "docs" / page).parent / target.partition("#")[0]
        is_file_link = not picture and "://" not in target and not target.startswith("#")
        is_in_site = path.suffix == ".md" or path.resolve().is_relative_to(ROOT / "docs")
        return label if is_file_link and not is_in_site else link.group()

    return _LINK.sub(replace_link, text)


def notebook_page(notebook: dict[str, Any]) -> str:
    """Convert a notebook with its outputs to Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                output_text = "".join(output.get("text") or data["text/plain"]).rstrip()
                parts.append(f"```text\n{output_text}\n```")
    return "\n\n".join(parts) + "\n"


def reference() -> str:
    """Return the reference of the library: signature and docstring of each public name."""
    parts = ["# Reference", "All names of `import hierogram as hg`; [From Python](library.md) shows them at work."]
    for name in sorted(hierogram._MODULES, key=str.lower):
        parts += _describe(name, getattr(hierogram, name))
    return "\n\n".join(parts) + "\n"


def _describe(name: str, member: Any) -> Iterator[str]:
    yield f"## {name}"
    yield from _document(f"hg.{name}", member)
    if inspect.isclass(member) and not issubclass(member, Exception):
        for method, value in vars(member).items():
            if method.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
                continue
            yield f"### {name}.{method}"
            yield from _document(f"{name}.{method}", value)


def _document(name: str, member: Any) -> Iterator[str]:
    """Yield the signature, unless `member` is a property or an exception, and the docstring."""
    if callable(member) and not (inspect.isclass(member) and issubclass(member, Exception)):
        signature = re.sub(r"\b(hierogram|numpy|typing|collections)\.(\w+\.)*", "", str(inspect.signature(member)))
        # Some annotations are quoted in the source. Show them without quotes.
        signature = re.sub(r"((?:: |-> ))'([^']*)'", r"\1\2", signature)
        # Remove declarations of options, which are only for the command line.
        signature = re.sub(r"Annotated\[(.*?), Option\(.*?\)\]", r"\1", signature)
        yield f"```python\n{name}{signature}\n```"
    yield inspect.getdoc(member) or ""


def llms_text(page_texts: dict[str, str]) -> str:
    """Return the content of llms.txt: a list of pages with their first sentences."""
    lines = ["# Hierogram", "", "> Learn synchronous grammars from growing parallel corpora.", "", "## Pages", ""]
    for name, text in page_texts.items():
        title, _, rest = text.partition("\n")
        paragraphs = re.sub(r"```.*?```", "", rest, flags=re.DOTALL).split("\n\n")
        prose = next((" ".join(part.split()) for part in paragraphs if part.lstrip()[:1].isalnum()), "")
        lines.append(
            f"- [{title.lstrip('# ')}]({name}): {_LINK.sub(lambda link: link[2], prose).split('. ')[0].rstrip('.:')}"
        )
    return "\n".join(lines) + "\n"


def write_input(folder: Path) -> None:
    """Write the input files of the site builder: `zensical.toml`, and pages and figures in `pages/`."""
    page_texts = pages()
    for name, text in page_texts.items():
        path = folder / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "figures", folder / "pages" / "figures")
    (folder / "pages" / "llms.txt").write_text(llms_text(page_texts), encoding="utf-8")
    (folder / "zensical.toml").write_text(
        '[project]\nsite_name = "Hierogram"\ndocs_dir = "pages"\nsite_dir = "site"\nuse_directory_urls = false\n'
    )


def build(output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the site.")] = Path("site")) -> None:
    """Build the site. Raises `UsageError` if a link is broken or the builder is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        write_input(Path(folder))
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if ran.returncode:
            printed = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout + ran.stderr).partition("Traceback")[0].strip()
            raise UsageError(f"the site cannot be built (the extra `site` must be installed):\n{printed}")
        shutil.copytree(Path(folder) / "site", output, dirs_exist_ok=True)
        # Copy the Markdown pages also, because llms.txt links to them.
        shutil.copytree(Path(folder) / "pages", output, dirs_exist_ok=True)


if __name__ == "__main__":
    typer.run(build)
