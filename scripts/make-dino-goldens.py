#!/usr/bin/env python3
"""Writes testdata/model/dino.golden: a tiny student and its teacher that learn as DINO has it, in float64.

    scripts/make-dino-goldens.py testdata/model     needs torch (tried with 2.15.0)

Everything is written out with PyTorch's functions; weights are functions of the order of their names in Megatron-Core and of
their elements, as of make-vit-goldens.py, and those of the teacher and the center are others than the student's.  Lines of
the file, but for the first, are a name and numbers: `losses` of the views of two images, those of the first two views first,
`features` that the teacher knows the images by, `gradient NAME` of the mean loss, and for each of twelve steps of AdamW `step`,
the loss, the gradients' norm, and the sums of the squares of the teacher's weights and of the center behind it.  In the first
four steps the head's last layer does not learn.
"""
import math
import os
import sys

import torch
from torch.nn import functional as F

LAYERS, HIDDEN, HEADS, CLASS_TOKENS, SIDE, WIDTH = 2, 8, 2, 8, 3, 12
OTHERS, OTHER_SIDE, IMAGES = 3, 2, 2
WIDE, NARROW, OUTPUTS = 6, 4, 10
WAVE, STEPS, FROZEN = 0.2, 12, 4
HEAD = HIDDEN // HEADS


def shapes():
    linear = {"embedding.patch_embeddings": (HIDDEN, WIDTH), "dino_head.mlp.0": (WIDE, HIDDEN),
              "dino_head.mlp.2": (WIDE, WIDE), "dino_head.mlp.4": (NARROW, WIDE)}
    norms = ["decoder.final_layernorm"]
    for i in range(LAYERS):
        at = f"decoder.layers.{i}."
        norms += [at + "input_layernorm", at + "pre_mlp_layernorm"]
        linear[at + "self_attention.linear_qkv"] = (3 * HIDDEN, HIDDEN)
        linear[at + "self_attention.linear_proj"] = (HIDDEN, HIDDEN)
        linear[at + "mlp.linear_fc1"] = (4 * HIDDEN, HIDDEN)
        linear[at + "mlp.linear_fc2"] = (HIDDEN, 4 * HIDDEN)
    rows = {"embedding.class_tokens.weight": (CLASS_TOKENS, HIDDEN),
            "embedding.position_embeddings.weight": (CLASS_TOKENS + SIDE * SIDE, HIDDEN),
            "dino_head.last_layer.weight_g": (OUTPUTS, 1), "dino_head.last_layer.weight_v": (OUTPUTS, NARROW)}
    for name, shape in linear.items():
        rows |= {name + ".weight": shape, name + ".bias": shape[:1]}
    for name in norms:
        rows |= {name + ".weight": (HIDDEN,), name + ".bias": (HIDDEN,)}
    rows |= {"teacher_model." + name: shape for name, shape in rows.items()}
    return dict(sorted({**rows, "dino_loss.center.value": (OUTPUTS,)}.items()))


def make_rows():
    rows = {}
    for t, (name, shape) in enumerate(shapes().items()):
        i = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64)
        wave = torch.sin(0.7 * i + 0.9 * t).reshape(shape)
        scale = "norm" in name and name.endswith("weight")
        rows[name] = 1 + WAVE / 2 * wave if scale else WAVE * wave
    return rows


def logits_of(rows, pixels):
    """What a model says of images [images, patches, width], a square of patches each; and what it knows them by."""
    def both(name):
        return rows[name + ".weight"], rows[name + ".bias"]

    positions = rows["embedding.position_embeddings.weight"]
    classes = rows["embedding.class_tokens.weight"].expand(len(pixels), -1, -1)
    x = torch.cat([classes, F.linear(pixels, *both("embedding.patch_embeddings"))], 1)
    x = x + positions[:x.shape[1]]
    for i in range(LAYERS):
        at = f"decoder.layers.{i}."
        y = F.layer_norm(x, (HIDDEN,), *both(at + "input_layernorm"), eps=1e-5)
        qkv = F.linear(y, *both(at + "self_attention.linear_qkv")).reshape(*y.shape[:2], HEADS, 3, HEAD)
        q, k, v = (qkv[..., j, :].transpose(1, 2) for j in range(3))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(HEAD), -1)
        y = (weights @ v).transpose(1, 2).reshape(x.shape)
        x = x + F.linear(y, *both(at + "self_attention.linear_proj"))
        y = F.layer_norm(x, (HIDDEN,), *both(at + "pre_mlp_layernorm"), eps=1e-5)
        y = F.gelu(F.linear(y, *both(at + "mlp.linear_fc1")), approximate="tanh")
        x = x + F.linear(y, *both(at + "mlp.linear_fc2"))
    known = F.layer_norm(x, (HIDDEN,), *both("decoder.final_layernorm"), eps=1e-5)[:, 0]
    y = F.gelu(F.linear(known, *both("dino_head.mlp.0")))
    y = F.gelu(F.linear(y, *both("dino_head.mlp.2")))
    y = F.normalize(F.linear(y, *both("dino_head.mlp.4")), dim=-1)
    v, g = rows["dino_head.last_layer.weight_v"], rows["dino_head.last_layer.weight_g"]
    return F.linear(y, g * v / v.norm(dim=1, keepdim=True)), known


def teachers(rows):
    name = "teacher_model."
    return {key.removeprefix(name): row for key, row in rows.items() if key.startswith(name)}


def losses(rows, wholes, others, temperature):
    """Of each view, so that their sum over all is the sum over images; and the teacher's logits."""
    said = torch.cat([logits_of(rows, wholes)[0], logits_of(rows, others)[0]])
    with torch.no_grad():
        taught = logits_of(teachers(rows), wholes)[0]
        targets = torch.softmax((taught - rows["dino_loss.center.value"]) / temperature, -1)
    log_said = torch.log_softmax(said / 0.1, -1)
    of_views = []
    for r in range(len(said)):
        image = r // 2 if r < 2 * IMAGES else (r - 2 * IMAGES) // OTHERS
        pairs = [q for q in (2 * image, 2 * image + 1) if q != r]
        of_views.append(-sum((targets[q] * log_said[r]).sum() for q in pairs) / (2 * (OTHERS + 1)))
    return torch.stack(of_views), taught


def numbers(name, values, out):
    print(name, *(f"{float(x):.12g}" for x in values), file=out)


def main(folder):
    rows = make_rows()
    learns = {name: row.requires_grad_() for name, row in rows.items() if not name.startswith(("teacher_model.", "dino_loss."))}

    def waves(images, patches):
        i = torch.arange(1, images * patches * WIDTH + 1, dtype=torch.float64)
        return torch.sin(0.3 * i).reshape(images, patches, WIDTH)

    wholes, others = waves(2 * IMAGES, SIDE * SIDE), waves(OTHERS * IMAGES, OTHER_SIDE * OTHER_SIDE)
    optimizer = torch.optim.AdamW(
        [{"params": [row for row in learns.values() if row.dim() > 1], "weight_decay": 0.01},
         {"params": [row for row in learns.values() if row.dim() == 1], "weight_decay": 0}],
        lr=1e-2, betas=(0.9, 0.999), eps=1e-8)
    with open(os.path.join(folder, "dino.golden"), "w", encoding="ascii") as out:
        print(f"# torch {torch.__version__}", file=out)
        of_views, _ = losses(rows, wholes, others, 0.04)
        numbers("losses", of_views.detach(), out)
        numbers("features", logits_of(teachers(rows), wholes)[1].flatten(), out)
        (of_views.sum() / IMAGES).backward()
        for name, row in learns.items():
            numbers(f"gradient {name}", row.grad.flatten(), out)
        for step in range(STEPS):
            optimizer.zero_grad()
            of_views, taught = losses(rows, wholes, others, 0.04 + 0.003 * step)
            loss = of_views.sum() / IMAGES
            loss.backward()
            if step < FROZEN:
                for name in ("weight_g", "weight_v"):
                    learns["dino_head.last_layer." + name].grad.zero_()
            norm = torch.nn.utils.clip_grad_norm_(list(learns.values()), 1.0)
            optimizer.step()
            momentum = 1 + 0.5 * (0.996 - 1) * (1 + math.cos(math.pi * step / STEPS))
            with torch.no_grad():
                for name, row in teachers(rows).items():
                    row.mul_(momentum).add_((1 - momentum) * rows[name])
                center = rows["dino_loss.center.value"]
                center.mul_(0.9).add_(0.1 * taught.mean(0))
                squares = sum((row**2).sum() for row in teachers(rows).values())
                numbers("step", [loss.detach(), norm, squares, (center**2).sum()], out)


if __name__ == "__main__":
    main(sys.argv[1])
