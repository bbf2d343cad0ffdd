"""Tokenizers as OPUS-MT has them: SentencePiece models, and a vocabulary in an order of its own."""

import json

import pytest


SPECIAL = ("</s>", "<unk>", "<pad>")


def train_sentencepiece(text, path, **settings):
    """Learn a model from lines, write it, and return its pieces."""
    sentencepiece = pytest.importorskip("sentencepiece")
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_writer=file,
            **{
                **{"vocab_size": 60, "bos_id": -1, "hard_vocab_limit": False, "minloglevel": 2},
                **settings,
            },
        )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(token) for token in range(processor.get_piece_size())]


def marian_tokenizer_of(
    folder, sources, targets, separate_vocabs=False, others=(), left_out=(), **settings
):
    """A `MarianTokenizer` that is learned from lines; unless told otherwise, of one vocabulary.

    Args:
        others: pieces of the vocabulary that no model makes.
        left_out: pieces of the models that the vocabulary lacks.
    """
    pytest.importorskip("sacremoses")
    from transformers import MarianTokenizer

    source = train_sentencepiece(sources, folder / "source.spm", **settings)
    target = train_sentencepiece(targets, folder / "target.spm", **settings)
    halves = (source, target) if separate_vocabs else (source + target,)
    paths = [folder / "vocab.json", folder / "target_vocab.json"]
    for path, pieces in zip(paths, halves, strict=False):
        pieces = [
            piece for piece in (*SPECIAL, *reversed(pieces), *others) if piece not in left_out
        ]
        path.write_text(json.dumps({p: n for n, p in enumerate(dict.fromkeys(pieces))}))
    return MarianTokenizer(
        *(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")),
        target_vocab_file=str(paths[1]) if separate_vocabs else None,
        separate_vocabs=separate_vocabs,
    )
