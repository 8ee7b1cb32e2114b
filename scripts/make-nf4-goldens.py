#!/usr/bin/env python3
"""Write what bitsandbytes makes of numbers in NF4 with double quantisation, on the CPU.

Number i is ((374761393 i mod 2^32) / 2^31 - 1) (1 + (i div 64 mod 7) / 10) in float64, rounded to float32.
bitsandbytes' search for a level on the CPU goes by 16 bits of what it looks for: of other numbers a block in a
thousand, halfway between two but for a millionth, gets the farther one; of these none does.
FILE has, after a line that names the versions, of 40,000 numbers the hash of their codes (FNV-1a, 64 bits), of the
levels of their blocks, and of the numbers that they become, the offset, and the scales.

Needs from PyPI: bitsandbytes, torch, numpy (tried with 0.50.2, 2.15.0, 2.4.6).
Run:  scripts/make-nf4-goldens.py testdata/post/nf4.golden
"""
import sys

import bitsandbytes
import bitsandbytes.functional as functional
import numpy as np
import torch

COUNT = 40000


def fnv(array):
    state = 0xCBF29CE484222325
    for byte in np.ascontiguousarray(array).tobytes():
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def numbers():
    i = np.arange(COUNT, dtype=np.uint64)
    x = ((i * 374761393 % 2**32).astype(np.float64) / 2**31 - 1) * (1 + (i // 64 % 7).astype(np.float64) / 10)
    return x.astype(np.float32)


def main():
    codes, state = functional.quantize_4bit(torch.from_numpy(numbers()), quant_type="nf4", blocksize=64, compress_statistics=True)
    back = functional.dequantize_4bit(codes, state)
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write(f"# scripts/make-nf4-goldens.py; bitsandbytes {bitsandbytes.__version__}, torch {torch.__version__}\n")
        out.write(f"codes {fnv(codes.numpy())}\nlevels {fnv(state.absmax.numpy())}\nnumbers {fnv(back.numpy())}\n")
        out.write(f"offset {state.offset.item():.9g}\nscales {' '.join(f'{s:.9g}' for s in state.state2.absmax.tolist())}\n")


if __name__ == "__main__":
    main()
