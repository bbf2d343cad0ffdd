# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/agreement.py FOLDER TEXT [--sentences 200]

Hold a trained model against independent implementations with the same weights: for the first
sentences of TEXT (plain or gzipped), the largest difference of logits (log-probabilities where an
implementation gives no others) at the tokens of our own translations, and how many translations by
beam search are the same, token by token. FOLDER is a model that `training/run.py` has left.

fairseq has no release that installs on today's Python: its source distribution is fetched by
`tests/conversion/fairseq/fetching.py`. It gets the trained weights with positions as a stored
table, which is what ours are to it.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MarianMTModel
from transformers.utils import logging

from benchmarks.report import first_sentences, write_report
from tests import references
from vaswani_hf import Translator, VaswaniForConditionalGeneration
from vaswani_hf.conversion import to_ctranslate2, to_marian, to_onnx
from vaswani_hf.conversion.fairseq import vaswani_from_fairseq
from vaswani_hf.conversion.onnx import ENCODER, FIRST_STEP, OnnxModel
from vaswani_hf.conversion.pytorch import vaswani_from_torch


ALPHA, NUM_BEAMS, EXTRA = 0.6, 4, 10
Search = Callable[[list[int]], list[int]]  # source ids to target ids, `</s>` included


class Task:
    """A trained model, sentences, and its translations of them, which all are held against."""

    def __init__(self, folder: str, text: str, num_sentences: int) -> None:
        translator = Translator.from_pretrained(folder, device="cpu")
        self.folder = folder
        self.model = translator.model
        self.tokenizer = translator.tokenizer
        self.sources = self.tokenizer(first_sentences(text, num_sentences))["input_ids"]

    def translate(self, model: VaswaniForConditionalGeneration, **options: Any) -> list[list[int]]:
        """Each sentence alone, beam 4, `</s>` included."""
        return [
            self.translate_one(model, source, max_extra_tokens=EXTRA, **options)
            for source in self.sources
        ]

    @torch.inference_mode()
    def translate_one(self, model: nn.Module, source: list[int], **options: Any) -> list[int]:
        """One sentence by a model of the library."""
        ids = model.generate(
            torch.tensor([source]), num_beams=NUM_BEAMS, length_penalty=ALPHA, **options
        )
        return self.strip(ids[0, 1:].tolist())

    def strip(self, ids: list[int]) -> list[int]:
        """Target ids without padding."""
        return [token for token in ids if token != self.tokenizer.pad_token_id]

    @torch.inference_mode()
    def logits(self, model: nn.Module, source: list[int], target: list[int]) -> Tensor:
        """`(T, V)`, by a model of the library."""
        start = torch.tensor([[model.config.decoder_start_token_id, *target[:-1]]])
        return model(input_ids=torch.tensor([source]), decoder_input_ids=start).logits[0]


def row(name: str, task: Task, ours: list[list[int]], difference: float, same: list[bool]) -> dict:
    """A row of the table."""
    figures = {
        "implementation": name,
        "largest_logit_difference": difference,
        "same_translations": sum(same),
        "sentences": len(task.sources),
        "tokens": sum(map(len, ours)),
    }
    print(figures, flush=True)
    return figures


def marian(task: Task, work: Path) -> dict[str, Any]:
    """The library's Marian, from the folder that `to_marian` writes."""
    to_marian(task.folder, work / "marian")
    theirs = MarianMTModel.from_pretrained(work / "marian").eval()
    ours = task.translate(task.model, length_penalty_type="power")
    differences, same = [], []
    for source, target in zip(task.sources, ours, strict=True):
        gap = task.logits(theirs, source, target) - task.logits(task.model, source, target)
        differences.append(gap.abs().max().item())
        longest = len(source) + EXTRA
        found = task.translate_one(theirs, source, max_new_tokens=longest, early_stopping="never")
        same.append(found == target)
    return row("transformers MarianMTModel", task, ours, max(differences), same)


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` between embeddings and logits, as a user of PyTorch would write it."""

    def __init__(self, model: VaswaniForConditionalGeneration) -> None:
        super().__init__()
        config = model.config
        layer = {
            "d_model": config.d_model,
            "nhead": config.num_heads,
            "dim_feedforward": config.d_ff,
            "layer_norm_eps": config.layer_norm_eps,
            "batch_first": True,
        }
        self.transformer = nn.Transformer(
            config.d_model,
            config.num_heads,
            custom_encoder=nn.TransformerEncoder(
                nn.TransformerEncoderLayer(**layer),
                config.encoder_layers,
                enable_nested_tensor=False,
            ),
            custom_decoder=nn.TransformerDecoder(
                nn.TransformerDecoderLayer(**layer), config.decoder_layers
            ),
            batch_first=True,
        )
        self.src_tok_emb = nn.Embedding(config.vocab_size, config.d_model)
        self.tgt_tok_emb = nn.Embedding(config.num_target_pieces, config.d_model)
        self.generator = nn.Linear(config.d_model, config.num_target_pieces, bias=False)
        table = references.sinusoid_table(256, config.d_model)
        self.register_buffer("pos_embedding", torch.tensor(table), persistent=False)
        self.load_state_dict(torch_weights(model))

    def embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        return embedding(ids) * embedding.embedding_dim**0.5 + self.pos_embedding[: ids.shape[1]]

    def encode(self, source: Tensor) -> Tensor:
        return self.transformer.encoder(self.embed(self.src_tok_emb, source))

    def decode(self, target: Tensor, memory: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        x = self.embed(self.tgt_tok_emb, target)
        return self.generator(self.transformer.decoder(x, memory, tgt_mask=mask))


def torch_weights(model: VaswaniForConditionalGeneration) -> dict[str, Tensor]:
    """Our weights under PyTorch's names, biases that we lack as zeros."""
    weights = {
        "src_tok_emb.weight": model.get_input_embeddings().weight,
        "tgt_tok_emb.weight": model.model.decoder.embed_tokens.weight,
        "generator.weight": model.lm_head.weight,
    }
    for side, stack in (("encoder", model.model.encoder), ("decoder", model.model.decoder)):
        for number, layer in enumerate(stack.layers):
            prefix = f"transformer.{side}.layers.{number}"
            norms = ["self_attention_norm", "cross_attention_norm", "feed_forward_norm"]
            norms = [getattr(layer, name) for name in norms if hasattr(layer, name)]
            for place, norm in enumerate(norms, start=1):
                weights[f"{prefix}.norm{place}.weight"] = norm.weight
                weights[f"{prefix}.norm{place}.bias"] = norm.bias
            for place, linear in enumerate((layer.feed_forward.inner, layer.feed_forward.outer), 1):
                weights[f"{prefix}.linear{place}.weight"] = linear.weight
                weights[f"{prefix}.linear{place}.bias"] = linear.bias
            attentions = {"self_attn": "self_attention", "multihead_attn": "cross_attention"}
            for theirs, name in attentions.items():
                if hasattr(layer, name):
                    attention = getattr(layer, name)
                    parts = [attention.query_proj, attention.key_proj, attention.value_proj]
                    stacked = torch.cat([part.weight for part in parts])
                    out = attention.output_proj.weight
                    weights[f"{prefix}.{theirs}.in_proj_weight"] = stacked
                    weights[f"{prefix}.{theirs}.in_proj_bias"] = stacked.new_zeros(len(stacked))
                    weights[f"{prefix}.{theirs}.out_proj.weight"] = out
                    weights[f"{prefix}.{theirs}.out_proj.bias"] = out.new_zeros(len(out))
    return {name: tensor.detach() for name, tensor in weights.items()}


@torch.inference_mode()
def pytorch(task: Task, work: Path) -> dict[str, Any]:
    """PyTorch's own modules, and the model that `from_torch` makes of their state dict."""
    theirs = TorchTransformer(task.model).eval()
    config = task.model.config
    converted = vaswani_from_torch(
        theirs.state_dict(),
        num_heads=config.num_heads,
        layer_norm_eps=config.layer_norm_eps,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )
    ours = task.translate(converted)
    differences, same = [], []
    for source, target in zip(task.sources, ours, strict=True):
        memory = theirs.encode(torch.tensor([source]))

        def decode(prefix: tuple[int, ...], memory: Tensor = memory) -> Tensor:
            ids = torch.tensor([[config.decoder_start_token_id, *prefix]])
            return theirs.decode(ids, memory)[0]

        gap = decode(tuple(target[:-1])) - task.logits(converted, source, target)
        differences.append(gap.abs().max().item())
        found = search(
            lambda prefix, decode=decode: decode(prefix)[-1], source, config.eos_token_id
        )
        same.append(found == target)
    return row("torch.nn.Transformer", task, ours, max(differences), same)


def search(
    next_logits: Callable[[tuple[int, ...]], Tensor], source: list[int], end: int
) -> list[int]:
    """The authors' beam search by plain lists (tests/references.py) over somebody's logits."""

    def best_pieces(prefix: tuple[int, ...]) -> dict[int, float]:
        log_probs, pieces = next_logits(prefix).double().log_softmax(-1).topk(2 * NUM_BEAMS)
        return dict(zip(pieces.tolist(), log_probs.tolist(), strict=True))

    best = references.beam_search(best_pieces, NUM_BEAMS, ALPHA, len(source) + EXTRA, end)
    return list(best[0][1])


def ctranslate2(task: Task, work: Path) -> dict[str, Any]:
    """CTranslate2 in float32, from the folder that `to_ctranslate2` writes."""
    from vaswani_hf.translation.ctranslate2 import CTranslate2Translator

    to_ctranslate2(task.folder, work / "ctranslate2")
    engine = CTranslate2Translator(
        work / "ctranslate2",
        num_beams=NUM_BEAMS,
        length_penalty=ALPHA,
        length_penalty_type="power",
        max_extra_tokens=EXTRA,
        device="cpu",
    )
    ours = task.translate(task.model, length_penalty_type="power", early_stopping="never")
    differences, same = [], []
    for source, target in zip(task.sources, ours, strict=True):
        pieces = [[engine.source_pieces[token] for token in source]]
        wanted = [[engine.target_pieces[token] for token in target[:-1]]]
        (scored,) = engine.model.score_batch(pieces, wanted)
        log_probs = task.logits(task.model, source, target).log_softmax(-1)
        expected = log_probs.gather(1, torch.tensor(target).unsqueeze(1)).squeeze(1)
        gap = torch.tensor(scored.log_probs) - expected
        differences.append(gap.abs().max().item())
        same.append(task.strip(engine.target_ids([source])[0]) == target)
    return row("CTranslate2, float32", task, ours, max(differences), same)


@torch.inference_mode()
def onnx(task: Task, work: Path) -> dict[str, Any]:
    """onnxruntime, on the graphs that `to_onnx` writes."""
    to_onnx(task.folder, work / "onnx")
    theirs, config = OnnxModel(work / "onnx", num_threads=1), task.model.config
    ours = task.translate(task.model, length_penalty_type="wu", early_stopping="never")
    differences, same = [], []
    for source, target in zip(task.sources, ours, strict=True):
        ids = torch.tensor([source]).numpy()
        mask = torch.ones(1, len(source), dtype=torch.long).numpy()
        memory = theirs.run(ENCODER, input_ids=ids, attention_mask=mask)["last_hidden_state"]

        def decode(prefix: tuple[int, ...], memory: Any = memory, mask: Any = mask) -> Tensor:
            start = torch.tensor([[config.decoder_start_token_id, *prefix]]).numpy()
            outputs = theirs.run(
                FIRST_STEP,
                input_ids=start,
                encoder_hidden_states=memory,
                encoder_attention_mask=mask,
            )
            return torch.from_numpy(outputs["logits"])[0]

        gap = decode(tuple(target[:-1])) - task.logits(task.model, source, target)
        differences.append(gap.abs().max().item())
        found = search(
            lambda prefix, decode=decode: decode(prefix)[-1], source, config.eos_token_id
        )
        same.append(found == target)
    return row("onnxruntime", task, ours, max(differences), same)


@torch.inference_mode()
def fairseq(task: Task, work: Path) -> dict[str, Any]:
    """Fairseq's own model and search, and the model that `from_fairseq` makes of its checkpoint."""
    from tests.conversion.fairseq.fetching import fetch_fairseq
    from tests.conversion.fairseq.reference import checkpoint_of, import_fairseq

    import_fairseq(fetch_fairseq())
    from fairseq.data import Dictionary
    from fairseq.models import ARCH_CONFIG_REGISTRY
    from fairseq.models.transformer import TransformerModel
    from fairseq.sequence_generator import SequenceGenerator

    config = task.model.config
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in [
            ("embed_dim", config.d_model),
            ("ffn_embed_dim", config.d_ff),
            ("layers", getattr(config, f"{side}_layers")),
            ("attention_heads", config.num_heads),
            ("learned_pos", True),
        ]
    }
    settings = argparse.Namespace(
        arch="transformer",
        share_all_embeddings=True,
        max_source_positions=254,
        max_target_positions=254,
        **sides,
    )
    ARCH_CONFIG_REGISTRY["transformer"](settings)
    pieces = Dictionary()
    for number in range(config.vocab_size - len(pieces)):
        pieces.add_symbol(f"piece{number}")
    parts = argparse.Namespace(source_dictionary=pieces, target_dictionary=pieces)
    theirs = TransformerModel.build_model(settings, parts).eval()
    theirs.load_state_dict(fairseq_weights(task.model, theirs.state_dict()))
    converted = vaswani_from_fairseq(checkpoint_of(theirs, settings, "cfg"))
    # Its own generation config: the library's form of the penalty, an end at K ended hypotheses.
    ours = task.translate(converted)
    differences, same = [], []
    for source, target in zip(task.sources, ours, strict=True):
        ids, lengths = torch.tensor([source]), torch.tensor([len(source)])
        start = torch.tensor([[config.eos_token_id, *target[:-1]]])
        gap = theirs(ids, lengths, start)[0][0] - task.logits(converted, source, target)
        differences.append(gap.abs().max().item())
        generator = SequenceGenerator(
            [theirs],
            pieces,
            beam_size=NUM_BEAMS,
            len_penalty=ALPHA,
            max_len_b=len(source) + EXTRA - 1,  # without `</s>`
        )
        sample = {"net_input": {"src_tokens": ids, "src_lengths": lengths}}
        same.append(generator.generate([theirs], sample)[0][0]["tokens"].tolist() == target)
    return row("fairseq TransformerModel", task, ours, max(differences), same)


def fairseq_weights(
    model: VaswaniForConditionalGeneration, shapes: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Our weights under fairseq's names; zeros for biases that we lack."""
    names = {
        "self_attention_norm": "self_attn_layer_norm",
        "cross_attention_norm": "encoder_attn_layer_norm",
        "feed_forward_norm": "final_layer_norm",
        "feed_forward.inner": "fc1",
        "feed_forward.outer": "fc2",
        "self_attention": "self_attn",
        "cross_attention": "encoder_attn",
        "query_proj": "q_proj",
        "key_proj": "k_proj",
        "value_proj": "v_proj",
        "output_proj": "out_proj",
        "lm_head": "decoder.output_projection",
    }
    weights = {name: torch.zeros_like(tensor) for name, tensor in shapes.items()}
    for name, tensor in model.state_dict().items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        name = name.removeprefix("model.")
        if name in weights:
            weights[name] = tensor
    for side in ("encoder", "decoder"):
        table = weights[f"{side}.embed_positions.weight"]
        first = model.config.pad_token_id + 1
        rows = references.sinusoid_table(len(table) - first, table.shape[1])
        table[first:] = torch.tensor(rows)
    return weights


def main() -> None:
    """Make the table, print it and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("text")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--only", nargs="*", help="names of functions of this script")
    parser.add_argument("--results", type=Path, help="folder of the report")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    task = Task(arguments.folder, arguments.text, arguments.sentences)
    checks = {check.__name__: check for check in (marian, pytorch, ctranslate2, onnx, fairseq)}
    with tempfile.TemporaryDirectory() as work:
        rows = [
            check(task, Path(work))
            for name, check in checks.items()
            if not arguments.only or name in arguments.only
        ]
    shape = {name: getattr(task.model.config, name) for name in SHAPE}
    figures = {"model": shape, "num_beams": NUM_BEAMS, "rows": rows}
    write_report("agreement", figures, arguments.results, PACKAGES)


SHAPE = ("d_model", "d_ff", "num_heads", "encoder_layers", "decoder_layers", "vocab_size")
PACKAGES = ("torch", "transformers", "ctranslate2", "onnxruntime")

if __name__ == "__main__":
    main()
