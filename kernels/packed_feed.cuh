// kernels/packed_feed.cuh: which tiles a block of packed_few_rows.cuh takes, and their pieces on
// their way into its shared memory.
#pragma once

#include <algorithm>

#include "kernels/few_rows.cuh"
#include "kernels/packed_tiles.h"
#include "kernels/ptx.cuh"

namespace mt::cuda::few {

inline constexpr int kPieces = kWarps;              // of a slice
inline constexpr std::size_t kMostRing = 60 << 10;  // bytes of pieces on their way, where two fit

// Which tiles a block takes: of swiglu, one of each half; else two next to one another, or in the
// last pass one if that does.
struct TilePasses {
  int tiles, full, last_step;
  bool swiglu;

  TilePasses(std::int64_t count, bool of_swiglu, int blocks)
      : tiles(static_cast<int>(of_swiglu ? count / 2 : count)), swiglu(of_swiglu) {
    full = tiles / (step() * blocks);
    last_step = of_swiglu || tiles - full * step() * blocks <= blocks ? 1 : 2;
  }
  // How many passes a block has.
  __device__ int count() const {
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    return full + (step() * full * blocks + block * last_step < tiles ? 1 : 0);
  }
  // The two of a pass that it has; -1: there is no second one.
  struct Two {
    int one, two;
  };
  __device__ Two of(int pass) const {
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    const int width = pass < full ? step() : last_step;
    const int one = step() * (pass < full ? pass : full) * blocks + width * block;
    return {one, swiglu ? one + tiles : width == 2 && one + 1 < tiles ? one + 1 : -1};
  }

 private:
  __host__ __device__ int step() const { return swiglu ? 1 : 2; }
};

template <class T, class C>
struct PackedArguments {
  Arguments<T, C> p;
  const std::uint8_t* pieces;
  const std::int32_t* table;  // null where rows of tiles are behind one another
  int pieces_of_tile;
  bool whole;  // all of x is held
  TilePasses passes;
};

template <BlockType kType>
constexpr int kRing = std::max(2, static_cast<int>(kMostRing) /
                                      (2 * kPieces * tile_form(kType).piece_bytes()));

// Pieces on their way into shared memory: a warp copies for itself alone.
template <BlockType kType, class T, class C>
class PackedFeed {
 public:
  static constexpr int kBytes = tile_form(kType).piece_bytes(), kSlot = 2 * kBytes;
  static constexpr std::size_t kAllBytes = std::size_t{kRing<kType>} * kPieces * kSlot;

  __device__ PackedFeed(const PackedArguments<T, C>& p, unsigned char* memory, bool in_pairs)
      : p_(p),
        memory_(memory + threadIdx.x / 32 * (kRing<kType> * kSlot)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        passes_(p.passes.count()),
        in_pairs_(in_pairs) {
    begin(first_piece());
  }
  // The oldest two pieces.
  __device__ const unsigned char* take() const {
    copies_wait<kRing<kType> - 1>();
    __syncwarp();
    return memory_ + slot_;
  }
  // Two more, in the place of what was taken.
  __device__ void fetch() {
    __syncwarp();
    if (pass_ < passes_) {
      if (piece_ < p_.pieces_of_tile) {
        copy(memory_ + slot_, one_);
        if (two_ != 0) copy(memory_ + slot_ + kBytes, one_ + two_);
      }
      if (in_pairs_)
        advance_in_pair();
      else
        advance();
    }
    copies_commit();
    slot_ = slot_ == (kRing<kType> - 1) * kSlot ? 0 : slot_ + kSlot;
  }

 private:
  __device__ int first_piece() const { return static_cast<int>(threadIdx.x) / 32; }
  __device__ void copy(unsigned char* to, const std::uint8_t* from) const {
#pragma unroll
    for (int n = 0; n < kBytes; n += 512)
      if (n + 512 <= kBytes || n + lane_ * 16 < kBytes)
        copy_16_bytes(to + n + lane_ * 16, from + n + lane_ * 16);
  }
  __device__ void advance() {
    piece_ += kPieces;
    one_ += kPieces * kBytes;
    if (piece_ - first_piece() >= p_.pieces_of_tile && ++pass_ < passes_) begin(first_piece());
  }
  // Two passes' pieces by turns.
  __device__ void advance_in_pair() {
    int piece = piece_;
    if (pass_ % 2 == 0 && pass_ + 1 < passes_) {
      ++pass_;
    } else {
      pass_ -= pass_ % 2;
      piece += kPieces;
      if (piece - first_piece() >= p_.pieces_of_tile) pass_ += 2, piece = first_piece();
    }
    if (pass_ < passes_) begin(piece);
  }
  // A pass, at a piece.
  __device__ void begin(int piece) {
    piece_ = piece;
    const TilePasses::Two tiles = p_.passes.of(pass_);
    const int of_tile = p_.pieces_of_tile * kBytes;
    one_ = p_.pieces + std::int64_t{tiles.one} * of_tile + piece_ * kBytes;
    two_ = tiles.two < 0 ? 0 : std::int64_t{tiles.two - tiles.one} * of_tile;
  }

  const PackedArguments<T, C>& p_;
  unsigned char* const memory_;
  const int lane_, passes_;
  const bool in_pairs_;
  const std::uint8_t* one_;
  std::int64_t two_;  // bytes from the first tile's to the second's; 0: there is none
  int pass_ = 0, piece_, slot_ = 0;
};

}  // namespace mt::cuda::few
