#include "kernels/packed_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/loops.h"
#include "kernels/packed_blocks.h"
#include "kernels/vector_math.h"

namespace mt {

static std::int64_t aligned(std::int64_t at) { return (at + 63) / 64 * 64; }

// Calls each(type, first row, row behind the last) for each run.
template <class Each>
static void for_runs(std::span<const BlockType> types, const Each& each) {
  for (std::size_t begin = 0; begin < types.size();) {
    std::size_t end = begin;
    while (end < types.size() && types[end] == types[begin]) ++end;
    each(types[begin], static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
    begin = end;
  }
}

std::int64_t PackedRows::bytes(std::span<const BlockType> types, std::int64_t cols) {
  std::int64_t runs = 0, blocks = 0;
  for_runs(types, [&](BlockType type, std::int64_t begin, std::int64_t end) {
    ++runs;
    blocks += aligned((end - begin) * row_bytes(type, cols));
  });
  return aligned(kHeader + runs * static_cast<std::int64_t>(sizeof(Run))) + blocks;
}

void PackedRows::lay_out(std::uint8_t* bytes, std::span<const BlockType> types, std::int64_t cols) {
  std::int64_t header[] = {static_cast<std::int64_t>(types.size()), cols, 0};
  for_runs(types, [&](BlockType, std::int64_t, std::int64_t) { ++header[2]; });
  std::memcpy(bytes, header, kHeader);
  std::uint8_t* at = bytes + kHeader;
  std::int64_t offset = aligned(kHeader + header[2] * static_cast<std::int64_t>(sizeof(Run)));
  for_runs(types, [&](BlockType type, std::int64_t begin, std::int64_t end) {
    const Run run{static_cast<std::int64_t>(type), end, offset};
    std::memcpy(at, &run, sizeof run);
    at += sizeof run;
    offset += aligned((end - begin) * row_bytes(type, cols));
  });
}

}  // namespace mt

namespace mt::cpu {
namespace {

using namespace blocks;
using simd::Floats;

constexpr std::int64_t kGroup = 256;
// Rows of x that rows of W meet one after another; Machine::kTogether rows of W read each once.
constexpr int kTogether = 4;
constexpr std::int64_t kTile = 16;  // rows of W, at least, that many rows of x are read once for

// --- Rows of x ----------------------------------------------------------------------------------

// Rounded: a row of x in whole numbers, which are null where all products are with x as it is.
struct Rounded {
  std::int16_t* p;  // [k]
  float* e;         // of each group
  float* sums;      // e sum p, of each part
  const float* x;   // the row itself
};

INLINE void round_group(const Rounded& to, const float* x, std::int64_t count) {
  constexpr float kMost = 32767, kToInteger = 0x1.8p23f, kLeast = 0x1p-100f;
  float most = 0;
  int odd = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float size = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffff);
    most = most < size ? size : most;
    odd |= size <= std::numeric_limits<float>::max() ? 0 : 1;
  }
  const bool none = odd != 0 || most < kLeast;
  const float inverse = none ? 0 : kMost / most;
  *to.e = odd != 0 ? std::numeric_limits<float>::quiet_NaN() : none ? 0 : most / kMost;
  for (std::int64_t part = 0; part < count; part += kPart) {
    int sum = 0;
    for (std::int64_t i = part; i < part + kPart; ++i) {
      const float product = none ? 0 : x[i] * inverse;
      const int p = std::bit_cast<std::int32_t>(product + kToInteger) -
                    std::bit_cast<std::int32_t>(kToInteger);
      to.p[i] = static_cast<std::int16_t>(p);
      sum += p;
    }
    to.sums[part / kPart] = *to.e * static_cast<float>(sum);
  }
}

// Whether the products of any row are with rounded numbers.
bool rounds(const PackedRows& w) {
  return !std::ranges::all_of(
      w.runs(), [](const PackedRows::Run& run) { return run.block_type() == BlockType::e4m3; });
}

class RoundedRows {
 public:
  RoundedRows(const float* x, std::int64_t m, const PackedRows& w)
      : x_(x), k_(w.cols()), groups_((k_ + kGroup - 1) / kGroup) {
    if (!rounds(w)) return;
    const std::int64_t k = k_;
    p_ = std::make_unique_for_overwrite<std::int16_t[]>(static_cast<std::size_t>(m * k));
    scales_ = std::make_unique_for_overwrite<float[]>(
        static_cast<std::size_t>(m * (groups_ + k / kPart)));
    for_blocks(m, rows_per_block(k), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        const Rounded to = row(r);
        for (std::int64_t i = 0; i < k; i += kGroup)
          round_group({to.p + i, to.e + i / kGroup, to.sums + i / kPart, nullptr}, to.x + i,
                      std::min(kGroup, k - i));
      }
    });
  }
  Rounded row(std::int64_t r) const {
    if (!p_) return {nullptr, nullptr, nullptr, x_ + r * k_};
    float* const e = scales_.get() + r * (groups_ + k_ / kPart);
    return {p_.get() + r * k_, e, e + groups_, x_ + r * k_};
  }

 private:
  const float* x_;
  std::int64_t k_, groups_;
  std::unique_ptr<std::int16_t[]> p_;
  std::unique_ptr<float[]> scales_;
};

// --- Products -----------------------------------------------------------------------------------

// The products of kRows rows of E4M3, from a row of the room on, and a row of x.
template <int kRows>
INLINE void multiply_floats(float (&sums)[kRows], const Room& w, std::int64_t row, const float* x,
                            std::int64_t k) {
  constexpr std::int64_t kBlock = form_of(BlockType::e4m3).elements;
  Floats total[kRows] = {};
  for (std::int64_t block = 0; block < k; block += kBlock) {
    Floats sum[kRows] = {};
    for (std::int64_t i = block; i < block + kBlock; i += kLanes) {
      const auto of_x = load_as<Floats>(x + i);
      for (int r = 0; r < kRows; ++r) sum[r] += load_as<Floats>(w.row(row + r).q + 2 * i) * of_x;
    }
    for (int r = 0; r < kRows; ++r) total[r] += sum[r] * w.row(row + r).d[block / kBlock];
  }
  for (int r = 0; r < kRows; ++r) sums[r] = simd::sum_of_lanes(total[r]);
}

// Multiplies blocks of nvfp4, of which each half of a part has its own d.
template <class Machine, int kRows>
INLINE void multiply_halves(float (&sums)[kRows], const Room& w, std::int64_t row, const Rounded& x,
                            std::int64_t k) {
  static_assert(kLanes == 16);
  Expanded rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = w.row(row + r);
  Floats total[kRows] = {};
  for (std::int64_t part = 0; part < k / kPart; ++part) {
    const Shorts p = load(x.p + part * kPart);
    const float e = x.e[part * kPart / kGroup];
    for (int r = 0; r < kRows; ++r) {
      const float a = rows[r].d[2 * part] * e, b = rows[r].d[2 * part + 1] * e;
      const Floats d = {a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b};
      total[r] +=
          __builtin_convertvector(Machine::add(Ints{}, rows[r].q + part * kPart, p), Floats) * d;
    }
  }
  for (int r = 0; r < kRows; ++r) sums[r] = simd::sum_of_lanes(total[r]);
}

// Sets the sums to the products of x with kRows rows of w, which were expanded from blocks of
// kType.
template <class Machine, BlockType kType, int kRows>
INLINE void multiply_rows(float (&sums)[kRows], const Room& w, std::int64_t row, const Rounded& x,
                          std::int64_t k) {
  if constexpr (kType == BlockType::e4m3) return multiply_floats<kRows>(sums, w, row, x.x, k);
  if constexpr (kType == BlockType::nvfp4)
    return multiply_halves<Machine, kRows>(sums, w, row, x, k);
  constexpr std::int64_t kParts = form_of(kType).elements / kPart;
  Expanded rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = w.row(row + r);
  Floats total[kRows] = {};
  for (std::int64_t part = 0; part < k / kPart; part += kParts) {
    Ints sum[kRows] = {};
    for (std::int64_t i = 0; i < kParts; ++i) {
      const Shorts p = load(x.p + (part + i) * kPart);
      for (int r = 0; r < kRows; ++r)
        sum[r] = Machine::add(sum[r], rows[r].q + (part + i) * kPart, p);
    }
    const float e = x.e[part * kPart / kGroup];
    for (int r = 0; r < kRows; ++r)
      total[r] += __builtin_convertvector(sum[r], Floats) * (rows[r].d[part / kParts] * e);
  }
  if constexpr (kHasLeast<kType>)
    for (std::int64_t part = 0; part < k / kPart; part += kLanes) {
      const std::int64_t count = std::min<std::int64_t>(kLanes, k / kPart - part);
      const Floats of_x = simd::load(x.sums + part, count, 0);
      for (int r = 0; r < kRows; ++r) total[r] -= simd::load(rows[r].least + part, count, 0) * of_x;
    }
  for (int r = 0; r < kRows; ++r) sums[r] = simd::sum_of_lanes(total[r]);
}

// Adds the products of each part of a block to a row of x, as they are expanded.
template <class Machine>
struct Multiplied {
  Ints& sum;
  const std::int16_t* p;
  float *d, *least;

  INLINE void put(std::int64_t i, Shorts v) const { sum = Machine::add(sum, v, load(p + i)); }
};

// Types of which multiply_row() is the sooner for one row of x: of whole numbers, but not q6_k.
template <class Machine, BlockType kType>
constexpr bool kMeetsOneRow =
    Machine::kTogether > 1 && !(kType == BlockType::q6_k || kType >= BlockType::e4m3);

// What multiply_rows() sets, of one row of w, whose numbers do not go to memory; room: for the l of
// its parts.
template <class Machine, BlockType kType>
INLINE float multiply_row(const std::uint8_t* blocks, const Rounded& x, float* room,
                          std::int64_t k) {
  constexpr BlockForm kForm = form_of(kType);
  constexpr std::int64_t kParts = kForm.elements / kPart;
  Floats total = {};
  for (std::int64_t part = 0; part < k / kPart; part += kParts, blocks += kForm.bytes) {
    prefetch<kForm.bytes>(blocks);
    Ints sum = {};
    float d;
    expand_block<Machine, kType>(Multiplied<Machine>{sum, x.p + part * kPart, &d, room + part},
                                 blocks);
    total += __builtin_convertvector(sum, Floats) * (d * x.e[part * kPart / kGroup]);
  }
  if constexpr (kHasLeast<kType>)
    for (std::int64_t part = 0; part < k / kPart; part += kLanes) {
      const std::int64_t count = std::min<std::int64_t>(kLanes, k / kPart - part);
      total -= simd::load(room + part, count, 0) * simd::load(x.sums + part, count, 0);
    }
  return Machine::sum_of_lanes(total);
}

// Rows of W, [begin, end), of which `tile` are expanded at a time.
struct Columns {
  const PackedProduct& product;
  const RoundedRows& x;
  std::int64_t begin, end, tile;

  INLINE void set(std::int64_t m, std::int64_t column, float sum) const {
    float& y = product.y[m * product.n + column];
    y = ((product.accumulate ? y : 0) + (product.bias != nullptr ? product.bias[column] : 0)) + sum;
  }
};

// A column of y for each of kRows rows of W, which lie in the room from `row` on, in the rows of y
// from m on, kTogether of these at most.
template <class Machine, BlockType kType, int kRows>
INLINE void some_columns(const Columns& columns, const Room& room, std::int64_t row,
                         std::int64_t column, std::int64_t m, std::int64_t k) {
  for (const std::int64_t end = std::min(columns.product.m, m + kTogether); m < end; ++m) {
    float sums[kRows];
    multiply_rows<Machine, kType, kRows>(sums, room, row, columns.x.row(m), k);
    for (int r = 0; r < kRows; ++r) columns.set(m, column + r, sums[r]);
  }
}

// The columns of y, from `first` on, that `count` consecutive rows of W, of one type, give.
template <class Machine, BlockType kType>
INLINE void multiply_tile(const Columns& columns, const Room& room, const std::uint8_t* blocks,
                          std::int64_t first, std::int64_t count, std::int64_t k) {
  if constexpr (kMeetsOneRow<Machine, kType>)
    if (columns.product.m == 1) {
      for (std::int64_t row = 0; row < count; ++row)
        columns.set(0, first + row,
                    multiply_row<Machine, kType>(blocks + row * PackedRows::row_bytes(kType, k),
                                                 columns.x.row(0), room.row(0).least, k));
      return;
    }
  for (std::int64_t row = 0; row < count; ++row)
    expand_row<Machine, kType>(room.row(row), blocks + row * PackedRows::row_bytes(kType, k), k);
  for (std::int64_t m = 0; m < columns.product.m; m += kTogether) {
    std::int64_t row = 0;
    if constexpr (Machine::kTogether > 1)
      for (; row + Machine::kTogether <= count; row += Machine::kTogether)
        some_columns<Machine, kType, Machine::kTogether>(columns, room, row, first + row, m, k);
    for (; row < count; ++row)
      some_columns<Machine, kType, 1>(columns, room, row, first + row, m, k);
  }
}

// multiply_tile() for each set of instructions and each type.  They are functions of their own, as
// what one function is made of takes more than twice as long to compile where it is twice as much.
template <BlockType kType>
void multiply_with(Plain, const Columns& columns, const Room& room, const std::uint8_t* blocks,
                   std::int64_t first, std::int64_t count, std::int64_t k) {
  multiply_tile<Plain, kType>(columns, room, blocks, first, count, k);
}
#if defined(MT_PACKED_ASM)
template <BlockType kType>
[[gnu::flatten, gnu::target("avx2")]] void multiply_with(Avx2, const Columns& columns,
                                                         const Room& room,
                                                         const std::uint8_t* blocks,
                                                         std::int64_t first, std::int64_t count,
                                                         std::int64_t k) {
  multiply_tile<Avx2, kType>(columns, room, blocks, first, count, k);
}
template <BlockType kType>
[[gnu::flatten, gnu::target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni")]] void multiply_with(
    Vnni, const Columns& columns, const Room& room, const std::uint8_t* blocks, std::int64_t first,
    std::int64_t count, std::int64_t k) {
  multiply_tile<Vnni, kType>(columns, room, blocks, first, count, k);
}
#endif

template <class Machine>
void multiply(const Columns& columns) {
  const PackedRows w(columns.product.w);
  const std::int64_t k = w.cols();
  const Room room(columns.tile, w);
  std::int64_t first = 0;
  for (const PackedRows::Run& run : w.runs()) {
    const std::int64_t begin = std::max(first, columns.begin), end = std::min(run.end, columns.end);
    const std::uint8_t* const blocks = w.blocks(run);
    const std::int64_t row_bytes = w.row_bytes(run), from = std::exchange(first, run.end);
    with_type(run.block_type(), [&]<BlockType kType>() {
      for (std::int64_t row = begin; row < end; row += columns.tile)
        multiply_with<kType>(Machine(), columns, room, blocks + (row - from) * row_bytes, row,
                             std::min(columns.tile, end - row), k);
    });
  }
}

void multiply_here(const Columns& columns) {
#if defined(MT_PACKED_ASM)
  if (isa() == Isa::avx512 && __builtin_cpu_supports("avx512vnni")) return multiply<Vnni>(columns);
  if (isa() != Isa::base) return multiply<Avx2>(columns);
#endif
  multiply<Plain>(columns);
}

// --- Numbers ------------------------------------------------------------------------------------

template <BlockType kType>
INLINE void unpack_row(float* to, const Expanded& room, const std::uint8_t* blocks,
                       std::int64_t k) {
  constexpr std::int64_t kOfScale = form_of(kType).elements / scales_of(kType);
  expand_row<Plain, kType>(room, blocks, k);
  for (std::int64_t i = 0; i < k; ++i) {
    const float d = room.d[i / kOfScale], least = kHasLeast<kType> ? room.least[i / kPart] : 0;
    if constexpr (kType == BlockType::e4m3)
      to[i] = d * load_as<float>(room.q + 2 * i);
    else
      to[i] = d * room.q[i] - least;
  }
}

// Unpacks a row of a run; its callers are not to be larger by as much.
[[gnu::noinline]] void unpack_row(float* to, const Room& room, const PackedRows& packed,
                                  const PackedRows::Run& of, std::int64_t row_of_run) {
  run([&] {
    with_type(
        of.block_type(), [&]<BlockType kType>() __attribute__((always_inline)) {
          unpack_row<kType>(to, room.row(0), packed.blocks(of) + row_of_run * packed.row_bytes(of),
                            packed.cols());
        });
  });
}

}  // namespace

void packed_product(const PackedProduct& problem) {
  const PackedRows w(problem.w);
  const std::int64_t k = w.cols();
  const RoundedRows x(problem.x, problem.m, w);
  const bool many = problem.m > kTogether;
  const std::int64_t few_rows = (problem.m == 1 ? 2 : 1) * kTogether * rows_per_block(k),
                     block = many ? std::max(kTile, few_rows) : few_rows;
  parallel_for((problem.n + block - 1) / block, [&](std::int64_t i) {
    multiply_here(
        {problem, x, i * block, std::min(problem.n, (i + 1) * block), many ? block : kTogether});
  });
}

void unpack_rows(float* y, const std::uint8_t* packed) {
  const PackedRows rows(packed);
  std::int64_t first = 0;
  for (const PackedRows::Run& run : rows.runs()) {
    for_blocks(run.end - first, rows_per_block(rows.cols()),
               [&](std::int64_t begin, std::int64_t end) {
                 const Room room(1, rows);
                 for (std::int64_t r = begin; r < end; ++r)
                   unpack_row(y + (first + r) * rows.cols(), room, rows, run, r);
               });
    first = run.end;
  }
}

void packed_embedding(float* y, const std::int32_t* ids, const std::uint8_t* table,
                      std::int64_t rows, WordRange words) {
  const PackedRows packed(table);
  const std::int64_t cols = packed.cols();
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    const Room room(1, packed);
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t id = ids[r] - words.first;
      if (id < 0 || id >= words.vocab) std::fill_n(y + r * cols, cols, 0.0f);
      std::int64_t first = 0;
      for (const PackedRows::Run& run : packed.runs()) {
        if (id >= first && id < run.end) unpack_row(y + r * cols, room, packed, run, id - first);
        first = run.end;
      }
    }
  });
}

#undef INLINE

}  // namespace mt::cpu
