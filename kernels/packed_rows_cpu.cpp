#include "kernels/packed_rows.h"

#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/loops.h"
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

using simd::Floats;
using simd::Ints;

constexpr std::int64_t kPart = 32, kGroup = 256;
// Rows of W that read a row of x once, and those of x that these meet one after another.
constexpr int kTogether = 4;
constexpr std::int64_t kTile = 16;  // rows of W, at least, that many rows of x are read once for

#define INLINE [[gnu::always_inline]] inline

// --- Blocks -------------------------------------------------------------------------------------

// Without a branch, unlike base/half.h, of a number that is finite.
INLINE float half(const std::uint8_t* at) {
  constexpr std::uint32_t kOne = 1u << 23;  // of an exponent
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fff) << 13;
  // All bits of a denormal: a multiple of 2^-24, beside 2^-14.
  const auto small = static_cast<std::uint32_t>(static_cast<std::int32_t>(magnitude - kOne) >> 31);
  const float number = std::bit_cast<float>(magnitude + 112 * kOne + (small & kOne)) -
                       std::bit_cast<float>(small & std::bit_cast<std::uint32_t>(0x1p-14f));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) |
                              static_cast<std::uint32_t>(bits & 0x8000) << 16);
}

using Shorts [[gnu::vector_size(2 * kPart)]] = std::int16_t;  // of a part
using HalfShorts [[gnu::vector_size(kPart)]] = std::int16_t;

template <class Vector>
INLINE Vector load_as(const auto* at) {
  Vector v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
INLINE Shorts load(const std::int16_t* x) { return load_as<Shorts>(x); }
INLINE void store(std::int16_t* to, Shorts v) { std::memcpy(to, &v, sizeof v); }

INLINE Shorts join(HalfShorts a, HalfShorts b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
                                 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}
INLINE Shorts join(int a, int b) {
  return join(HalfShorts{} + static_cast<std::int16_t>(a),
              HalfShorts{} + static_cast<std::int16_t>(b));
}

using Bytes [[gnu::vector_size(kPart)]] = std::uint8_t;
using SignedBytes [[gnu::vector_size(kPart)]] = std::int8_t;

// What instruction sets do otherwise than the compiler would: bytes of a part as numbers of 16
// bits, and sums of products of pairs of these.
struct Plain {
  INLINE static Shorts wide(const std::uint8_t* at) {
    return __builtin_convertvector(load_as<Bytes>(at), Shorts);
  }
  INLINE static Shorts wide(const std::int8_t* at) {
    return __builtin_convertvector(load_as<SignedBytes>(at), Shorts);
  }
  // The low four bits of 16 bytes, then the high ones.
  INLINE static Shorts halves(const std::uint8_t* at) {
    using HalfBytes [[gnu::vector_size(kPart / 2)]] = std::uint8_t;
    const auto bytes = __builtin_convertvector(load_as<HalfBytes>(at), HalfShorts);
    return join(bytes & 15, bytes >> 4);
  }
  INLINE static Ints add(Ints sums, const std::int16_t* w, Shorts p) {
    for (int i = 0; i < kLanes; ++i) sums[i] += w[2 * i] * p[2 * i] + w[2 * i + 1] * p[2 * i + 1];
    return sums;
  }
};

#if defined(__x86_64__)
struct Avx2 : Plain {
  INLINE static Ints add(Ints sums, const std::int16_t* w, Shorts p) {
    HalfShorts halves[2];
    std::memcpy(halves, &p, sizeof p);
    for (int i = 0; i < 2; ++i)
      asm("vpmaddwd %1, %0, %0" : "+x"(halves[i]) : "x"(load_as<HalfShorts>(w + 16 * i)));
    return sums + load_as<Ints>(halves);
  }
};

struct Vnni {
  INLINE static Shorts wide(const std::uint8_t* at) {
    Shorts v;
    asm("vpmovzxbw %1, %0" : "=v"(v) : "m"(*reinterpret_cast<const std::uint8_t(*)[kPart]>(at)));
    return v;
  }
  INLINE static Shorts wide(const std::int8_t* at) {
    Shorts v;
    asm("vpmovsxbw %1, %0" : "=v"(v) : "m"(*reinterpret_cast<const std::int8_t(*)[kPart]>(at)));
    return v;
  }
  INLINE static Shorts halves(const std::uint8_t* at) {
    HalfShorts bytes, high;
    Shorts v;
    asm("vpmovzxbw %1, %0"
        : "=v"(bytes)
        : "m"(*reinterpret_cast<const std::uint8_t(*)[kPart / 2]>(at)));
    asm("vpsrlw $4, %1, %0" : "=v"(high) : "v"(bytes));
    asm("vinserti64x4 $1, %2, %g1, %0" : "=v"(v) : "v"(bytes), "v"(high));
    return v & 15;
  }
  INLINE static Ints add(Ints sums, const std::int16_t* w, Shorts p) {  // without saturation
    asm("vpdpwssd %1, %2, %0"
        : "+v"(sums)
        : "m"(*reinterpret_cast<const std::int16_t(*)[kPart]>(w)), "v"(p));
    return sums;
  }
};
#endif

// Expanded: what the blocks of a row are made of.
struct Expanded {
  std::int16_t* q;  // [k]
  float* d;         // of each block
  float* least;     // of each part, where the type has one
};

// Of q4_0, q4_1, q5_0 and q5_1.
template <class Machine, bool kFive, bool kLeast>
INLINE void expand_short(const Expanded& to, const std::uint8_t* block) {
  constexpr Shorts kBits = {1,    2,    4,    8,     16,     32,   64,   128,  256,   512,   1024,
                            2048, 4096, 8192, 16384, -32768, 1,    2,    4,    8,     16,    32,
                            64,   128,  256,  512,   1024,   2048, 4096, 8192, 16384, -32768};
  constexpr std::int16_t kMiddle = kLeast ? 0 : kFive ? 16 : 8;
  *to.d = half(block);
  if constexpr (kLeast) *to.least = -half(block + 2);
  block += kLeast ? 4 : 2;
  const std::uint8_t* const low = block + (kFive ? 4 : 0);
  Shorts q = Machine::halves(low);
  if constexpr (kFive) {
    std::int16_t high[2];
    std::memcpy(high, block, sizeof high);
    q |= ((join(high[0], high[1]) & kBits) != 0) & 16;
  }
  store(to.q, q - kMiddle);
}

template <class Machine>
INLINE void expand_q8_0(const Expanded& to, const std::uint8_t* block) {
  *to.d = half(block);
  store(to.q, Machine::wide(reinterpret_cast<const std::int8_t*>(block + 2)));
}

// Six bits each of the scales and then of the leasts of eight parts, from twelve bytes.
INLINE void unpack_scales(std::uint8_t* scales, const std::uint8_t* bytes) {
  constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
  std::uint32_t in[3], out[4];
  std::memcpy(in, bytes, sizeof in);
  out[0] = in[0] & kSix;
  out[1] = (in[2] & kFour) | (in[0] >> 6 & kTwo) << 4;
  out[2] = in[1] & kSix;
  out[3] = (in[2] >> 4 & kFour) | (in[1] >> 6 & kTwo) << 4;
  std::memcpy(scales, out, sizeof out);
}

template <class Machine, bool kFive>
INLINE void expand_q4_k_or_q5_k(const Expanded& to, const std::uint8_t* block) {
  *to.d = half(block);
  const float m = half(block + 2);
  std::uint8_t scales[16];
  unpack_scales(scales, block + 4);
  for (int j = 0; j < 8; ++j) to.least[j] = m * scales[8 + j];
  const auto scale = [&](int part) __attribute__((always_inline)) {
    return static_cast<std::int16_t>(scales[part]);
  };
  const std::uint8_t* const low = block + 16 + (kFive ? 32 : 0);
  const Shorts high = kFive ? Machine::wide(block + 16) : Shorts{};
  for (int c = 0; c < 4; ++c) {
    const Shorts bytes = Machine::wide(low + 32 * c);
    Shorts first = bytes & 15, second = bytes >> 4;
    if constexpr (kFive) {
      first |= (high >> 2 * c & 1) << 4;
      second |= (high >> (2 * c + 1) & 1) << 4;
    }
    store(to.q + 64 * c, first * scale(2 * c));
    store(to.q + 64 * c + 32, second * scale(2 * c + 1));
  }
}

template <class Machine>
INLINE void expand_q6_k(const Expanded& to, const std::uint8_t* block) {
  *to.d = half(block + 208);
  const auto* const scales = reinterpret_cast<const std::int8_t*>(block + 192);
  for (int h = 0; h < 2; ++h) {
    const Shorts high = Machine::wide(block + 128 + 32 * h);
    for (int part = 0; part < 4; ++part) {
      const Shorts bytes = Machine::wide(block + 64 * h + 32 * (part % 2));
      const Shorts q = (part < 2 ? bytes & 15 : bytes >> 4) | (high >> 2 * part & 3) << 4;
      const std::int8_t* const scale = scales + 8 * h + 2 * part;
      store(to.q + 128 * h + 32 * part, (q - 32) * join(scale[0], scale[1]));
    }
  }
}

template <BlockType kType>
constexpr bool kHasLeast = kType == BlockType::q4_1 || kType == BlockType::q5_1 ||
                           kType == BlockType::q4_k || kType == BlockType::q5_k;

template <class Machine, BlockType kType>
INLINE void expand_block(const Expanded& to, const std::uint8_t* block) {
  if constexpr (kType == BlockType::q4_0) expand_short<Machine, false, false>(to, block);
  if constexpr (kType == BlockType::q4_1) expand_short<Machine, false, true>(to, block);
  if constexpr (kType == BlockType::q5_0) expand_short<Machine, true, false>(to, block);
  if constexpr (kType == BlockType::q5_1) expand_short<Machine, true, true>(to, block);
  if constexpr (kType == BlockType::q8_0) expand_q8_0<Machine>(to, block);
  if constexpr (kType == BlockType::q4_k) expand_q4_k_or_q5_k<Machine, false>(to, block);
  if constexpr (kType == BlockType::q5_k) expand_q4_k_or_q5_k<Machine, true>(to, block);
  if constexpr (kType == BlockType::q6_k) expand_q6_k<Machine>(to, block);
}

template <class Machine, BlockType kType>
INLINE void expand_row(Expanded to, const std::uint8_t* blocks, std::int64_t k) {
  constexpr BlockForm kForm = form_of(kType);
  for (std::int64_t i = 0; i < k; i += kForm.elements) {
    __builtin_prefetch(blocks + 2048);
    if (kForm.bytes > 64) __builtin_prefetch(blocks + 2112);
    if (kForm.bytes > 128) __builtin_prefetch(blocks + 2176);
    expand_block<Machine, kType>(to, blocks);
    blocks += kForm.bytes;
    to.q += kForm.elements;
    ++to.d;
    to.least += kForm.elements / kPart;
  }
}

// body.operator()<type>() of a run's type.
template <class Body>
INLINE void with_type(BlockType type, const Body& body) {
  switch (type) {
    case BlockType::q4_0:
      return body.template operator()<BlockType::q4_0>();
    case BlockType::q4_1:
      return body.template operator()<BlockType::q4_1>();
    case BlockType::q5_0:
      return body.template operator()<BlockType::q5_0>();
    case BlockType::q5_1:
      return body.template operator()<BlockType::q5_1>();
    case BlockType::q8_0:
      return body.template operator()<BlockType::q8_0>();
    case BlockType::q4_k:
      return body.template operator()<BlockType::q4_k>();
    case BlockType::q5_k:
      return body.template operator()<BlockType::q5_k>();
    case BlockType::q6_k:
      return body.template operator()<BlockType::q6_k>();
  }
}

// Room for the parts of some rows.
class Room {
 public:
  Room(std::int64_t rows, std::int64_t k)
      : k_(k),
        q_(std::make_unique_for_overwrite<std::int16_t[]>(static_cast<std::size_t>(rows * k))),
        scales_(std::make_unique_for_overwrite<float[]>(
            static_cast<std::size_t>(2 * rows * (k / kPart)))) {}
  Expanded row(std::int64_t i) const {
    float* const scales = scales_.get() + 2 * i * (k_ / kPart);
    return {q_.get() + i * k_, scales, scales + k_ / kPart};
  }

 private:
  std::int64_t k_;
  std::unique_ptr<std::int16_t[]> q_;
  std::unique_ptr<float[]> scales_;
};

// --- Rows of x ----------------------------------------------------------------------------------

// Rounded: a row of x in whole numbers.
struct Rounded {
  std::int16_t* p;  // [k]
  float* e;         // of each group
  float* sums;      // e sum p, of each part
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

class RoundedRows {
 public:
  RoundedRows(const float* x, std::int64_t m, std::int64_t k)
      : k_(k),
        groups_((k + kGroup - 1) / kGroup),
        p_(std::make_unique_for_overwrite<std::int16_t[]>(static_cast<std::size_t>(m * k))),
        scales_(std::make_unique_for_overwrite<float[]>(
            static_cast<std::size_t>(m * (groups_ + k / kPart)))) {
    for_blocks(m, rows_per_block(k), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        const Rounded to = row(r);
        for (std::int64_t i = 0; i < k; i += kGroup)
          round_group({to.p + i, to.e + i / kGroup, to.sums + i / kPart}, x + r * k + i,
                      std::min(kGroup, k - i));
      }
    });
  }
  Rounded row(std::int64_t r) const {
    float* const e = scales_.get() + r * (groups_ + k_ / kPart);
    return {p_.get() + r * k_, e, e + groups_};
  }

 private:
  std::int64_t k_, groups_;
  std::unique_ptr<std::int16_t[]> p_;
  std::unique_ptr<float[]> scales_;
};

// --- Products -----------------------------------------------------------------------------------

// The products of kRows rows of W, from a row of the room on, and a row of x.
template <class Machine, BlockType kType, int kRows>
INLINE void multiply_rows(float (&sums)[kRows], const Room& w, std::int64_t row, const Rounded& x,
                          std::int64_t k) {
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

// Rows of W, [begin, end), of which `tile` are expanded at a time.
struct Columns {
  const PackedProduct& product;
  const RoundedRows& x;
  std::int64_t begin, end, tile;
};

// A column of y for each of kRows rows of W, which lie in the room from `row` on, in the rows of y
// from m on, kTogether of these at most.
template <class Machine, BlockType kType, int kRows>
INLINE void some_columns(const Columns& columns, const Room& room, std::int64_t row,
                         std::int64_t column, std::int64_t m, std::int64_t k) {
  const PackedProduct& p = columns.product;
  for (const std::int64_t end = std::min(p.m, m + kTogether); m < end; ++m) {
    float sums[kRows];
    multiply_rows<Machine, kType, kRows>(sums, room, row, columns.x.row(m), k);
    for (int r = 0; r < kRows; ++r) {
      float& y = p.y[m * p.n + column + r];
      y = ((p.accumulate ? y : 0) + (p.bias != nullptr ? p.bias[column + r] : 0)) + sums[r];
    }
  }
}

// The columns of y, from `first` on, that `count` consecutive rows of W, of one type, give.
template <class Machine, BlockType kType>
INLINE void multiply_tile(const Columns& columns, const Room& room, const std::uint8_t* blocks,
                          std::int64_t first, std::int64_t count, std::int64_t k) {
  for (std::int64_t row = 0; row < count; ++row)
    expand_row<Machine, kType>(room.row(row), blocks + row * PackedRows::row_bytes(kType, k), k);
  for (std::int64_t m = 0; m < columns.product.m; m += kTogether) {
    std::int64_t row = 0;
    for (; row + kTogether <= count; row += kTogether)
      some_columns<Machine, kType, kTogether>(columns, room, row, first + row, m, k);
    for (; row < count; ++row)
      some_columns<Machine, kType, 1>(columns, room, row, first + row, m, k);
  }
}

template <class Machine>
INLINE void multiply(const Columns& columns) {
  const PackedRows w(columns.product.w);
  const std::int64_t k = w.cols();
  const Room room(columns.tile, k);
  std::int64_t first = 0;
  for (const PackedRows::Run& run : w.runs()) {
    const std::int64_t begin = std::max(first, columns.begin), end = std::min(run.end, columns.end);
    const std::uint8_t* const blocks = w.blocks(run);
    const std::int64_t row_bytes = w.row_bytes(run), from = std::exchange(first, run.end);
    with_type(
        run.block_type(), [&]<BlockType kType>() __attribute__((always_inline)) {
          for (std::int64_t row = begin; row < end; row += columns.tile)
            multiply_tile<Machine, kType>(columns, room, blocks + (row - from) * row_bytes, row,
                                          std::min(columns.tile, end - row), k);
        });
  }
}

#if defined(__x86_64__)
[[gnu::flatten, gnu::target("avx2")]] void multiply_avx2(const Columns& columns) {
  multiply<Avx2>(columns);
}
[[gnu::flatten, gnu::target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni")]] void multiply_vnni(
    const Columns& columns) {
  multiply<Vnni>(columns);
}
#endif

void multiply_here(const Columns& columns) {
#if defined(__x86_64__)
  if (isa() == Isa::avx512 && __builtin_cpu_supports("avx512vnni")) return multiply_vnni(columns);
  if (isa() != Isa::base) return multiply_avx2(columns);
#endif
  multiply<Plain>(columns);
}

// --- Numbers ------------------------------------------------------------------------------------

template <BlockType kType>
INLINE void unpack_row(float* to, const Expanded& room, const std::uint8_t* blocks,
                       std::int64_t k) {
  expand_row<Plain, kType>(room, blocks, k);
  for (std::int64_t part = 0; part < k / kPart; ++part) {
    const float d = room.d[part * kPart / form_of(kType).elements],
                least = kHasLeast<kType> ? room.least[part] : 0;
    for (std::int64_t i = part * kPart; i < (part + 1) * kPart; ++i) to[i] = d * room.q[i] - least;
  }
}

INLINE void unpack_row(float* to, const Room& room, const PackedRows& packed,
                       const PackedRows::Run& run, std::int64_t row_of_run) {
  with_type(
      run.block_type(), [&]<BlockType kType>() __attribute__((always_inline)) {
        unpack_row<kType>(to, room.row(0), packed.blocks(run) + row_of_run * packed.row_bytes(run),
                          packed.cols());
      });
}

}  // namespace

void packed_product(const PackedProduct& problem) {
  const std::int64_t k = PackedRows(problem.w).cols();
  const RoundedRows x(problem.x, problem.m, k);
  const bool many = problem.m > kTogether;
  const std::int64_t few_rows = kTogether * rows_per_block(k),
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
                 const Room room(1, rows.cols());
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
    const Room room(1, cols);
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
