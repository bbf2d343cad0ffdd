# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/compare_trees.py OLD [NEW] [--text FOLDER] [--updates 50] [--only lists]

Is a rebuilt tree what it was? OLD and NEW are checkouts of this repository, NEW is this one unless
given. Compared are the state-dict keys, the fields of config and recipes, every recipe as it is
read, and the options of each command; then the weights after some updates of three runs in one
process on one thread: `demo`, `multi30k_small` and a streamed one. `--text` is a folder with
Multi30k's `train.{en,de}.gz` and `val.{en,de}.gz`; without it only `demo` is trained. At the end
come the sizes of both trees. The exit status is 1 where anything differs.
"""

import argparse
import ast
import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any


HERE = Path(__file__).resolve().parents[1]
PACKAGES = ("vaswani_hf", "training")
# The smallest model of each kind.
SMALLEST = {
    **{"vocab_size": 11, "d_model": 8, "d_ff": 8, "num_heads": 2},
    **{"encoder_layers": 1, "decoder_layers": 1},
}
KINDS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "of two vocabularies": {
        **{"share_embeddings": False, "tie_word_embeddings": False, "target_vocab_size": 7}
    },
    "imported": {"attention_bias": True, "output_bias": True, "final_norm": True},
    "of learned positions": {"position_encoding": "learned"},
}
RUN = "--use_cpu true --disable_tqdm true --average_last 1 --eval_strategy no".split()


def main() -> None:
    """Compare, print, and exit with 1 where something differs."""
    parser = argparse.ArgumentParser(description="Compare two trees of this repository.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=HERE)
    parser.add_argument("--text", type=Path, help="folder of Multi30k's gzipped text")
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--only", choices=("lists", "this_list"))

    arguments = parser.parse_args()
    if arguments.only == "this_list":
        json.dump(own_lists(), sys.stdout)
        return
    trees = [arguments.old.resolve(), arguments.new.resolve()]
    are_equal = compare_lists(*(lists_of(tree) for tree in trees))
    if arguments.only is None:
        for name, line in runs(arguments.text, arguments.updates).items():
            old, new = (weights_after(tree, line) for tree in trees)
            are_equal &= old == new
            print(f"{'equal' if old == new else 'DIFFERENT'}: weights of {name}, {old} {new}")
    print("\nsizes, old and new")
    for old, new in zip(*(sizes(tree) for tree in trees), strict=True):
        print(f"  {old}\n  {new}\n")
    sys.exit(0 if are_equal else 1)


def lists_of(tree: Path) -> dict[str, Any]:
    """The public lists of a tree, by what they are lists of."""
    shown = subprocess.run(
        [sys.executable, __file__, str(tree), "--only", "this_list"],
        env=environment(tree),
        stdout=subprocess.PIPE,
        check=True,
    )
    lists: dict[str, Any] = json.loads(shown.stdout)
    return lists


def own_lists() -> dict[str, Any]:
    """The lists of the tree that is on the path; names are looked for where they stood, too."""
    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration

    parse = find("parse_arguments", "settings.reading", "arguments")
    recipes = find("recipe_names", "settings.recipes", "arguments")
    lists: dict[str, Any] = {"config fields": sorted(VaswaniConfig().to_dict())}
    for kind, more in KINDS.items():
        model = VaswaniForConditionalGeneration(VaswaniConfig(**SMALLEST, **more))
        lists[f"state-dict keys, model {kind}"] = list(model.state_dict())
    lists["recipe fields"] = sorted(field_names())
    for recipe in sorted(recipes()):
        read = parse([recipe, "--output_dir", "out", "--use_cpu", "true"])
        values = {"model": read.model, "data": vars(read.data), "training": read.training.to_dict()}
        flat = {f"{part}.{name}": v for part, of in values.items() for name, v in of.items()}
        lists[f"values of recipe {recipe}"] = [f"{name}={v}" for name, v in sorted(flat.items())]
    for command in ("translate", "convert", "push", "plot"):
        shown = subprocess.run(
            [sys.executable, "-m", "vaswani_hf.cli", command, "--help"],
            env={**os.environ, "COLUMNS": "500"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        options = re.findall(r"(?<!\w)--\w+", shown.stdout.partition("options:")[2])
        lists[f"options of vaswani-hf {command}"] = sorted(set(options))
    return lists


def field_names() -> set[str]:
    """What a recipe or the command line may set."""
    try:
        fields: Any = find("FIELDS", "settings.fields")
    except ImportError:
        fields = find("field_names", "settings.recipes", "arguments")()
    return set(fields)


def find(name: str, *modules: str) -> Any:
    """A function of `training`, from the first of these modules that is there and has it."""
    for module in modules:
        try:
            return getattr(importlib.import_module(f"training.{module}"), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(name)


def compare_lists(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Print which lists are equal, and what differs in the others."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before == after:
            print(f"equal: {name}, {len(before or [])}")
        else:
            flat = [set(map(str, side or [])) for side in (before, after)]
            print(f"DIFFERENT: {name}: gone {flat[0] - flat[1]}, new {flat[1] - flat[0]}")
    return old == new


def runs(text: Path | None, updates: int) -> dict[str, list[str]]:
    """The command lines that are trained, by name."""
    limit = ["--max_steps", str(updates), "--save_strategy", "steps", "--save_steps", str(updates)]
    lines = {"demo": ["demo", *limit]}
    if text is not None:
        files = [
            part
            for split, stem in (("train", "train"), ("validation", "val"))
            for side, code in (("source", "en"), ("target", "de"))
            for part in (f"--{split}_{side}", str(text / f"{stem}.{code}.gz"))
        ]
        lines["multi30k_small"] = ["multi30k_small", "--dataset", "none", *files, *limit]
        sample = ["--streaming", "true", "--tokenizer_sample_pairs", "5000"]
        lines["a streamed run"] = [*lines["multi30k_small"], *sample]
    return lines


def weights_after(tree: Path, line: list[str]) -> str:
    """The first digits of the sha256 of a run's last checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "training/run.py", *line, *RUN, "--output_dir", f"{folder}/run"]
        shown = subprocess.run(
            command, env=environment(tree), cwd=tree, capture_output=True, text=True, check=False
        )
        found = sorted(Path(folder, "run").glob("checkpoint-*/model.safetensors"))
        if not found:
            sys.exit(f"{' '.join(command)}\n{shown.stderr[-2000:]}")
        return hashlib.sha256(found[-1].read_bytes()).hexdigest()[:16]


def environment(tree: Path) -> dict[str, str]:
    """One thread, the tree's own packages, nothing from the network."""
    return {
        **os.environ,
        "PYTHONPATH": str(tree),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_EVALUATE_OFFLINE": "1",
    }


def sizes(tree: Path) -> list[str]:
    """The longest files and functions of a tree, and the folders with most files."""
    lines: dict[str, int] = {}
    functions: dict[str, int] = {}
    folders: Counter[str] = Counter()
    for path in sorted(path for package in PACKAGES for path in (tree / package).rglob("*.py")):
        name, text = path.relative_to(tree).as_posix(), path.read_text(encoding="utf-8")
        lines[name] = text.count("\n")
        folders[path.parent.relative_to(tree).as_posix()] += 1
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                functions[f"{name}:{node.name}"] = (node.end_lineno or 0) - node.lineno + 1
    words = len((tree / "README.md").read_text(encoding="utf-8").split())
    return [
        f"longest files: {most(lines)}",
        f"longest functions: {most(functions)}",
        f"files a folder: {most(folders, 12)}",
        f"files {len(lines)}, lines {sum(lines.values())}, words of README.md {words}",
    ]


def most(counts: dict[str, int], number: int = 4) -> str:
    """The largest ones in a line."""
    largest = sorted(counts.items(), key=lambda item: -item[1])[:number]
    return ", ".join(f"{name} {count}" for name, count in largest)


if __name__ == "__main__":
    main()
