# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""BLEU with its signature, as an `evaluate.Metric` that needs no network."""

import re
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import datasets
import evaluate
import sacrebleu


MOSES = "moses-"  # and a language code: a tokenizer that sacrebleu does not have
TOKENISED = "none"


class SacreBleu(evaluate.Metric):
    """Corpus BLEU by sacrebleu (Post 2018), with the signature that makes it comparable.

    `compute(predictions=[...], references=[...])` takes detokenised sentences, one reference each
    (or a list of references each), and returns `score` (0 to 100), `precisions`, `bp`, `sys_len`,
    `ref_len`, `counts`, `totals` and `signature`. Options:

    `tokenize`: sacrebleu's tokenizer; `"none"` for text that is tokenised already; `"moses-de"` for
    the Moses tokenizer of a language, which needs sacremoses.
    `lowercase`: whether case counts for nothing.
    `split_compounds`: tokenised, compound-split BLEU, by which the paper's authors scored German
    (tensor2tensor, `get_ende_bleu.sh`) and which is higher than 13a: tokens are cut at hyphens, and
    nothing is smoothed, as in `multi-bleu.perl`. That script takes a no-break space for a letter,
    sacrebleu for a space; else they give the same. The signature ends in `|compounds:split`.

    Raises `ValueError` for an unknown tokenizer, and for one that would come after the cutting.
    """

    def _info(self) -> evaluate.MetricInfo:
        one = datasets.Features(
            {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
        )
        several = datasets.Features(
            {
                "predictions": datasets.Value("string"),
                "references": datasets.Sequence(datasets.Value("string")),
            }
        )
        return evaluate.MetricInfo(
            description="Corpus BLEU by sacrebleu, with its signature.",
            citation="Post, A Call for Clarity in Reporting BLEU Scores, WMT 2018.",
            features=[several, one],
            homepage="https://github.com/mjpost/sacrebleu",
        )

    def _compute(
        self,
        predictions: Sequence[str],
        references: Sequence[str] | Sequence[Sequence[str]],
        tokenize: str = "13a",
        lowercase: bool = False,
        split_compounds: bool = False,
    ) -> dict[str, Any]:
        prepare, used = preparation(tokenize, split_compounds)
        several: list[Any] = (
            [references] if isinstance(references[0], str) else [*zip(*references, strict=True)]
        )
        # `force`: text that is tokenised already is what tokenize="none" is for.
        bleu = sacrebleu.BLEU(
            tokenize=used,
            lowercase=lowercase,
            smooth_method="none" if split_compounds else "exp",
            force=True,
        )
        result = bleu.corpus_score(
            [prepare(text) for text in predictions],
            [[prepare(text) for text in stream] for stream in several],
        )
        signature = str(bleu.get_signature())
        if tokenize != used:
            named = f"|tok:{tokenize}-sacremoses-{version('sacremoses')}|"
            signature = signature.replace(f"|tok:{used}|", named)
        if split_compounds:
            signature += "|compounds:split"
        return {
            "score": result.score,
            "precisions": result.precisions,
            "bp": result.bp,
            "sys_len": result.sys_len,
            "ref_len": result.ref_len,
            "counts": result.counts,
            "totals": result.totals,
            "signature": signature,
        }


def preparation(tokenize: str, is_split: bool) -> tuple[Callable[[str], str], str]:
    """What is done to a sentence before sacrebleu sees it, and the tokenizer left to sacrebleu.

    Raises:
        ValueError: as `SacreBleu` does.
    """
    if tokenize.startswith(MOSES):
        tokens = moses_tokenizer(tokenize.removeprefix(MOSES))
        return (lambda text: split_compounds(tokens(text))) if is_split else tokens, TOKENISED
    if tokenize not in sacrebleu.BLEU.TOKENIZERS:
        known = ", ".join(sacrebleu.BLEU.TOKENIZERS)
        raise ValueError(
            f"tokenize must be one of sacrebleu's tokenizers ({known}) or '{MOSES}' and a language "
            f"code, got tokenize='{tokenize}'."
        )
    if is_split and tokenize != TOKENISED:
        raise ValueError(
            f"split_compounds=True cuts tokens, and tokenize='{tokenize}' would come after it; set "
            f"tokenize to 'none' for text that is tokenised, to '{MOSES}de' to have it tokenised."
        )
    return (split_compounds if is_split else str), tokenize


def split_compounds(text: str) -> str:
    """Cut hyphenated tokens, `rich-text` to `rich ##AT##-##AT## text` (`get_ende_bleu.sh`).

    A cut needs a character other than a space on both sides, and uses both up: `a-b-c` is cut once,
    at its first hyphen. The script's characters are bytes, so `a-ä-c` is cut twice, and a no-break
    space is none of its spaces.
    """
    return re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", text.encode()).decode()


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """The Moses tokenizer of `get_ende_bleu.sh`: a sentence in, tokens with spaces between out.

    Unicode punctuation is made plain first. Nothing is escaped as for XML, which changes no score.

    Raises:
        ImportError: if sacremoses is not installed.
        ValueError: if it does not know the language.
    """
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError as error:
        raise ImportError(
            f"tokenize='{MOSES}{language}' needs sacremoses: pip install sacremoses"
        ) from error
    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:
        raise ValueError(
            f"tokenize='{MOSES}{language}': sacremoses knows the languages {', '.join(known)}."
        )
    plain, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)

    def tokens(text: str) -> str:
        return tokenizer.tokenize(plain.replace_unicode_punct(text), return_str=True, escape=False)

    return tokens


def exact_match(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Share of predictions that equal their reference to the letter, in [0, 1]."""
    pairs = list(zip(predictions, references, strict=True))
    return sum(prediction == reference for prediction, reference in pairs) / len(pairs)
