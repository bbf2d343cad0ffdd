# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python examples/masks.py [-o masks.svg] [--theme dark]

What the masks hide (sections 3.1 and 3.2.3): no position sees a later one of the target, and none
sees padding. So a hidden word can be changed, and nothing changes; and it gets no gradient.
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch
from tiny_model import new_model
from torch import Tensor

from vaswani_hf.pictures import save_picture
from vaswani_hf.pictures.drawing import finish, new_figure, shades_of


SOURCES = ["the cat sees the bird", "now the man has heard the dog"]  # the first gets padding
TARGET = "die Katze sieht den Vogel"
OTHER = "Hund"


def largest_change(before: Tensor, after: Tensor) -> list[float]:
    """Of each position, how much any of its numbers `(positions, width)` changes."""
    return (before - after).abs().amax(dim=-1).tolist()


def gradients(function: Callable[[Tensor], Tensor], embeddings: Tensor) -> Tensor:
    """How much each input position matters to each output position, `(outputs, inputs)`.

    Args:
        function: makes states `(1, T, width)` of embeddings.
        embeddings: `(1, S, d_model)`.
    """
    jacobian = torch.autograd.functional.jacobian(function, embeddings, vectorize=True)
    return jacobian[0, :, :, 0].norm(dim=(1, 3))  # of (T, width, S, d_model)


def show(names: list[str], columns: dict[str, list[float]]) -> None:
    """Print numbers of positions, a row for each."""
    print(f"{'position':10}" + "".join(f"{title:>27}" for title in columns))
    for name, *row in zip(names, *columns.values(), strict=True):
        print(f"{name:10}" + "".join(f"{value:27.4f}" for value in row))


def draw(causal: tuple[list[str], Tensor], padding: tuple[list[str], Tensor], theme: str) -> Any:
    """Gradients as two meshes: of the target's positions, and of a source with padding."""
    figure = new_figure(theme)
    figure.set_size_inches(9.6, 4.4)
    both = figure.subplots(1, 2)
    titles = ("decoder: no later word", "encoder: no padding")
    for axes, (names, found), title in zip(both, (causal, padding), titles, strict=True):
        shares = found / found.sum(dim=1, keepdim=True)
        image = axes.imshow(shares.numpy(), cmap=shades_of(theme), vmin=0)
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("input position")
        axes.set_ylabel("output position")
        axes.set_title(title, fontsize=11)
        figure.colorbar(image, ax=axes, label="share of the gradient", shrink=0.85)
    return finish(figure, theme)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", help="draw a picture: .png, .svg or .pdf")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    arguments = parser.parse_args()
    # Its weights are random: what a mask hides does not depend on what was learned.
    model, tokenizer = new_model()
    vocabulary = tokenizer.get_vocab()
    embed = model.get_input_embeddings()

    print("The causal mask. The decoder reads the target, offset by one position.\n")
    source = tokenizer(SOURCES[:1], return_tensors="pt")
    labels = tokenizer(text_target=TARGET, return_tensors="pt")["input_ids"]
    target = model.prepare_decoder_input_ids_from_labels(labels)
    changed = target.clone()
    place = 3
    changed[0, place] = vocabulary[f"▁{OTHER}"]
    before = model(**source, decoder_input_ids=target).logits  # (1, T, V)
    after = model(**source, decoder_input_ids=changed).logits
    causal = gradients(
        lambda embeddings: model(**source, decoder_inputs_embeds=embeddings).logits, embed(target)
    )
    target_names = tokenizer.convert_ids_to_tokens(target[0].tolist())
    columns = {
        f"{target_names[place]} → ▁{OTHER}: logits": largest_change(before[0], after[0]),
        f"gradient of {target_names[place]}": causal[:, place].tolist(),
    }
    show(target_names, columns)
    print(f"\nabove the diagonal, all gradients are 0: {not causal.triu(1).any()}\n")

    print("The padding mask. Two sources in a batch; the first is shorter.\n")
    batch = tokenizer(SOURCES, padding=True, return_tensors="pt")
    mask, is_real = batch["attention_mask"], batch["attention_mask"][0].bool()
    encoder = model.get_encoder()
    memory = encoder(**batch).last_hidden_state  # (2, S, d_model)
    filled = batch["input_ids"].masked_fill(mask == 0, vocabulary[f"▁{OTHER}"])
    after = encoder(input_ids=filled, attention_mask=mask).last_hidden_state
    unmasked = encoder(input_ids=filled).last_hidden_state
    alone = encoder(input_ids=batch["input_ids"][:1, is_real]).last_hidden_state
    padding = gradients(
        lambda embeddings: (
            encoder(inputs_embeds=embeddings, attention_mask=mask[:1]).last_hidden_state
        ),
        embed(batch["input_ids"][:1]),
    )
    source_names = tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    columns = {
        f"padding → ▁{OTHER}: memory": largest_change(memory[0], after[0]),
        "the same without a mask": largest_change(memory[0], unmasked[0]),
        "gradient of the padding": padding[:, ~is_real].sum(dim=1).tolist(),
    }
    show(source_names, columns)
    error = (memory[0, is_real] - alone[0]).abs().max().item()
    print(f"\nalone, without padding, the memory differs by less than 1e-5: {error < 1e-5}")
    if arguments.output:
        figure = draw((target_names, causal), (source_names, padding), arguments.theme)
        save_picture(figure, arguments.output)


if __name__ == "__main__":
    main()
