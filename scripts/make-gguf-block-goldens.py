#!/usr/bin/env python3
"""Make testdata/gguf/blocks.safetensors: blocks of GGUF's types, and what gguf's own package makes of them.

For each type that gguf dequantizes and mt reads: NAME.blocks, two rows of two blocks of random bytes whose float16 scales
are finite, and NAME.elements, float32.

Needs from PyPI: gguf, numpy, safetensors (tried with 0.19.0, 2.5.0, 0.8.0).
Run:  scripts/make-gguf-block-goldens.py
"""
import pathlib

import gguf
import numpy
import safetensors.numpy

SCALES = {  # at which bytes of a block a float16 lies
    "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q2_k": [80, 82], "q3_k": [108],
    "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208], "iq4_nl": [0], "iq4_xs": [0], "tq1_0": [52], "tq2_0": [64], "mxfp4": [],
    "iq2_xxs": [0], "iq2_xs": [0], "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0], "iq1_s": [0], "iq1_m": [], "nvfp4": []}


def main():
    random = numpy.random.default_rng(1)
    tensors = {}
    for name, scales in SCALES.items():
        kind = gguf.GGMLQuantizationType[name.upper()]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (2, 2, size), dtype=numpy.uint8)
        for at in scales:
            values = random.normal(0, 0.1, (2, 2, 1)).astype(numpy.float16)
            blocks[..., at:at + 2] = values.view(numpy.uint8)
        if name == "mxfp4":
            blocks[..., 0] = [[100, 127], [0, 252]]  # exponents: of subnormal numbers, and large
        if name == "iq1_m":
            blocks[..., 55] = blocks[..., 55] & 15 | 0x20  # the float16's highest bits
        if name == "nvfp4":
            blocks[0, 0, :4] = [0, 1, 0x7E, 0x7F]
        blocks = blocks.reshape(2, -1)
        tensors[f"{name}.blocks"] = blocks
        tensors[f"{name}.elements"] = gguf.quants.dequantize(blocks, kind)
        assert numpy.isfinite(tensors[f"{name}.elements"]).all(), name
    folder = pathlib.Path(__file__).resolve().parent.parent / "testdata/gguf"
    folder.mkdir(exist_ok=True)
    safetensors.numpy.save_file(tensors, folder / "blocks.safetensors")


if __name__ == "__main__":
    main()
