// kernels/few_rows_feed.cuh: b on its way to where it is multiplied, for few_rows_cuda.cu.
#pragma once

#include "kernels/few_rows.cuh"
#include "kernels/ptx.cuh"

namespace mt::cuda::few {

inline constexpr int kAhead = 6;  // slices of a tile on their way

// What a block multiplies next of b, on its way into shared memory.  A warp copies for itself
// alone, whole lines of 128 bytes: of each slice, its run of the tile's 16 rows (of silu: 8 rows
// and what belongs to them in the second half).  In an odd row the halves of a line change places,
// so that the banks of those that a warp reads together differ.
template <class T, class C>
class Feed {
 public:
  static constexpr std::size_t kBytes = std::size_t{kAhead} * 16 * kSlice * sizeof(T);

  __device__ Feed(const Arguments<T, C>& p, unsigned char* memory)
      : b_(p.b),
        k_(p.k),
        columns_(p.columns),
        second_(p.swiglu ? std::int64_t{p.n / 2 - p.columns.step} * p.k : 0) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    memory += warp * kWarpBytes;
    first_ = warp * kRun + lane % 8 * 8;
    to_ = memory + place_in(lane / 8, lane % 8);
    for (int half = 0; half < 2; ++half)
      from_half_[half] = memory + place_in(lane / 4, lane % 4 + 4 * half);
    begin_pass(0);
  }
  // The oldest slice: [half of the run][row lane / 4 or the eighth behind it], units lane % 4.
  __device__ void take(uint4 (&units)[2][2]) const {
    copies_wait<kAhead - 1>();
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int other = 0; other < 2; ++other)
        units[half][other] =
            *reinterpret_cast<const uint4*>(from_half_[half] + slot_ + other * 8 * kLine);
  }
  // One more slice, in the place of what was taken.
  __device__ void fetch() {
    __syncwarp();
    if (there_ != 0) {
#pragma unroll
      for (int n = 0; n < kCopies; ++n)
        copy_16_bytes_or_zeros(to_ + slot_ + n * 4 * kLine,
                               from_ + n * 4 * k_ + (n < kCopies / 2 ? 0 : second_),
                               x_ < k_ && there_ >> n & 1);
      x_ += kSlice;
      from_ += kSlice;
      if (x_ - first_ >= k_) begin_pass(pass_ + 1);
    }
    copies_commit();
    slot_ = slot_ == (kAhead - 1) * kSlotBytes ? 0 : slot_ + kSlotBytes;
  }

 private:
  static constexpr int kLine = kRun * sizeof(T), kWarpBytes = 16 * kLine;
  static constexpr int kSlotBytes = kWarpBytes * kWarps;
  static constexpr int kCopies = 4;  // of a thread, of a slice: of every fourth row

  __device__ static int place_in(int row, int unit) {
    return row * kLine + (unit ^ row % 2 * 4) * 16;
  }
  __device__ void begin_pass(int pass) {
    const int row = static_cast<int>(threadIdx.x) % 32 / 8, width = columns_.width(pass);
    pass_ = pass;
    x_ = first_;
    from_ = b_ + std::int64_t{columns_.first(pass) + row} * k_ + first_;
    there_ = 0;
    for (int n = 0; n < kCopies; ++n) {
      const int of_tile = row + 4 * n;
      const int of_half = of_tile < columns_.step ? of_tile : of_tile - columns_.step;
      there_ |= (of_half < width ? 1 : 0) << n;
    }
  }

  const T* const b_;
  const int k_;
  const Columns columns_;
  const std::int64_t second_;  // of silu: elements from the first half of a tile to the second
  unsigned char* to_;          // in the first slot
  const unsigned char* from_half_[2];
  const T* from_;
  int x_, first_, pass_, there_, slot_ = 0;  // there_: a bit for each row that is
};

}  // namespace mt::cuda::few
