"""What compare-data-index.py and make-data-goldens.py share: a tokenizer for Megatron's datasets, and hashes.

Needs from PyPI: numpy.  Imported by those two; does nothing when run.
"""
import types

import numpy


def tokenizer(eod):
    """What GPTDataset asks of a tokenizer; it has no `pad`."""
    return types.SimpleNamespace(eod=eod, unique_identifiers={"class": "Tokenizer"})


def fnv(data, state=0xCBF29CE484222325):
    """FNV-1a, 64 bits."""
    for byte in bytes(data):
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return state


def hash_of(array, dtype):
    return f"{fnv(numpy.ascontiguousarray(array, dtype=dtype).tobytes()):016x}"
