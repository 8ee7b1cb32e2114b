// Weights that are held in few bits a number, frozen: as NF4 (kernels/nf4.h); or in the blocks of a
// file of llama.cpp's (kernels/packed_rows.h), which products on the CPU read as they are; or in
// tiles of what blocks hold (kernels/packed_tiles.h), which a GPU's read.
//
// NF4 is unpacked for each product that it is part of.  Queries, keys and values, and gates, have
// scales of their own, as the layers of other libraries that they are have.  Tensor-parallel ranks
// share the bytes of the whole weight: each has the codes of its part, and all scales.
//
// Blocks and tiles are of rows that one rank has whole.
#pragma once

#include <functional>

#include "kernels/packed_rows.h"
#include "nn/step.h"
#include "ops/ops.h"

namespace mt {

// Has the frozen weights of linear layers packed as NF4 at the places of which this is true.
// Before they are allocated.  Exit::bad_config, with its name, where rows of a rank's part are not
// whole blocks.
void pack_weights(ParamTable& table, const std::function<bool(const RowPlace&)>& is_packed);

// What a row's part becomes, packed as NF4, as is its value, on the host.  whole: all of the
// weight, f32.
void pack(const Param& row, ConstTensor whole, Tensor packed);
// Rounds all of a weight, f32 on the host, to what becomes of it.
void round_packed(const Param& row, Tensor whole);

// Has a row of the table held in blocks, on a GPU in tiles: of each of its rows the type.  Before
// it is allocated.
void hold_in_blocks(Param& row, std::span<const BlockType> types, Device device);
// Then read(packed) fills PackedRows, which are laid out by these types, and they become its value.
void fill_blocks(const Param& row, std::span<const BlockType> types,
                 const std::function<void(std::uint8_t* packed)>& read);

// Makes the weight the transposed factor of a product, in blocks or tiles where it is held in them;
// its first `rows` rows where so many are asked for.
void put_weight(Step& s, Matmul& problem, const Param& weight, std::int64_t rows = 0);

// The weight to multiply with, in `layer` where it is packed as NF4 or in tiles; none that is held
// in blocks.
ConstTensor unpacked(Step& s, const Param& weight);

}  // namespace mt
