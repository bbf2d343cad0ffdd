# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python examples/steps.py [SENTENCE] [--model FOLDER]

A sentence is translated step by step, and every shape on the way is printed (figure 1). Without a
model, a tiny one is trained first, in seconds. Each step takes the most probable piece; the beam
search of section 6.1 would keep several.
"""

import argparse
from typing import Any

import torch
from tiny_model import SENTENCE, trained_model
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vaswani_hf import Translator, VaswaniForConditionalGeneration
from vaswani_hf.translation.alignment import eager_attention


MOST_STEPS = 100
SILENT = (nn.Dropout, nn.Identity)  # return what they are given


def print_shapes(stack: Any) -> list[RemovableHandle]:
    """Let the first layer of a stack, and what stands before it, print the shapes that they return.

    Of attention these are two: the mixed values, and the weights of all heads.
    """

    def watch(name: str, module: nn.Module) -> RemovableHandle:
        def show(module: nn.Module, inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
            outputs = output if isinstance(output, tuple) else (output,)
            shapes = "   weights ".join(str(tuple(one.shape)) for one in outputs)
            print(f"  {name:40} {shapes}")

        return module.register_forward_hook(show)

    parts = [stack.embed_tokens, stack.embedding, stack.layers[0]]
    return [
        watch(name, module)
        for name, module in stack.named_modules()
        if any(module in part.modules() for part in parts) and not isinstance(module, SILENT)
    ]


def translate(translator: Translator, sentence: str) -> str:
    """Translate greedily, and print what happens."""
    model, tokenizer = translator.model, translator.target_tokenizer
    source = translator.tokenizer(sentence, return_tensors="pt")
    pieces = translator.tokenizer.convert_ids_to_tokens(source["input_ids"][0].tolist())
    print(f"source pieces: {' '.join(pieces)}")
    print(f"\nEncoder: input_ids {tuple(source['input_ids'].shape)}")
    hooks = print_shapes(model.get_encoder())
    memory = model.get_encoder()(**source)
    print(f"memory: {tuple(memory.last_hidden_state.shape)}")

    print("\nDecoder, step 1: decoder_input_ids (1, 1)")
    hooks += print_shapes(model.get_decoder())
    cache: Any = None
    ids, rows = [model.config.decoder_start_token_id], []
    while len(ids) <= MOST_STEPS and (len(ids) == 1 or ids[-1] != tokenizer.eos_token_id):
        outputs = model(
            encoder_outputs=memory,
            attention_mask=source["attention_mask"],
            decoder_input_ids=torch.tensor([ids[-1:]]),
            past_key_values=cache,
            use_cache=True,
            output_attentions=True,
        )
        for hook in hooks:  # the other steps are as the first
            hook.remove()
        cache = outputs.past_key_values
        probabilities = outputs.logits[0, -1].softmax(dim=-1)
        looks_at = outputs.cross_attentions[-1][0, :, -1].mean(dim=0).argmax()
        ids.append(int(probabilities.argmax()))
        read, said = tokenizer.convert_ids_to_tokens(ids[-2:])
        keys = cache.self_attention_cache.layers[0].keys.shape
        row = f"{len(ids) - 1:4}  {read:12}{tuple(keys)!s:16}{said:12}{probabilities.max():11.2f}"
        rows.append(f"{row}  {pieces[looks_at]}")
    print(f"logits: {tuple(outputs.logits.shape)}")
    kept = cache.cross_attention_cache.layers[0].keys.shape
    print(f"\nkept of the memory, in each layer: keys {tuple(kept)}, made once")
    print("\nstep  reads       keys kept       says        probability  looks most at")
    print("\n".join(rows))
    return tokenizer.decode(ids, skip_special_tokens=True)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentence", nargs="?", default=SENTENCE)
    parser.add_argument("--model", help="a folder, or a name on the Hub")
    arguments = parser.parse_args()
    if arguments.model:
        translator = Translator.from_pretrained(arguments.model)
    else:
        model, tokenizer, _ = trained_model()
        translator = Translator(model, tokenizer)
    if not isinstance(translator.model, VaswaniForConditionalGeneration):
        parser.error(f"--model {arguments.model} must be a model of this package.")
    with torch.inference_mode(), eager_attention(translator.model):
        translation = translate(translator, arguments.sentence)
    print(f"\ntranslation: {translation}")


if __name__ == "__main__":
    main()
