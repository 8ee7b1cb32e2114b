#!/usr/bin/env python3
"""Writes testdata/model/vit.golden: a tiny Vision Transformer of transformers' layers, in float64.

    scripts/make-vit-goldens.py testdata/model     needs transformers 4.51.3 and torch

Layers and the final norm are transformers' ViT's; in front of them stand Megatron-LM's eight tokens of classes, and
behind them its head (core_v0.12.1, megatron/legacy/model/vision).  Weights are functions of the order of their names in
Megatron-Core and of their elements.  Lines of the file, but for the first, are a name and numbers: `losses` and `scores`
of two images, `gradient NAME` of the mean loss, and for each of twenty steps of AdamW `step`, the loss and the gradients'
norm before it is clipped.
"""
import os
import sys

import torch
import transformers
from transformers.models.vit.modeling_vit import ViTConfig, ViTEncoder

LAYERS, HIDDEN, HEADS, CLASSES, PATCHES, WIDTH = 2, 8, 2, 3, 6, 12
CLASS_TOKENS, TARGETS, WAVE, STEPS = 8, [2, 0], 0.2, 20
HEAD = HIDDEN // HEADS


def shapes():
    linear = {"embedding.patch_embeddings": (HIDDEN, WIDTH), "head.dense_in": (HIDDEN, HIDDEN),
              "head.dense_out": (CLASSES, HIDDEN)}
    norms = ["decoder.final_layernorm"]
    for i in range(LAYERS):
        at = f"decoder.layers.{i}."
        norms += [at + "input_layernorm", at + "pre_mlp_layernorm"]
        linear[at + "self_attention.linear_qkv"] = (3 * HIDDEN, HIDDEN)
        linear[at + "self_attention.linear_proj"] = (HIDDEN, HIDDEN)
        linear[at + "mlp.linear_fc1"] = (4 * HIDDEN, HIDDEN)
        linear[at + "mlp.linear_fc2"] = (HIDDEN, 4 * HIDDEN)
    rows = {"embedding.class_tokens.weight": (CLASS_TOKENS, HIDDEN),
            "embedding.position_embeddings.weight": (CLASS_TOKENS + PATCHES, HIDDEN)}
    for name, shape in linear.items():
        rows |= {name + ".weight": shape, name + ".bias": shape[:1]}
    for name in norms:
        rows |= {name + ".weight": (HIDDEN,), name + ".bias": (HIDDEN,)}
    return dict(sorted(rows.items()))


def make_rows():
    rows = {}
    for t, (name, shape) in enumerate(shapes().items()):
        i = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64)
        wave = torch.sin(0.7 * i + 0.9 * t).reshape(shape)
        scale = "norm" in name and name.endswith("weight")
        rows[name] = (1 + WAVE / 2 * wave if scale else WAVE * wave).requires_grad_()
    return rows


def encoder_state(rows):
    """transformers' names; Megatron-Core has each head's query, key and value next to each other."""
    state = {}
    for i in range(LAYERS):
        at, to = f"decoder.layers.{i}.", f"layer.{i}."
        for ours, theirs in {"input_layernorm": "layernorm_before", "pre_mlp_layernorm": "layernorm_after",
                             "self_attention.linear_proj": "attention.output.dense",
                             "mlp.linear_fc1": "intermediate.dense", "mlp.linear_fc2": "output.dense"}.items():
            for param in ["weight", "bias"]:
                state[f"{to}{theirs}.{param}"] = rows[f"{at}{ours}.{param}"]
        for param in ["weight", "bias"]:
            qkv = rows[f"{at}self_attention.linear_qkv.{param}"]
            parts = qkv.reshape(HEADS, 3, HEAD, -1)
            for j, theirs in enumerate(["query", "key", "value"]):
                part = parts[:, j].reshape(HIDDEN, *qkv.shape[1:])
                state[f"{to}attention.attention.{theirs}.{param}"] = part
    return state


class Model:
    def __init__(self):
        config = ViTConfig(hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                           intermediate_size=4 * HIDDEN, hidden_act="gelu_pytorch_tanh", hidden_dropout_prob=0.0,
                           attention_probs_dropout_prob=0.0, layer_norm_eps=1e-5)
        config._attn_implementation = "sdpa"  # which has no softmax in float32
        self.encoder = ViTEncoder(config).double().eval()

    def scores(self, rows, pixels):
        linear = torch.nn.functional.linear

        def both(name):
            return rows[name + ".weight"], rows[name + ".bias"]

        patches = linear(pixels, *both("embedding.patch_embeddings"))
        classes = rows["embedding.class_tokens.weight"].expand(len(pixels), -1, -1)
        x = torch.cat([classes, patches], 1) + rows["embedding.position_embeddings.weight"]
        x = torch.func.functional_call(self.encoder, encoder_state(rows), (x,)).last_hidden_state
        x = torch.nn.functional.layer_norm(x, (HIDDEN,), *both("decoder.final_layernorm"), eps=1e-5)
        return linear(torch.tanh(linear(x[:, 0], *both("head.dense_in"))), *both("head.dense_out"))


def main():
    model, rows, targets = Model(), make_rows(), torch.tensor(TARGETS)
    count = len(TARGETS) * PATCHES * WIDTH
    pixels = torch.sin(0.3 * torch.arange(1, count + 1, dtype=torch.float64)).reshape(-1, PATCHES, WIDTH)
    with open(os.path.join(sys.argv[1], "vit.golden"), "w", encoding="ascii") as out:
        def write(name, numbers):
            print(name, *(f"{float(x):.12g}" for x in numbers), file=out)

        print(f"# transformers {transformers.__version__}, torch {torch.__version__}", file=out)
        scores = model.scores(rows, pixels)
        losses = torch.nn.functional.cross_entropy(scores, targets, reduction="none")
        write("losses", losses)
        write("scores", scores.flatten())
        losses.mean().backward()
        for name, row in rows.items():
            write(f"gradient {name}", row.grad.flatten())
        optimizer = torch.optim.AdamW(
            [{"params": [row for row in rows.values() if row.dim() > 1], "weight_decay": 0.01},
             {"params": [row for row in rows.values() if row.dim() == 1], "weight_decay": 0}],
            lr=1e-2, betas=(0.9, 0.999), eps=1e-8)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model.scores(rows, pixels), targets)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(list(rows.values()), 1.0)
            write("step", [loss, norm])
            optimizer.step()


main()
