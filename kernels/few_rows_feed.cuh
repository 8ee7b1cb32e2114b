// kernels/few_rows_feed.cuh: b on its way to where it is multiplied, for few_rows_cuda.cu.
#pragma once

#include "kernels/few_rows.cuh"
#include "kernels/ptx.cuh"

namespace mt::cuda::few {

inline constexpr int kAhead = 6;  // slices of a tile on their way

// What a block multiplies next of b, on its way into shared memory.  A warp copies for itself
// alone, whole lines of 128 bytes: of each slice, its run of the tile's 16 rows (of silu: 8 rows
// and what belongs to them in the second half).
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
    for (int n = 0; n < 2; ++n) to_[n] = memory + place_in(lane / 8 + 4 * n, lane % 8);
    from_line_ = memory + lane % 16 * kLine;
    unit_ = (lane / 16 ^ lane % 8) * 16;
    begin_pass(0);
  }
  // The oldest slice: each 16 elements of the run, of the tile's 16 rows, as mma() takes them.
  __device__ void take(std::uint32_t (&y)[4][4]) const {
    copies_wait<kAhead - 1>();
    __syncwarp();
#pragma unroll
    for (int n = 0; n < 4; ++n) load_matrices(y[n], from_line_ + slot_ + (unit_ ^ n * 32));
  }
  // One more slice, in the place of what was taken.
  __device__ void fetch() {
    __syncwarp();
    if (there_ != 0) {
#pragma unroll
      for (int n = 0; n < kCopies; ++n)
        copy_16_bytes_or_zeros(to_[n % 2] + slot_ + n / 2 * 8 * kLine,
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
  static constexpr int kWarpBytes = 16 * kLine;
  static constexpr int kSlotBytes = kWarpBytes * kWarps;
  static constexpr int kCopies = 4;  // of a thread, of a slice: of every fourth row

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
  unsigned char* to_[2];       // in the first slot
  const unsigned char* from_line_;
  int unit_;  // bytes into a line
  const T* from_;
  int x_, first_, pass_, there_, slot_ = 0;  // there_: a bit for each row that is
};

}  // namespace mt::cuda::few
