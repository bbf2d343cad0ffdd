# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.finetune RUN [--work FOLDER] [--updates 200]

What does fine-tuning give and take away? RUN is a model of `multi30k_small`. It becomes a Marian
folder as OPUS-MT's are, the model that a stranger would have: its pieces become SentencePiece's
byte pairs, each side gets a vocabulary and an embedding of its own, that of the targets in another
order, and an output bias. It says what it said before.

That folder is converted, fine-tuned by the recipe `finetune` on the demo's text, made-up dates and
amounts, alone and with Multi30k mixed in, for `--updates` each, and goes back to Marian and to
CTranslate2. Reported are the scores of all three models on both test sets, greedily, and how many
translations of four beams the other two make alike.

VASWANI_DATA names the folder of Multi30k. What is in FOLDER already is not made again, so that a
killed run goes on where it was.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from sentencepiece import sentencepiece_model_pb2
from transformers import AutoTokenizer, MarianTokenizer, PreTrainedTokenizerBase

from benchmarks.report import first_sentences, print_table, write_report
from training.data.demo_text import demo_pairs
from vaswani_hf import Translator, VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.conversion import from_marian, to_ctranslate2, to_marian
from vaswani_hf.conversion.marian import marian_from_vaswani
from vaswani_hf.conversion.targets import new_folder
from vaswani_hf.evaluation import Metric
from vaswani_hf.translation.ctranslate2 import CTranslate2Translator


REPOSITORY = Path(__file__).parents[1]
LANGUAGES = {"source": "en", "target": "de"}
BEAMS = {"length_penalty": 1.0, "length_penalty_type": "power"}  # which Marian has too
DATES = "dates and amounts"
METRICS = {"bleu": "BLEU", "chrf++": "chrF++"}
UNKNOWN = "<unk>"
# A third of the highest rate that RUN was trained with: the updates are few.
LEARNING_RATE = 5e-4


def multi30k(split: str, side: str) -> str:
    """The file of a split and a side."""
    folder = os.environ.get("VASWANI_DATA", REPOSITORY.parent / "shared" / "data")
    return str(Path(folder) / "multi30k" / f"{split}.{LANGUAGES[side]}.gz")


def write_texts(work: Path) -> dict[str, list[tuple[str, str]]]:
    """Write the demo's text, and return the pairs of both test sets."""
    most = {"train": None, "validation": 100, "test": 300}
    dates = {split: pairs[: most[split]] for split, pairs in demo_pairs().items()}
    for split, pairs in dates.items():
        text = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (work / f"dates.{split}.tsv").write_text(text, encoding="utf-8")
    sides = (first_sentences(multi30k("test_2016", side), None) for side in LANGUAGES)
    return {DATES: dates["test"], "Multi30k": list(zip(*sides, strict=True))}


def sentencepiece_of(tokenizer: PreTrainedTokenizerBase) -> bytes:
    """A SentencePiece model that merges as a tokenizer of `train_tokenizer` does.

    It has no bytes: a character that is no piece is unknown.
    """
    rules = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    merged = ["".join(halves) for halves in rules["merges"]]
    letters = [piece for piece in rules["vocab"] if len(piece) == 1]
    proto = sentencepiece_model_pb2.ModelProto()
    proto.pieces.add(piece=UNKNOWN, score=0.0, type=2)
    for rank, piece in enumerate([*merged, *letters]):
        proto.pieces.add(piece=piece, score=-float(rank), type=1)
    proto.trainer_spec.model_type = 2  # byte pairs
    proto.trainer_spec.vocab_size = len(proto.pieces)
    proto.trainer_spec.bos_id = proto.trainer_spec.eos_id = proto.trainer_spec.pad_id = -1
    proto.trainer_spec.unk_id = 0
    proto.normalizer_spec.name = "identity"
    return proto.SerializeToString()


def write_marian(run: str, folder: Path) -> None:
    """RUN as a Marian folder with two vocabularies."""
    tokenizer = AutoTokenizer.from_pretrained(run)
    old = VaswaniForConditionalGeneration.from_pretrained(run)
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    # Marian's special pieces have the same ids on both sides.
    fixed = 1 + max(tokenizer.convert_tokens_to_ids(tokenizer.all_special_tokens))
    order = [*range(fixed), *reversed(range(fixed, len(pieces)))]
    changes = {"target_vocab_size": len(pieces), "share_embeddings": False, "output_bias": True}
    changes["use_cache"] = True  # a checkpoint in the middle of training says false
    new = VaswaniForConditionalGeneration(
        VaswaniConfig.from_dict({**old.config.to_dict(), **changes})
    )
    tensors = old.state_dict()
    embedding = tensors.pop("model.shared.weight")
    for side, rows in (("encoder", embedding), ("decoder", embedding[order])):
        tensors[f"model.{side}.embed_tokens.weight"] = rows
    tensors["lm_head.weight"] = embedding[order]
    tensors["lm_head.bias"] = torch.ones(len(pieces))  # of all logits: changes no probability
    new.load_state_dict(tensors)
    with new_folder(folder) as place:
        marian_from_vaswani(new).save_pretrained(place)
        with tempfile.TemporaryDirectory() as name:
            files = [Path(name) / file for file in ("source.spm", "target.spm", "s.json", "t.json")]
            for file in files[:2]:
                file.write_bytes(sentencepiece_of(tokenizer))
            for file, places in ((files[2], range(len(pieces))), (files[3], order)):
                ids = {pieces[place]: token for token, place in enumerate(places)}
                file.write_text(json.dumps(ids), encoding="utf-8")
            MarianTokenizer(
                *map(str, files[:3]),
                target_vocab_file=str(files[3]),
                separate_vocabs=True,
                **{
                    name: getattr(tokenizer, name)
                    for name in ("unk_token", "eos_token", "pad_token")
                },
            ).save_pretrained(place)


def train(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The results of a fine-tuning, which goes on where it was, or is there already."""
    if not (folder / "results.json").is_file():
        given = {**options, "output_dir": folder, "resume_from_checkpoint": "auto"}
        words = [
            [f"--{name}", *(value if isinstance(value, list) else [str(value)])]
            for name, value in given.items()
        ]
        command = [
            sys.executable,
            "training/run.py",
            "finetune",
            *(word for each in words for word in each),
        ]
        print(shlex.join(command), flush=True)
        subprocess.run(command, cwd=REPOSITORY, check=True)
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def scores(model: Path, tests: dict[str, list[tuple[str, str]]]) -> dict[str, Any]:
    """The scores of a model on each test set; once they are there, those that it had."""
    path = model.with_name(f"{model.name}.scores.json")
    if not path.is_file():
        translator = Translator.from_pretrained(model, device="cpu", num_beams=1)
        found: dict[str, Any] = {}
        for name, pairs in tests.items():
            sources, references = map(list, zip(*pairs, strict=True))
            hypotheses = translator(sources)
            found[name] = {}
            for metric, shown in METRICS.items():
                scorer = Metric(metric)
                score = scorer.score(scorer.statistics(hypotheses, [references]))
                found[name][shown] = round(score.score, 2)
                found[name][f"{shown} signature"] = score.signature
            print(model.name, name, found[name], flush=True)
        path.write_text(json.dumps(found), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def convert(way: Any, source: Path, target: Path, **options: Any) -> None:
    """Convert, unless it is done."""
    if not target.exists():
        way(source, target, **options)


def main() -> None:
    """Train, measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a model of multi30k_small")
    parser.add_argument("--work", type=Path, default=Path("runs/finetune"))
    parser.add_argument("--updates", type=int, default=200, help="of a fine-tuning")
    parser.add_argument("--sentences", type=int, default=200, help="that engines are compared on")
    parser.add_argument("--results", type=Path, help="folder of the report")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    tests = write_texts(work)
    if not (work / "marian").exists():
        write_marian(arguments.run, work / "marian")
    sample = {f"sample_{side}": multi30k("val", side) for side in LANGUAGES}
    convert(from_marian, work / "marian", work / "model", **sample)
    tuning = {
        **{"model_name_or_path": work / "model"},
        **{"validation_file": work / "dates.validation.tsv", "max_steps": arguments.updates},
        **{"source_tokens": 1000, "target_tokens": 1000, "learning_rate": LEARNING_RATE},
        **{"eval_steps": 100, "save_steps": 100, "use_cpu": True, "disable_tqdm": True, **BEAMS},
    }
    corpora = [
        {"name": DATES, "weight": 1, "train_file": str(work / "dates.train.tsv")},
        {
            **{"name": "Multi30k", "weight": 1},
            **{f"train_{side}": multi30k("train", side) for side in LANGUAGES},
        },
    ]
    mixed = {"corpora": [json.dumps(corpus) for corpus in corpora]}
    alone = {"train_file": work / "dates.train.tsv"}
    before = scores(work / "model", tests)
    training, rows = {}, []
    for folder, text, options in (("mixed", f"{DATES}, Multi30k", mixed), ("alone", DATES, alone)):
        training[text] = train({**tuning, **options}, work / folder)["training"]
        after = scores(work / folder, tests)
        rows += [
            {
                **{"training text": text, "test set": name},
                **{f"{shown} before": before[name][shown] for shown in METRICS.values()},
                **{f"{shown} after": after[name][shown] for shown in METRICS.values()},
                "signatures": [after[name][f"{shown} signature"] for shown in METRICS.values()],
            }
            for name in tests
        ]
    print_table([{key: row[key] for key in row if key != "signatures"} for row in rows])
    same = engines_alike(work, arguments.sentences)
    print(f"of {arguments.sentences} translations alike: {same}")
    report = {"scores": rows, "same_translations": same, "sentences": arguments.sentences}
    report |= {"updates": arguments.updates, "learning_rate": LEARNING_RATE, "training": training}
    write_report("finetune", report, arguments.results)


def engines_alike(work: Path, count: int) -> dict[str, int]:
    """How many translations of Marian and CTranslate2 are ours, of the mixed model."""
    convert(to_marian, work / "mixed", work / "mixed-marian")
    convert(to_ctranslate2, work / "mixed", work / "mixed-ctranslate2")
    pieces = Path("source.spm"), Path("target.spm")
    assert all(
        (work / "mixed-marian" / name).read_bytes() == (work / "marian" / name).read_bytes()
        for name in pieces
    )
    sentences = first_sentences(multi30k("test_2016", "source"), count)
    search: Any = {"device": "cpu", "num_beams": 4, "length_penalty": 1.0}
    ours = Translator.from_pretrained(work / "mixed", length_penalty_type="power", **search)
    others = {
        "Marian": Translator.from_pretrained(work / "mixed-marian", **search),
        "CTranslate2": CTranslate2Translator(work / "mixed-ctranslate2", **search),
    }
    expected = ours(sentences)
    return {
        name: sum(one == other for one, other in zip(expected, translator(sentences), strict=True))
        for name, translator in others.items()
    }


if __name__ == "__main__":
    main()
