"""The documentation, held against the code."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from gralkord.config import Settings
from gralkord.errors import GralkorError

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")])


def generator():
    """Load docs/generate.py."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = generator()


@pytest.mark.parametrize("name", sorted(generate.PAGES))
def test_generated_reference_is_up_to_date(name):
    """A reference page says what the code says; `make docs` writes it."""
    assert (generate.REFERENCE / name).read_text() == generate.PAGES[name]()


def test_every_model_that_the_interface_refers_to_is_described():
    """The document for generators of clients has the bodies of requests, too."""
    text = generate.openapi()
    schemas = json.loads(text)["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/([^"]+)"', text)) <= set(schemas)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Every relative link of a page names a file that exists."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_setting_has_type_default_and_effect():
    """Each row says all of it, and each name of elsewhere is that of a setting that there is."""
    rows = [
        [cell.strip() for cell in line.split(" | ")]
        for line in generate.configuration().splitlines()
        if line.startswith("| `") and line.count(" | ") == 4
    ]
    keys = {row[0].removeprefix("| ").strip("`") for row in rows}
    known = set(generate._plain(Settings))
    for path, section, _ in generate._sections(Settings):
        known |= {f"{path}.{name}" for name in generate._plain(section)}
    assert keys == known
    for _, kind, default, effect, _ in rows:
        assert kind
        assert default
        assert effect.endswith((".", ")")), effect
    assert set(generate.ELSEWHERE["names"]) <= keys


def test_readme_begins_with_the_two_commands():
    """The first code a reader sees is `make demo` and `make test`."""
    block = (ROOT / "README.md").read_text().split("```")[1]
    assert "make demo" in block
    assert "make test" in block


def test_every_error_answers_retry_or_not():
    """Codes are unique within the tree and every class has a sentence of its own."""
    seen = {}

    def walk(kind):
        for child in kind.__subclasses__():
            if child.__module__ == "gralkord.errors":
                assert child.__doc__, child
                assert child.code not in seen, f"{child} and {seen.get(child.code)}"
                seen[child.code] = child
                walk(child)

    walk(GralkorError)
    assert len(seen) > 10
