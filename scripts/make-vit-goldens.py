#!/usr/bin/env python3
"""Writes testdata/model/vit.golden, vit-inpaint.golden and vit-positions.golden: tiny Vision Transformers of transformers' layers, in float64.

    scripts/make-vit-goldens.py testdata/model     needs transformers 4.51.3 and torch

Layers and the final norm are transformers' ViT's; in front of them stand Megatron-LM's eight tokens of classes, and
behind them its head (core_v0.12.1, megatron/legacy/model/vision).  Weights are functions of the order of their names in
Megatron-Core and of their elements.  Lines of the file, but for the first, are a name and numbers: `losses` and `scores`
of two images, `gradient NAME` of the mean loss, and for each of twenty steps of AdamW `step`, the loss and the gradients'
norm before it is clipped.

vit-inpaint.golden is of the one that paints patches which it does not see: without tokens of classes, and with a linear
decoder behind each patch.  It has `terms`, the loss, PSNR and SSIM of two images, `gradient NAME` of the loss, and of
twenty steps `step` with the three terms and the gradients' norm; and SSIM of images whose range is taken to be 2, `range2`,
and 256, `range256`.

vit-positions.golden has positions of images of other sizes: for a grid of 3 x 4 patches of two numbers, the rows of grids of
so many rows and columns.
"""
import os
import sys

import torch
import transformers
from transformers.models.vit.modeling_vit import ViTConfig, ViTEncoder

LAYERS, HIDDEN, HEADS, CLASSES, PATCHES, WIDTH = 2, 8, 2, 3, 6, 12
CLASS_TOKENS, TARGETS, WAVE, STEPS = 8, [2, 0], 0.2, 20
HEAD = HIDDEN // HEADS
# Images that are painted: 12 rows of 16 pixels in patches of 4, and which patches of each are.
ROWS, COLUMNS, SIDE = 3, 4, 4
PAINTED = [[1, 2, 5, 6, 7], [0, 3, 4, 11]]


def shapes(paints):
    width = SIDE * SIDE * 3 if paints else WIDTH
    linear = {"embedding.patch_embeddings": (HIDDEN, width)}
    if paints:
        linear["linear_decoder"] = (width, HIDDEN)
    else:
        linear |= {"head.dense_in": (HIDDEN, HIDDEN), "head.dense_out": (CLASSES, HIDDEN)}
    norms = ["decoder.final_layernorm"]
    for i in range(LAYERS):
        at = f"decoder.layers.{i}."
        norms += [at + "input_layernorm", at + "pre_mlp_layernorm"]
        linear[at + "self_attention.linear_qkv"] = (3 * HIDDEN, HIDDEN)
        linear[at + "self_attention.linear_proj"] = (HIDDEN, HIDDEN)
        linear[at + "mlp.linear_fc1"] = (4 * HIDDEN, HIDDEN)
        linear[at + "mlp.linear_fc2"] = (HIDDEN, 4 * HIDDEN)
    tokens = ROWS * COLUMNS if paints else CLASS_TOKENS + PATCHES
    rows = {"embedding.position_embeddings.weight": (tokens, HIDDEN)}
    if not paints:
        rows["embedding.class_tokens.weight"] = (CLASS_TOKENS, HIDDEN)
    for name, shape in linear.items():
        rows |= {name + ".weight": shape, name + ".bias": shape[:1]}
    for name in norms:
        rows |= {name + ".weight": (HIDDEN,), name + ".bias": (HIDDEN,)}
    return dict(sorted(rows.items()))


def make_rows(paints=False):
    rows = {}
    for t, (name, shape) in enumerate(shapes(paints).items()):
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

    def hidden(self, rows, pixels):
        linear = torch.nn.functional.linear

        def both(name):
            return rows[name + ".weight"], rows[name + ".bias"]

        patches = linear(pixels, *both("embedding.patch_embeddings"))
        if "embedding.class_tokens.weight" in rows:
            classes = rows["embedding.class_tokens.weight"].expand(len(pixels), -1, -1)
            patches = torch.cat([classes, patches], 1)
        x = patches + rows["embedding.position_embeddings.weight"]
        x = torch.func.functional_call(self.encoder, encoder_state(rows), (x,)).last_hidden_state
        return torch.nn.functional.layer_norm(x, (HIDDEN,), *both("decoder.final_layernorm"), eps=1e-5)

    def scores(self, rows, pixels):
        def linear(x, name):
            return torch.nn.functional.linear(x, rows[name + ".weight"], rows[name + ".bias"])

        x = self.hidden(rows, pixels)[:, 0]
        return linear(torch.tanh(linear(x, "head.dense_in")), "head.dense_out")

    def painted(self, rows, pixels):
        return torch.nn.functional.linear(self.hidden(rows, pixels), rows["linear_decoder.weight"],
                                          rows["linear_decoder.bias"])


def picture(patches):
    """[images, patches, width], whose colours follow each other, as [images, colours, rows, columns]."""
    x = patches.reshape(len(patches), ROWS, COLUMNS, SIDE, SIDE, 3)
    return x.permute(0, 5, 1, 3, 2, 4).reshape(len(patches), 3, ROWS * SIDE, COLUMNS * SIDE)


def similarity(u, v):
    """Wang et al.'s, IEEE Trans. Image Processing 13(4), 2004, with means under a Gaussian window of 11 x 11."""
    at = torch.arange(11, dtype=torch.float64) - 5
    line = torch.exp(-at**2 / (2 * 1.5**2))
    window = torch.outer(line / line.sum(), line / line.sum())[None, None]

    def mean(x):
        return torch.nn.functional.conv2d(x.flatten(0, 1)[:, None], window)

    span = (255 if u.max() > 128 else 1) - (-1 if u.min() < -0.5 else 0)
    c1, c2 = (0.01 * span)**2, (0.03 * span)**2
    mu, mv = mean(u), mean(v)
    uu, vv, uv = mean(u * u) - mu**2, mean(v * v) - mv**2, mean(u * v) - mu * mv
    return ((2 * mu * mv + c1) * (2 * uv + c2) / ((mu**2 + mv**2 + c1) * (uu + vv + c2))).mean()


def terms(painted, truth, mask):
    """The loss, PSNR and SSIM of patches [images, patches, width]; mask [images, patches], 1 where they count."""
    u, v = picture(painted * mask[..., None]), picture(truth * mask[..., None])
    loss = ((u - v)**2).sum() / (mask.sum() * SIDE * SIDE)
    return loss, 10 * torch.log10(1 / ((u - v)**2).mean()), similarity(u, v)


def make_optimizer(rows):
    return torch.optim.AdamW(
        [{"params": [row for row in rows.values() if row.dim() > 1], "weight_decay": 0.01},
         {"params": [row for row in rows.values() if row.dim() == 1], "weight_decay": 0}],
        lr=1e-2, betas=(0.9, 0.999), eps=1e-8)


def numbers(name, values, out):
    print(name, *(f"{float(x.detach()):.12g}" for x in values), file=out)


def head_line(out):
    print(f"# transformers {transformers.__version__}, torch {torch.__version__}", file=out)


def write_inpaint(folder):
    model, rows = Model(), make_rows(paints=True)
    count = len(PAINTED) * ROWS * COLUMNS * SIDE * SIDE * 3
    i = torch.arange(1, count + 1, dtype=torch.float64)
    shape = (len(PAINTED), ROWS * COLUMNS, SIDE * SIDE * 3)
    truth = (0.5 + 0.5 * torch.sin(0.3 * i)).reshape(shape)
    mask = torch.zeros(shape[:2], dtype=torch.float64)
    for image, patches in enumerate(PAINTED):
        mask[image, patches] = 1
    seen = truth * (1 - mask[..., None])
    with open(os.path.join(folder, "vit-inpaint.golden"), "w", encoding="ascii") as out:
        head_line(out)
        of = terms(model.painted(rows, seen), truth, mask)
        numbers("terms", of, out)
        of[0].backward()
        for name, row in rows.items():
            numbers(f"gradient {name}", row.grad.flatten(), out)
        for span, scale in [(2, 0.8), (256, 200)]:
            other = (scale * torch.sin(0.37 * i)).reshape(shape)
            numbers(f"range{span}", [terms(other, truth, mask)[2]], out)
        optimizer = make_optimizer(rows)
        for _ in range(STEPS):
            optimizer.zero_grad()
            of = terms(model.painted(rows, seen), truth, mask)
            of[0].backward()
            norm = torch.nn.utils.clip_grad_norm_(list(rows.values()), 1.0)
            numbers("step", [*of, norm], out)
            optimizer.step()


def write_positions(folder):
    grid = torch.sin(0.7 * torch.arange(1, 3 * 4 * 2 + 1)).reshape(3, 4, 2)
    with open(os.path.join(folder, "vit-positions.golden"), "w", encoding="ascii") as out:
        head_line(out)
        for rows, columns in [(3, 4), (6, 8), (5, 2), (2, 7), (1, 1)]:
            scale = (rows / 3, columns / 4)
            other = torch.nn.functional.interpolate(grid.permute(2, 0, 1)[None], scale_factor=scale, mode="bilinear")
            numbers(f"{rows}x{columns}", other[0].permute(1, 2, 0).flatten(), out)


def main():
    write_inpaint(sys.argv[1])
    write_positions(sys.argv[1])
    model, rows, targets = Model(), make_rows(), torch.tensor(TARGETS)
    count = len(TARGETS) * PATCHES * WIDTH
    pixels = torch.sin(0.3 * torch.arange(1, count + 1, dtype=torch.float64)).reshape(-1, PATCHES, WIDTH)
    with open(os.path.join(sys.argv[1], "vit.golden"), "w", encoding="ascii") as out:
        head_line(out)
        scores = model.scores(rows, pixels)
        losses = torch.nn.functional.cross_entropy(scores, targets, reduction="none")
        numbers("losses", losses, out)
        numbers("scores", scores.flatten(), out)
        losses.mean().backward()
        for name, row in rows.items():
            numbers(f"gradient {name}", row.grad.flatten(), out)
        optimizer = make_optimizer(rows)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model.scores(rows, pixels), targets)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(list(rows.values()), 1.0)
            numbers("step", [loss, norm], out)
            optimizer.step()


main()
