"""Each language is complete: every sentence of the source is in its catalogue, with the same fields, and compiled."""

import importlib.util
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TRANSLATIONS = ROOT / "resources" / "translations"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """Return `resources/translations/update.py`, which is a command."""
    spec = importlib.util.spec_from_file_location("update_translations", TRANSLATIONS / "update.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def source(tool):
    """Return all sentences of the source."""
    return tool.collect()


@pytest.mark.slow
@pytest.mark.parametrize("code", [path.parents[1].name for path in TRANSLATIONS.glob("*/LC_MESSAGES/trainyard.po")])
def test_language_is_complete(tool, source, code):
    problems = tool.check(TRANSLATIONS / code / "LC_MESSAGES" / "trainyard.po", source)
    assert not problems, "Run resources/translations/update.py, and translate what is new"


def test_sentences_are_collected_wherever_they_stand(tool):
    text = """
# Translators: a name
NAME = tr_noop("name")
words = f"{tr('in an f-string')}: {value}"
words = tr(TABLE.get(key, tr_noop("within another call")), names=join(tr("in a value")))
words = tr_plural("{count} line", "{count} lines", len(lines), lines=lines)
words = other("not translated") + tr(NAME)
"""
    assert [(sentence, comments) for _, sentence, comments in tool.sentences(text)] == [
        ("name", ["a name"]),
        ("in an f-string", []),
        ("within another call", []),
        ("in a value", []),
        (("{count} line", "{count} lines"), []),
    ]


@pytest.fixture
def catalogue(tmp_path, tool):
    """Return a catalogue of one translated sentence with a field, and the source that it translates."""
    path = tmp_path / "zh_CN" / "LC_MESSAGES" / "trainyard.po"
    path.parent.mkdir(parents=True)
    path.write_text('msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n', encoding="utf-8")
    source = tool.Catalog()
    source.add("Run {name} is over.", locations=[("core/a.py", 1)])
    tool.update(path, source)
    return path, source


def translate(tool, path: Path, text: str, *, compiled: bool = True) -> None:
    written = path.read_text(encoding="utf-8")
    begin, end = written.rindex('msgstr "'), written.rstrip().rindex('"')
    path.write_text(f'{written[:begin]}msgstr "{text}{written[end:]}', encoding="utf-8")
    if compiled:
        path.with_suffix(".mo").write_bytes(tool.compiled(path))


def test_check_finds_what_is_missing_or_wrong(tool, catalogue):
    path, source = catalogue
    assert tool.check(path, source) == ["zh_CN: not translated: 'Run {name} is over.'"]
    translate(tool, path, "运行 {name} 已结束。")
    assert tool.check(path, source) == []
    translate(tool, path, "运行已结束。")
    assert tool.check(path, source) == ["zh_CN: other fields than in English: 'Run {name} is over.'"]
    translate(tool, path, "{name} 已结束。", compiled=False)
    assert tool.check(path, source) == ["zh_CN: trainyard.mo is out of date"]
    source.add("Another.")
    assert "zh_CN: not in the catalogue: 'Another.'" in tool.check(path, source)
    assert tool.check(path, tool.Catalog())[0] == "zh_CN: no longer in the source: 'Run {name} is over.'"


def test_update_keeps_the_date(tool, catalogue):
    """Else every update would change every catalogue."""
    path, source = catalogue
    translate(tool, path, "运行 {name} 已结束。")
    before = path.read_bytes()
    source.creation_date = datetime(2030, 1, 1, tzinfo=timezone.utc)
    tool.update(path, source)
    assert path.read_bytes() == before
