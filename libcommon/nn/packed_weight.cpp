#include "nn/packed_weight.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/nf4.h"
#include "kernels/packed_tiles.h"
#include "ops/ops.h"
#include "tensor/host_copy.h"

namespace mt {

// Parts: those of a weight's rows that have scales of their own.
namespace {
class Parts {
 public:
  explicit Parts(const Param& weight) : blocks_of_row_(weight.shape[1] / kNf4Block) {
    const Segment& first = weight.segments.front();
    if (!first.parts.empty()) {
      period_ = first.granularity;
      for (const std::int64_t rows : first.parts) add(rows, weight.shape[0] / period_ * rows);
    } else {
      period_ = weight.shape[0];
      for (const Segment& segment : weight.segments)
        if (segment.dimension == 0) add(segment.extent, segment.extent);
      if (parts_.empty()) add(period_, period_);
    }
  }

  std::int64_t scales() const { return scales_; }
  std::int64_t count() const { return std::ssize(parts_); }
  std::int64_t rows(std::int64_t part) const { return at(part).rows; }
  std::int64_t first_scale(std::int64_t part) const { return at(part).first_scale; }
  // A row of a part, among those of the weight.
  std::int64_t row(std::int64_t part, std::int64_t i) const {
    const Part& p = at(part);
    return i / p.count * period_ + p.begin + i % p.count;
  }

 private:
  struct Part {
    std::int64_t begin, count;  // of every period_ rows
    std::int64_t rows, first_scale;
  };
  const Part& at(std::int64_t part) const { return parts_[static_cast<std::size_t>(part)]; }
  void add(std::int64_t count, std::int64_t rows) {
    const std::int64_t begin = parts_.empty() ? 0 : parts_.back().begin + parts_.back().count;
    parts_.push_back({begin, count, rows, scales_});
    scales_ += (rows * blocks_of_row_ + kNf4Scaled - 1) / kNf4Scaled;
  }

  std::int64_t blocks_of_row_, period_ = 0, scales_ = 0;
  std::vector<Part> parts_;
};
}  // namespace

static Nf4Shape shape_of(const Param& weight) {
  return {weight.local[0], weight.local[1], Parts(weight).scales()};
}

void pack_weights(ParamTable& table, const std::function<bool(const RowPlace&)>& is_packed) {
  for (Param& row : table.rows()) {
    if (row.trainable || !row.place.layer || row.place.param != "weight" || row.shape.rank() != 2 ||
        !is_packed(row.place))
      continue;
    if (row.local[1] % kNf4Block != 0)
      fail(Exit::bad_config, row.name(), ": rows of ", row.local[1], " numbers",
           row.is_cut() ? " on each tensor-parallel rank" : "", ", expected a multiple of ",
           kNf4Block, ", the numbers of a block of nf4");
    row.packed_as = PackedAs::nf4;
    row.packed_bytes = shape_of(row).bytes();
  }
}

// The bytes of the whole weight, in the order of its parts, and where they go.
void pack(const Param& row, ConstTensor whole, Tensor packed) {
  const Parts parts(row);
  const Nf4Shape shape = shape_of(row);
  const std::int64_t in = row.shape[1], of_row = in / kNf4Block, own = row.local[1] / kNf4Block;
  auto* const bytes = packed.as<std::uint8_t>();
  auto* const scales = reinterpret_cast<Nf4Scale*>(bytes + shape.scales_at());
  auto* const firsts = reinterpret_cast<std::int32_t*>(bytes + shape.firsts_at());
  std::memset(bytes, 0, packed.bytes());
  // The place of each of the weight's rows in this rank's part, or -1.
  std::vector<std::int64_t> places(static_cast<std::size_t>(row.shape[0]), -1);
  const bool by_rows = row.dimension == 0;
  for (const Cut& cut : by_rows ? row.cuts : std::vector<Cut>{{.extent = row.shape[0]}})
    for (std::int64_t i = 0; i < cut.extent; ++i)
      places[static_cast<std::size_t>(cut.global + i)] = cut.local + i;
  const std::int64_t first_block = by_rows ? 0 : row.cuts.front().global / kNf4Block;
  for (std::int64_t part = 0; part < parts.count(); ++part) {
    const std::int64_t rows = parts.rows(part), blocks = rows * of_row;
    std::vector<float> numbers(static_cast<std::size_t>(rows * in)),
        largest(static_cast<std::size_t>(blocks));
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * in / 2)),
        levels(static_cast<std::size_t>(blocks));
    for (std::int64_t i = 0; i < rows; ++i)
      std::copy_n(whole.as<float>() + parts.row(part, i) * in, in, numbers.data() + i * in);
    cpu::nf4_quantize(codes.data(), largest.data(), numbers.data(), blocks);
    cpu::nf4_quantize_scales(levels.data(), scales + parts.first_scale(part), largest.data(),
                             blocks);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t place = places[static_cast<std::size_t>(parts.row(part, i))];
      if (place < 0) continue;
      const std::int64_t block = i * of_row + first_block;
      std::copy_n(codes.data() + block * kNf4Block / 2, own * kNf4Block / 2,
                  bytes + place * own * kNf4Block / 2);
      std::copy_n(levels.data() + block, own, bytes + shape.levels_at() + place * own);
      firsts[place] = static_cast<std::int32_t>(parts.first_scale(part) * kNf4Scaled + block);
    }
  }
}

void round_packed(const Param& row, Tensor whole) {
  Param all = row;
  all.local = row.shape;
  all.cuts = {{.extent = row.shape[row.dimension]}};
  const Nf4Shape shape = shape_of(all);
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(shape.bytes()));
  const Tensor packed = buffer.tensor(DType::u8, {shape.bytes()});
  pack(all, whole, packed);
  cpu::nf4_unpack(whole.as<float>(), packed.as<std::uint8_t>(), shape);
}

void hold_in_blocks(Param& row, std::span<const BlockType> types, Device device) {
  row.trainable = false;
  if (device == Device::cpu) {
    row.packed_as = PackedAs::blocks;
    row.packed_bytes = PackedRows::bytes(types, row.local[1]);
    return;
  }
  row.packed_as = PackedAs::tiles;
  row.tiles = std::make_shared<const PackedTiles>(types, row.local[1]);
  row.packed_bytes = row.tiles->bytes();
}

void fill_blocks(const Param& row, std::span<const BlockType> types,
                 const std::function<void(std::uint8_t*)>& read) {
  if (row.packed_as == PackedAs::blocks) {
    auto* const packed = row.value.as<std::uint8_t>();
    PackedRows::lay_out(packed, types, row.shape[1]);
    return read(packed);
  }
  const Buffer blocks(Device::cpu,
                      static_cast<std::size_t>(PackedRows::bytes(types, row.shape[1])));
  auto* const packed = static_cast<std::uint8_t*>(blocks.data());
  PackedRows::lay_out(packed, types, row.shape[1]);
  read(packed);
  const HostCopy here = HostCopy::for_writing(row.value);
  row.tiles->lay_out(here.tensor().as<std::uint8_t>(), PackedRows(packed));
  here.upload();
}

void put_weight(Step& s, Matmul& problem, const Param& weight, std::int64_t rows) {
  problem.transpose_b = true;
  problem.packed = weight.packed_as == PackedAs::blocks;
  problem.tiles = weight.tiles.get();
  const bool as_it_is = problem.packed || problem.tiles != nullptr;
  problem.b = as_it_is ? s.weight(weight) : unpacked(s, weight);
  problem.b_is_new = weight.packed_as == PackedAs::nf4;
  if (rows > 0 && !as_it_is) problem.b = problem.b.rows(0, rows);
}

ConstTensor unpacked(Step& s, const Param& weight) {
  const ConstTensor value = s.weight(weight);
  if (weight.packed_as == PackedAs::none) return value;
  if (weight.packed_as == PackedAs::blocks)
    fail(Exit::internal, weight.name(), ": its blocks are multiplied as they are alone");
  const Tensor all = s.scratch(weight.local);
  if (weight.packed_as == PackedAs::tiles)
    unpack_tiles(all, value, *weight.tiles, s.stream);
  else
    nf4_unpack(all, value, s.stream);
  return all;
}

}  // namespace mt
