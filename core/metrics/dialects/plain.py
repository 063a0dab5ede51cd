"""One way to write a line: numbers with a decimal point, values without their wrapping, and words in English.

The dialects read what `plain` returns. To add a word of another language, add it to its row of `WORDS`.
"""

from __future__ import annotations

import re

from core.metrics.dialects.syntax import NUMBER

WORDS = {
    "learning rate": "学习率 学習率 학습률 Lernrate",
    "train loss": "Trainingsverlust",
    "train accuracy": "Trainingsgenauigkeit",
    "val loss": "Validierungsverlust",
    "val accuracy": "Validierungsgenauigkeit",
    "test loss": "Testverlust",
    "test accuracy": "Testgenauigkeit",
    "loss": "损失函数 损失值 损失 損失値 損失 손실 Verlust Perte Perda Perdita Pérdida Потери Потеря",
    "accuracy": "准确率 准确度 正确率 精确度 精度 準確率 正確率 正解率 정확도 Genauigkeit Exactitude Exactitud "
                "Acurácia Accuratezza Точность",
    "precision": "精确率 查准率 適合率 정밀도 Präzision Précision Precisión Precisão Precisione",
    "recall": "召回率 再現率 재현율",
    "error": "误差 誤差 오차 Fehler",
    "perplexity": "困惑度",
    "train": "训练集 训练 訓練 学習 훈련 학습 Entraînement Entrenamiento Treinamento Treino Addestramento Обучение "
             "Обучения Обучающая",
    "val": "验证集 验证 驗證 検証 검증 Validierung Validación Validação Validazione Валидация Валидации",
    "test": "测试集 测试 測試 テスト 테스트 Тест Теста",
    "best": "最佳 最好 最优 ベスト 최고 Beste Bester Meilleure Meilleur Mejor Melhor Migliore Лучшая Лучшие",
    "average": "平均 평균 Durchschnittlicher Durchschnittliche Moyenne Promedio Média Media Средняя Средние",
    "current": "当前 現在 현재",
    "epoch": "轮次 轮数 エポック 에포크 에폭 Epoche Époque Época Epoca Эпоха",
    "step": "迭代次数 迭代 步数 ステップ 스텝 Schritt Étape Шаг",
    "batch": "批次 バッチ 배치 Lote Пакет",
}
"""English words, and how other languages write them."""
ENGLISH = {word.lower(): english for english, words in WORDS.items() for word in words.split()}
NAMES = frozenset(form.encode() for word, english in ENGLISH.items() if english.split()[-1] in {
    "loss", "accuracy", "precision", "recall", "error", "perplexity", "rate", "epoch"
} for form in (word, word.capitalize(), word.upper()))
"""Words, as bytes, of which a line with a metric has one: names of metrics, and epochs."""


def _any_of(words: list[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


FOREIGN = re.compile(r"[\u00c0-\u024f\u0400-\u04ff\u3000-\u9fff\uac00-\ud7a3]")
UNSPACED = re.compile(r"[\u3000-\u9fff\uac00-\ud7a3]")
WORD = re.compile(
    rf"(?:\b(?:{_any_of([word for word in ENGLISH if not UNSPACED.match(word)])})\b"
    rf"|(?:(?:{_any_of([word for word in ENGLISH if UNSPACED.match(word)])})[的\s]?)+[为是]?)",
    re.IGNORECASE,
)
LATIN = tuple(word for word in ENGLISH if word.isascii())
UNSPACED_WORD = re.compile(_any_of([word for word in ENGLISH if UNSPACED.match(word)]))
OF_PHASE = re.compile(
    r"\b(loss|accuracy|precision|recall|error) (?:d[aeiou]s?|d'|of|на) ?(train|val(?:idation)?|test)\b"
)
"""`Precisión de validación`."""
COUNTED = re.compile(r"第\s*(\d+)\s*(?:/\s*(\d+)\s*)?(?:[个個]\s*)?(轮|輪|次迭代|步|代|epoch|エポック|回|ステップ)")
"""`第3轮`, `第 3/10 轮`."""
STEPS = frozenset({"次迭代", "步", "ステップ"})
WIDE = str.maketrans({"：": ": ", "，": ", ", "；": "; ", "（": " (", "）": ") ", "％": "%", "。": ". "})

WRAPPED = re.compile(
    rf"<tf\.Tensor: [^<>]{{0,99}}?numpy=(?P<eager>{NUMBER})>"
    r"|(?<![\w.])(?:(?:tf\.|torch\.)?tensor|(?:np\.|jnp\.|Device)?array|np\.(?:float|int)\d+)"
    rf"\(\[{{0,3}}\s?(?P<held>{NUMBER})"
    r"\s?\]{0,3}(?:,[^()]*(?:\([^()]*\)[^()]*)?)?\)",
    re.IGNORECASE,
)
"""`tensor(0.5, device='cuda:0')`, `tf.Tensor(0.5, shape=(), dtype=float32)`, `Array(0.5, dtype=float32)`."""
WRAPPERS = ("ensor", "rray(", "np.")
PHASES = r"(train(?:ing)?|val(?:id(?:ation)?)?|test|eval|dev)"
PART = rf"{PHASES}\s?[:=]?\s({NUMBER})"
REWRITTEN = tuple((mark, re.compile(form, re.IGNORECASE), by) for mark, form, by in (
    # `Val. Loss: 0.3`
    (". ", r"\b(val|valid|eval|tr|avg|max|min)\.(?= {1,2}[a-z])", r"\1"),
    # `loss: 0.5 -> 0.4`: the new value
    *((mark, rf"(?<![\w.]){NUMBER}\s?{mark}\s?(?={NUMBER})", "") for mark in ("->", "→")),
    # `LOSS train 0.9 valid 0.5`
    ("rain", rf"\b([a-z]\w{{1,30}})\s?[:|(\-]?\s{{0,2}}{PART}[\s,;|/\-]{{1,4}}{PART}(?![\w.]|,\d)",
     r"\2 \1: \3, \4 \1: \5"),
    # `loss (batch)=0.5`, `loss [val]: 0.5`
    *((mark, rf"\b([a-z]\w{{1,30}}) ?[(\[]{of}[)\]](?=\s?[:=])", by) for mark in ("):", ")=", ") :", "]:", "]=", "] :")
      for of, by in ((PHASES, r"\2 \1"), (r"(?:batch|avg|mean|epoch|step|\d+-\d+)", r"\1"))),
    # `mean/median reward 20.1/20.0`
    ("/m", rf"\b([a-z]+)/(m[a-z]+) ([a-z]+):? ({NUMBER})/({NUMBER})(?![\w/])", r"\1 \3: \4, \2 \3: \5"),
))
"""A text that a line has, an expression, and what stands in its place: each number has its whole name then."""

GROUPED = re.compile(
    r"(?<![\w.,])\d{1,3}(?:(?:,\d{3}){2,}|(?:,\d{3})+(?=\.\d)|(?:,\d{3})+(?=\s?/\s?\d))(?!,?\d)"
    r"|(?<=/)\d{1,3}(?:,\d{3})+(?![.,]?\d)"
)
"""Thousands."""
GROUPED_COUNT = re.compile(
    r"((?:step|iter|iteration|epoch|update|batch)s?\W{0,3}\s{0,8})(\d{1,3}),(\d{3})(?![.,]?\d)", re.IGNORECASE
)
COMMA = re.compile(r"((?:^|(?<!\d)[:=|]|[^\W\d]|\s)\s{0,8}[-+]?)(\d+),(\d+)(?![\d.]|,\d)")
"""Perhaps a decimal comma."""
SCALED = re.compile(r"(?<![\w.,:/\-])(\d+(?:\.\d+)?)([kKM])(?=$|[\s,;|)\]])")
SCALE, COMMAS = re.compile(r"\d[kKM]\b"), re.compile(r"\d,\d")
SCALES = {"k": 1e3, "K": 1e3, "M": 1e6}


def plain(text: str) -> str:
    """Return a line as the dialects read it."""
    foreign = not text.isascii() and FOREIGN.search(text) is not None
    if foreign:
        text = COUNTED.sub(_counted, text.translate(WIDE))
    if foreign or any(map(text.lower().__contains__, LATIN)):
        text = OF_PHASE.sub(r"\2 \1", WORD.sub(_in_english, text))
    for mark, form, by in REWRITTEN:
        if mark in text:
            text = form.sub(by, text)
    if any(map(text.__contains__, WRAPPERS)):
        text = WRAPPED.sub(lambda match: match["eager"] or match["held"], text)
    if "," in text and COMMAS.search(text):
        text = _with_points(text)
    if "%|" in text or not SCALE.search(text):
        return text
    return SCALED.sub(lambda match: f"{float(match[1]) * SCALES[match[2]]:.12g}", text)


def _counted(match: re.Match[str]) -> str:
    total = f"/{match[2]}" if match[2] else ""
    return f" {'step' if match[3] in STEPS else 'epoch'} {match[1]}{total} "


def _in_english(match: re.Match[str]) -> str:
    """Return the English for a word, or for several that have no space between them."""
    text = match[0]
    found = [text] if text.lower() in ENGLISH else UNSPACED_WORD.findall(text)
    english = " ".join(ENGLISH[word.lower()] for word in found)
    if not UNSPACED.match(text):
        return english
    before, after = match.string[match.start() - 1 : match.start()], match.string[match.end() : match.end() + 1]
    return f"{' ' if before.isalnum() else ''}{english}{' ' if after.isalnum() or text[-1].isspace() else ''}"


def _with_points(text: str) -> str:
    """Return a line without thousands separators, and with points for decimal commas.

    `1,234` alone may be either: it stays as it is, and is no number.
    """
    text = GROUPED_COUNT.sub(r"\1\2\3", GROUPED.sub(lambda match: match[0].replace(",", ""), text))
    found = [match for match in COMMA.finditer(text) if len(match[3]) != 3 or match[2].startswith("0")]
    return COMMA.sub(r"\1\2.\3", text) if found else text
