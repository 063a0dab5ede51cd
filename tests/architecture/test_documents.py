"""Check how long the documents are, and that links in them lead to a heading."""

import re
from pathlib import Path

import core

ROOT = Path(core.__file__).resolve().parents[1]
USERS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*USERS, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
WIDEST = 120
"""Characters of a line, unless an address alone is longer."""
LARGEST_BYTES = 134_000
"""Of the README, the changelog and docs together."""
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def test_no_line_of_a_document_is_too_wide() -> None:
    wide = [
        f"{page.name}:{number}: {len(line)} characters"
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > WIDEST and not any(len(word) > WIDEST and "://" in word for word in line.split())
    ]
    assert wide == []


def test_the_documents_together_are_short() -> None:
    total = sum(page.stat().st_size for page in USERS)
    assert total <= LARGEST_BYTES, (
        f"README, CHANGELOG and docs have {total / 1000:.1f} kB, more than {LARGEST_BYTES / 1000:.0f} kB: "
        "say it in fewer words."
    )


def test_every_link_to_a_heading_leads_to_one() -> None:
    anchors = {page.resolve(): set(map(_anchor, _headings(page))) for page in PAGES}
    broken = [
        f"{page.name}: {name}#{anchor}"
        for page in PAGES
        for name, anchor in re.findall(r"\]\(([\w./-]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
        if anchor not in anchors.get((page.parent / name if name else page).resolve(), set())
    ]
    assert broken == []


def _headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", CODE_BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
