"""What fairseq computes: by its own code in a process of its own, and by layers of PyTorch.

    python tests/conversion/fairseq/reference.py FAIRSEQ RESULTS

imports fairseq's `TransformerModel` and `SequenceGenerator` from the unpacked source distribution
in the folder FAIRSEQ, makes a small model of each case, and writes for each a checkpoint, as
fairseq writes it, and what fairseq makes of a batch of sentences. Nothing here imports vaswani_hf.
"""

import copy
import dataclasses
import importlib.machinery
import math
import re
import sys
import types
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


PAD, EOS = 1, 2
PIECES = 37  # of the source's dictionary, fairseq's own four included
OTHER_PIECES = 29  # of a target's dictionary of its own
LONGEST = 30  # tokens of a translation, `</s>` aside

SMALL = {
    "encoder_embed_dim": 32,
    "decoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 24,
    "decoder_ffn_embed_dim": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "max_source_positions": 40,
    "max_target_positions": 256,
}
# Architecture, settings beside the small sizes, and how the checkpoint is written.
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "iwslt, all embeddings one": (
        "transformer_iwslt_de_en",
        {"share_all_embeddings": True},
        "cfg",
    ),
    "iwslt, no embeddings one": ("transformer_iwslt_de_en", {}, "args"),
    "big, target's embeddings one": (
        "transformer_vaswani_wmt_en_de_big",
        {"share_decoder_input_output_embed": True},
        "cfg",
    ),
    "learned positions, gelu, unscaled": (
        "transformer",
        {
            "encoder_learned_pos": True,
            "decoder_learned_pos": True,
            "max_source_positions": 256,
            "activation_fn": "gelu",
            "no_scale_embedding": True,
        },
        "args",
    ),
    "no positions": ("transformer_wmt_en_de", {"no_token_positional_embeddings": True}, "args"),
    "names of before 2019, untied": ("transformer_iwslt_de_en", {}, "old"),
    "names of before 2019, tied": (
        "transformer_iwslt_de_en",
        {"share_all_embeddings": True},
        "old",
    ),
}


# fairseq's own code


def import_fairseq(folder: Path) -> None:
    """Make `fairseq` importable: of 2022, for Python 3.8, and with packages that need not be here.

    Its dataclasses have defaults that Python 3.11 refuses because they have no hash, so that they
    are given one. The packages of its command line are imported but not used by what is used here;
    anything may be taken from their stand-ins.
    """
    plain = dataclasses.dataclass

    def with_hash(cls: Any = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda cls: with_hash(cls, **options)
        if cls.__module__.startswith("fairseq"):
            options["unsafe_hash"] = True
        return plain(cls, **options)

    class StandIn(types.ModuleType):
        __path__: list[str] = []

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {"is_config": staticmethod(lambda value: False)})

    class Finder:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            if name.split(".")[0] in ("hydra", "omegaconf", "bitarray"):
                return importlib.machinery.ModuleSpec(name, self, is_package=True)
            return None

        def create_module(self, spec: Any) -> types.ModuleType:
            return StandIn(spec.name)

        def exec_module(self, module: types.ModuleType) -> None:
            if module.__name__ == "omegaconf":
                module.II = lambda key: "${" + key + "}"
                module.MISSING = "???"

    dataclasses.dataclass = with_hash
    sys.meta_path.append(Finder())
    sys.path.insert(0, str(folder))


def run_fairseq(results: Path) -> None:
    from fairseq.data import Dictionary

    source, target = Dictionary(), Dictionary()
    for dictionary, size in ((source, PIECES), (target, OTHER_PIECES)):
        for number in range(size - len(dictionary)):
            dictionary.add_symbol(f"piece{number}")
    for number, (name, (arch, settings, style)) in enumerate(CASES.items()):
        torch.manual_seed(number)
        args = Namespace(arch=arch, **{**SMALL, **settings})
        other = source if settings.get("share_all_embeddings") else target
        batch = sentences(len(other))
        model = make_model(args, source, other)
        translations = end_sentences(model, other, batch)
        checkpoint = checkpoint_of(model, args, style)
        if style == "old":  # fairseq reads old names itself: what it reads is the reference
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.zero_()
            model.load_state_dict(copy.deepcopy(checkpoint["model"]), strict=True)
            for layer in model.encoder.layers:
                layer.load_to_BT = False  # a path through PyTorch that PyTorch has changed
        with torch.no_grad():
            logits, _ = model(batch["source"], batch["source"].ne(PAD).sum(dim=1), batch["target"])
        torch.save(checkpoint, results / f"{name}.pt")
        torch.save(
            {**batch, "logits": logits, "translations": translations}, results / f"{name}.results"
        )


def end_sentences(
    model: Any, target: Any, batch: dict[str, Tensor]
) -> dict[float, list[tuple[list[int], float]]]:
    """Make all states lean towards `</s>`, as little as lets all translations end by themselves."""
    ending = model.decoder.output_projection.weight[EOS].detach()
    bias = model.decoder.layers[-1].final_layer_norm.bias
    for step in (1.5, *[0.5] * 10):
        with torch.no_grad():
            bias.add_(step * ending / ending.norm())
        found = {exponent: translate(model, target, batch, exponent) for exponent in (1.0, 0.6)}
        if all(len(ids) <= LONGEST for best in found.values() for ids, _ in best):
            return found
    raise AssertionError("the translations do not end")


def translate(
    model: Any, target: Any, batch: dict[str, Tensor], exponent: float
) -> list[tuple[list[int], float]]:
    """The best translation of each sentence, with its score, by 5 beams."""
    from fairseq.sequence_generator import SequenceGenerator

    generator = SequenceGenerator(
        [model], target, beam_size=5, len_penalty=exponent, max_len_b=LONGEST
    )
    lengths = batch["source"].ne(PAD).sum(dim=1)
    sample = {"net_input": {"src_tokens": batch["source"], "src_lengths": lengths}}
    found = generator.generate([model], sample)
    return [(best["tokens"].tolist(), best["score"].item()) for best, *_ in found]


def make_model(args: Namespace, source: Any, target: Any) -> nn.Module:
    """A model whose every weight is random, biases and gains too."""
    from fairseq.models import ARCH_CONFIG_REGISTRY
    from fairseq.models.transformer import TransformerModel

    ARCH_CONFIG_REGISTRY[args.arch](args)  # as fairseq's own parser completes them
    task = types.SimpleNamespace(source_dictionary=source, target_dictionary=target)
    model = TransformerModel.build_model(args, task).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.normal_(1, 0.3)
            elif "embed_tokens" in name or "output_projection" in name:
                parameter.normal_(0, 1.5 * parameter.shape[1] ** -0.5)
            else:
                parameter.normal_(0, 0.4 if parameter.ndim == 1 else parameter.shape[1] ** -0.5)
        # As likely as `</s>`, so that it matters that it is never selected.
        output = model.decoder.output_projection.weight
        output[PAD] = output[EOS]
    return model


def checkpoint_of(model: nn.Module, args: Namespace, style: str) -> dict[str, Any]:
    """What fairseq's trainer saves, with its newer or older settings and names."""
    state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    if style == "old":
        state = old_names(state, args)
    rest = {"optimizer_history": [{"num_updates": 7}], "extra_state": {"val_loss": 1.5}}
    if style != "cfg":
        settings = Namespace(**vars(args), task="translation", source_lang="de", target_lang="en")
        return {"args": settings, "model": state, **rest}
    cfg = {
        "_name": None,
        "model": args,
        "task": {"_name": "translation", "source_lang": "de", "target_lang": "en"},
        "criterion": {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.2},
    }
    return {"args": None, "cfg": cfg, "model": state, "task_state": {}, **rest}


def old_names(state: dict[str, Tensor], args: Namespace) -> dict[str, Tensor]:
    """A state dict as fairseq wrote it until 2018: its own code renames all this when it loads."""
    old = {}
    for name, tensor in state.items():
        if re.search(r"layers\.\d+\.\w+_(weight|bias)$", name) or "_float_tensor" in name:
            continue
        if match := re.fullmatch(r"(.+_attn)\.q_proj\.(weight|bias)", name):
            parts = [state[f"{match[1]}.{part}_proj.{match[2]}"] for part in "qkv"]
            old[f"{match[1]}.in_proj_{match[2]}"] = torch.cat(parts)
        elif "k_proj" in name or "v_proj" in name:
            continue
        elif name == "decoder.output_projection.weight":
            if not args.share_all_embeddings:
                old["decoder.embed_out"] = tensor
        else:
            norms = ["self_attn_layer_norm", "final_layer_norm"]
            if name.startswith("decoder"):
                norms.insert(1, "encoder_attn_layer_norm")
            for number, norm in enumerate(norms):
                name = name.replace(norm, f"layer_norms.{number}")
            old[name] = tensor
    for side in ("encoder", "decoder"):
        old[f"{side}.embed_positions.weights"] = torch.zeros(5, 5)
        old[f"{side}.version"] = torch.tensor([1.0])
    return old


def sentences(target_pieces: int) -> dict[str, Tensor]:
    """Sources with padding on the left, as fairseq puts it, and targets with it on the right."""
    lengths = (9, 4, 12, 7, 3, 10)
    source = torch.full((len(lengths), max(lengths)), PAD)
    target = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in enumerate(lengths):
        source[row, -length:] = torch.randint(3, PIECES, (length,))
        source[row, -1] = EOS
        target[row, : length - 2] = torch.randint(3, target_pieces, (length - 2,))
        target[row, 0] = EOS
    return {"source": source, "target": target}


# The same by PyTorch's own layers, for where fairseq cannot be fetched


class Layers(nn.Module):
    """A model with fairseq's embeddings around `torch.nn.TransformerEncoder` and its decoder."""

    def __init__(self, is_tied: bool) -> None:
        super().__init__()
        d_model, inner, heads = 16, 24, 4
        options = {"dim_feedforward": inner, "batch_first": True, "dropout": 0.0}
        self.source = nn.Embedding(PIECES, d_model)
        self.target = self.source if is_tied else nn.Embedding(OTHER_PIECES, d_model)
        self.output = nn.Linear(d_model, len(self.target.weight), bias=False)
        if is_tied:
            self.output.weight = self.source.weight
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d_model, heads, **options), 2, enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(d_model, heads, **options), 1
        )
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                is_gain = "norm" in name and name.endswith("weight")
                parameter.normal_(1 if is_gain else 0, 0.3)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits `(B, T, V)` of sources padded on the left and targets padded on the right."""
        is_padding = source.eq(PAD)
        memory = self.encoder(
            self.embed(self.source, source), src_key_padding_mask=is_padding, mask=None
        )
        states = self.decoder(
            self.embed(self.target, target),
            memory,
            tgt_mask=torch.ones(2 * (target.shape[1],)).triu(1).bool(),
            memory_key_padding_mask=is_padding,
        )
        return self.output(states)

    def embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        d_model = embedding.embedding_dim
        table = torch.tensor(
            [
                [sinusoid(position, i, d_model) for i in range(d_model)]
                for position in range(ids.shape[1])
            ]
        )
        positions = ids.ne(PAD).cumsum(dim=1).sub(1).clamp(min=0)
        return embedding(ids) * math.sqrt(d_model) + table[positions]

    def checkpoint(self) -> dict[str, Any]:
        """A checkpoint of this model with fairseq's newer names."""
        state = {
            "encoder.version": torch.tensor([3.0]),
            "decoder.version": torch.tensor([3.0]),
            "encoder.embed_positions._float_tensor": torch.zeros(1),
            "encoder.embed_tokens.weight": self.source.weight,
            "decoder.embed_tokens.weight": self.target.weight,
            "decoder.output_projection.weight": self.output.weight,
        }
        parts = {"self_attn": "self_attn", "multihead_attn": "encoder_attn"}
        parts |= {"linear1": "fc1", "linear2": "fc2", "norm1": "self_attn_layer_norm"}
        for side in ("encoder", "decoder"):
            last = "norm2" if side == "encoder" else "norm3"
            norms = {"norm2": "encoder_attn_layer_norm", last: "final_layer_norm"}
            for name, tensor in getattr(self, side).named_parameters():
                _, layer, part, rest = name.split(".", 3)
                new = f"{side}.layers.{layer}.{(parts | norms)[part]}"
                if not rest.startswith("in_proj_"):
                    state[f"{new}.{rest}"] = tensor
                    continue
                for letter, third in zip("qkv", tensor.chunk(3), strict=True):
                    state[f"{new}.{letter}_proj.{rest.removeprefix('in_proj_')}"] = third
        is_tied = self.source is self.target
        args = {
            "arch": "transformer_iwslt_de_en",
            "task": "translation",
            "source_lang": "de",
            "target_lang": "en",
            "encoder_embed_dim": 16,
            "decoder_embed_dim": 16,
            "encoder_ffn_embed_dim": 24,
            "decoder_ffn_embed_dim": 24,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "max_source_positions": 30,
            "max_target_positions": 40,
            "share_all_embeddings": is_tied,
        }
        return {
            "args": Namespace(**args),
            "model": {name: tensor.detach().clone() for name, tensor in state.items()},
        }


def sinusoid(position: int, dimension: int, d_model: int) -> float:
    """One entry of what fairseq adds at a position, which it counts from 2."""
    half = d_model // 2
    angle = (position + 2) * math.exp(-math.log(10000) / (half - 1) * (dimension % half))
    return math.sin(angle) if dimension < half else math.cos(angle)


if __name__ == "__main__":
    import_fairseq(Path(sys.argv[1]))
    run_fairseq(Path(sys.argv[2]))
