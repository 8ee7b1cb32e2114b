#!/usr/bin/env python3
"""Writes libcommon/ckpt/gguf_grids.cpp: the points of the grids that elements of GGUF's types iq1, iq2 and iq3 lie on, as gguf's own
package has them (which has them from ggml).  Needs from PyPI: gguf==0.19.0.

    python scripts/make-gguf-grids.py > libcommon/ckpt/gguf_grids.cpp
"""
import numpy
from gguf import quants

GRIDS = {"Iq2Xxs": quants.IQ2_XXS, "Iq2Xs": quants.IQ2_XS, "Iq2S": quants.IQ2_S, "Iq3Xxs": quants.IQ3_XXS, "Iq3S": quants.IQ3_S,
         "Iq1": quants.IQ1_S}


def main():
    print("// Made by scripts/make-gguf-grids.py from gguf 0.19.0: a number a point, of whose elements the first is the\n"
          "// lowest digit; gguf_grids.h says what digits stand for.\n"
          '#include "ckpt/gguf_grids.h"\n\nnamespace mt {\n\n// clang-format off')
    for name, kind in GRIDS.items():
        kind.init_grid()
        grid = numpy.asarray(kind.grid).reshape(kind.grid_shape)
        bits = 2 if len(kind.grid_map) == 3 else 3
        digits = numpy.searchsorted(numpy.array(kind.grid_map), grid)
        assert (numpy.array(kind.grid_map)[digits] == grid).all()
        points = (digits << (bits * numpy.arange(grid.shape[1]))).sum(-1)
        print(f"const std::uint16_t k{name}Grid[{len(points)}] = {{")
        for begin in range(0, len(points), 14):
            print("    " + " ".join(f"{point}," for point in points[begin:begin + 14]))
        print("};")
    print("// clang-format on\n\n}  // namespace mt")


if __name__ == "__main__":
    main()
