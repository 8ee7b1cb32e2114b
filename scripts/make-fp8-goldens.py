#!/usr/bin/env python3
"""Write what PyTorch's types of eight bits make of numbers, and of the products of an MLP, on the CPU.

Number i of a tensor with a seed is (374761393 (i + 1000003 seed) mod 2^32) / 2^31 - 1, in float64, rounded to
float32, times what is said below.  FILE has, after a line that names the version:
  cast FORMAT SCALE HASH   of 40,000 numbers times 2^((i mod 41) - 20), the hash (FNV-1a, 64 bits) of the codes of
                           each times the scale, saturated
  round BLOCKS HASH        of 200 x 144 numbers with seed 7, times 2^((i mod 41) - 20), the hash of what the codes
                           stand for, E4M3 with a scale for every 128 numbers of a row, of a column, or of a square
                           of 128 x 128: the largest power of two that is not above 448 over their largest
  mlp FORMAT NAME values   y = gelu(x W1^T + b1) W2^T + b2 (gelu in its tanh form), and gradients from dy, of which
                           every 7th number is there.  All six products are of numbers rounded to eight bits with
                           the scale of the whole tensor, its largest number over that of the type; in float64
                           behind that, so that what differs is rounding to float32.  x, W1, W2, b1, b2 and dy have
                           seeds 1 to 6 and are times 1, 0.5, 0.25, 1, 1 and 0.01.  Of hybrid, gradients are E5M2.
                           Of blockwise, x and dy are rounded in blocks along what a product sums over, weights in
                           squares.

Needs from PyPI: torch (tried with 2.15.0).
Run:  scripts/make-fp8-goldens.py testdata/fp8/torch.golden
"""
import sys

import torch

TYPES = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0)}
TOKENS, IN, HIDDEN, OUT = 32, 48, 64, 16


def fnv(data):
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def numbers(shape, seed, factor=1.0):
    count = 1
    for extent in shape:
        count *= extent
    i = torch.arange(count, dtype=torch.int64) + 1000003 * seed
    bits = (i * 374761393) % 2**32
    return ((bits.double() / 2**31 - 1).float() * torch.tensor(factor, dtype=torch.float32)).reshape(shape)


def codes(x, scale, kind):
    dtype, largest = TYPES[kind]
    return (x.float() * scale).clamp(-largest, largest).to(dtype)


def rounded(x, kind):
    x = x.float()
    scale = torch.tensor(TYPES[kind][1], dtype=torch.float32) / x.abs().max()
    return codes(x, scale, kind).double() * (1 / scale).double()


def in_blocks(x, height, width):
    x = x.float()
    y = torch.empty_like(x)
    for r in range(0, x.shape[0], height):
        for c in range(0, x.shape[1], width):
            block = x[r:r + height, c:c + width]
            scale = torch.tensor(448.0) / block.abs().max()
            scale = (scale.view(torch.int32) & ~0x7FFFFF).view(torch.float32)
            y[r:r + height, c:c + width] = codes(block, scale, "e4m3").float() / scale
    return y


def blockwise():
    x, w1, w2 = numbers((TOKENS, IN), 1), numbers((HIDDEN, IN), 2, 0.5), numbers((OUT, HIDDEN), 3, 0.25)
    b1, b2, dy = numbers((HIDDEN,), 4), numbers((OUT,), 5), numbers((TOKENS, OUT), 6, 0.01)
    rows, columns, square = (lambda t: in_blocks(t, 1, 128).double()), (lambda t: in_blocks(t, 128, 1).double()), (
        lambda t: in_blocks(t, 128, 128).double())
    h = (rows(x) @ square(w1).T + b1.double()).requires_grad_()
    a = torch.nn.functional.gelu(h, approximate="tanh")
    y = rows(a.detach()) @ square(w2).T + b2.double()
    a.backward(rows(dy) @ square(w2))
    dh = h.grad
    return {"y": y, "dx": rows(dh) @ square(w1), "dw1": columns(dh).T @ columns(x), "db1": dh.sum(0),
            "dw2": columns(dy).T @ columns(a.detach()), "db2": dy.double().sum(0)}


def mlp(gradients):
    x, w1, w2 = numbers((TOKENS, IN), 1), numbers((HIDDEN, IN), 2, 0.5), numbers((OUT, HIDDEN), 3, 0.25)
    b1, b2, dy = numbers((HIDDEN,), 4), numbers((OUT,), 5), numbers((TOKENS, OUT), 6, 0.01)
    qx, qw1, qw2 = rounded(x, "e4m3"), rounded(w1, "e4m3"), rounded(w2, "e4m3")
    h = qx @ qw1.T + b1.double()
    a = torch.nn.functional.gelu(h, approximate="tanh")
    qa, qdy = rounded(a, "e4m3"), rounded(dy, gradients)
    y = qa @ qw2.T + b2.double()
    da = qdy @ qw2
    leaf = h.detach().requires_grad_()
    torch.nn.functional.gelu(leaf, approximate="tanh").backward(da)
    dh = leaf.grad
    qdh = rounded(dh, gradients)
    return {"y": y, "dx": qdh @ qw1, "dw1": qdh.T @ qx, "db1": dh.sum(0), "dw2": qdy.T @ qa, "db2": dy.double().sum(0)}


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write(f"# scripts/make-fp8-goldens.py; torch {torch.__version__}\n")
        x = numbers((40000,), 0) * 2.0 ** (torch.arange(40000) % 41 - 20).float()
        for kind in TYPES:
            for scale in (1.0, 0.37, 448.0):
                found = codes(x, torch.tensor(scale, dtype=torch.float32), kind)
                out.write(f"cast {kind} {scale:.9g} {fnv(found.view(torch.uint8).numpy().tobytes())}\n")
        x = numbers((200, 144), 7) * 2.0 ** (torch.arange(200 * 144) % 41 - 20).float().reshape(200, 144)
        for name, height, width in (("of_rows", 1, 128), ("of_columns", 128, 1), ("squares", 128, 128)):
            out.write(f"round {name} {fnv(in_blocks(x, height, width).numpy().tobytes())}\n")
        for name, made in (("e4m3", mlp("e4m3")), ("hybrid", mlp("e5m2")), ("blockwise", blockwise())):
            for key, value in made.items():
                text = " ".join(f"{v:.9g}" for v in value.reshape(-1)[::7].tolist())
                out.write(f"mlp {name} {key} {text}\n")


if __name__ == "__main__":
    main()
