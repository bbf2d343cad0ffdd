# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python demo/app.py [--model FOLDER] [--compare FOLDER] [--port N]

A page on which a sentence is translated and the model is seen at it.
"""

import argparse
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from answers import MOST_BEAMS, NO_MODEL, Models, views

from vaswani_hf.extras import require


# Nothing is told to gradio's makers, and nothing is kept in the reader's browser. The first is read
# when gradio is imported.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("GRADIO_RUN_HISTORY", "False")
gr = require("gradio")

DEMO = "runs/demo"  # written by `make demo`
TITLE = "See the Transformer translate"
INTRODUCTION = f"""# {TITLE}
The model of *Attention Is All You Need*: what it says, what else it thought of, and where its heads
look."""
EXAMPLES = (
    "They moved to Berlin on March 3, 2021.",
    "The bus arrives at 7:45 AM.",
    "A man in a blue shirt is standing on a ladder.",
)
STYLES = Path(__file__).with_name("page.css")


def build(model: str, compared: str) -> Any:
    """The page, which opens with these models named."""
    models = Models()
    with gr.Blocks(title=TITLE, analytics_enabled=False) as page:
        gr.Markdown(INTRODUCTION)
        sentence = gr.Textbox(
            label="Sentence",
            value=EXAMPLES[0],
            max_lines=4,
            autofocus=True,
            elem_id="sentence",
        )
        gr.Examples([[one] for one in EXAMPLES], sentence, label="Or one of these")
        with gr.Row():
            names = [
                gr.Textbox(
                    label=label,
                    info=info,
                    value=value,
                    max_lines=1,
                    min_width=240,  # below each other on a phone
                    elem_id=name,
                )
                for label, info, value, name in (
                    ("Model", "A folder, or an id on the Hub", model, "model"),
                    ("Compare with", "Another one, if you like", compared, "compared"),
                )
            ]
            num_beams = gr.Slider(
                1,
                MOST_BEAMS,
                4,
                step=1,
                label="Beam width",
                info="Of the search",
                elem_id="beams",
            )
        button = gr.Button("Translate", variant="primary", elem_id="translate")
        with gr.Row(equal_height=False):
            sides = [_side(number, model) for number in range(len(names))]
        triggers = [button.click, *(box.submit for box in (sentence, *names))]
        for number, (name, outputs) in enumerate(zip(names, sides, strict=True)):
            gr.on(
                triggers,
                _shower(models, is_optional=number > 0),
                [name, sentence, num_beams],
                outputs,
                concurrency_limit=1,  # the search has all cores, and looking changes the model
                concurrency_id="model",
                api_name=f"translate_{number + 1}",
            )
    return page


def _side(number: int, model: str) -> list[Any]:
    """What is seen of one model: a column, its answer, and the tabs below with their contents."""
    html = partial(gr.HTML, apply_default_css=False)  # page.css has it all
    is_first = number == 0
    with gr.Column(visible=is_first, min_width=340, elem_id=f"side-{number + 1}") as column:
        answer = html("" if model else f'<p class="problem">{NO_MODEL}</p>')
        with gr.Tabs(visible=False) as tabs:
            with gr.Tab("Attention"):
                attention = html()
            with gr.Tab("Beam tree"):
                beams = html()
    return [column, answer, tabs, attention, beams]


def _shower(models: Models, *, is_optional: bool) -> Any:
    """A function that fills one side, which is not there while no second model is named."""

    def show(name: str, sentence: str, num_beams: int) -> Iterator[list[Any]]:
        if is_optional and not name.strip():
            yield [gr.Column(visible=False), "", gr.Tabs(visible=False), "", ""]
            return
        for view in views(models, name, sentence, int(num_beams)):
            tabs = gr.Tabs(visible=bool(view.attention))
            yield [gr.Column(visible=True), view.answer, tabs, view.attention, view.beams]

    return show


def start(model: str, compared: str, **options: Any) -> Any:
    """Serve the page; `options` are those of gradio's `launch`."""
    page = build(model, compared)
    # Fonts of the reader's own: gradio's would be fetched.
    theme = gr.themes.Default(
        primary_hue="blue", font=["system-ui", "sans-serif"], font_mono=["monospace"]
    )
    page.launch(
        theme=theme, css_paths=STYLES, footer_links=[], share=False, ssr_mode=False, **options
    )
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a page that translates and looks inside.")
    parser.add_argument(
        "--model",
        default=os.environ.get("VASWANI_MODEL") or (DEMO if Path(DEMO).is_dir() else ""),
        metavar="FOLDER",
        help=f"a folder or a Hub id (default: $VASWANI_MODEL, or {DEMO} if it is there)",
    )
    parser.add_argument("--compare", default="", metavar="FOLDER", help="a second one beside it")
    parser.add_argument("--port", type=int, metavar="N", help="(default: the first free from 7860)")
    arguments = parser.parse_args()
    start(arguments.model, arguments.compare, server_port=arguments.port)


if __name__ == "__main__":
    main()
