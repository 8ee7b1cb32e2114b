// The forward on matrix units.
#include "kernels/chunk_scan_hopper.cuh"

namespace mt::cuda::scan::hopper {
namespace {

// What heads have of tokens.  A block for each chunk and kHeads heads.
__global__ __launch_bounds__(kThreads) void steps_kernel(const HopperScan in, int blocks_of_heads) {
  __shared__ WarpSums shared;
  const MambaShape& s = in.s;
  const Chunk k = in.chunk(blockIdx.x / blocks_of_heads);
  const std::int64_t head = blockIdx.x % blocks_of_heads * kHeads + lane();
  const bool there = head < s.heads;
  const float decay = there ? in.decay(head) : 0;
  const int begin = static_cast<int>(threadIdx.x) / 32 * kOfWarp;
  float dt[kOfWarp], sum = 0, last;
#pragma unroll
  for (int i = 0; i < kOfWarp; ++i) {
    dt[i] = 0;
    if (!there || begin + i >= k.size) continue;
    const float raw = in.raw(k.token(begin + i, s), head);
    dt[i] = fmaxf(raw, 0) + log1pf(expf(-fabsf(raw)));
    sum += dt[i] * decay;
  }
  float a = shared.before(sum, last);
  if (!there) return;
  HeadTokens& of = in.of(k, head);
  const std::int64_t seen = k.first(k.size - 1);
  float sums[kOfWarp], before[kOfWarp], end[kOfWarp];
#pragma unroll
  for (int i = 0; i < kOfWarp; ++i) {
    const int t = begin + i;
    sums[i] = a += dt[i] * decay;
    before[i] = t < k.size && k.sees_before(t) ? expf(a) : 0;
    end[i] = t < k.size && t >= seen ? expf(last - a) : 0;
  }
#pragma unroll
  for (int i = 0; i < kOfWarp; i += 4) {
    const auto put = [&](float(&to)[kRows], const float(&from)[kOfWarp]) {
      *reinterpret_cast<float4*>(&to[begin + i]) =
          make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
    };
    put(of.a, sums);
    put(of.dt, dt);
    put(of.from_before, before);
    put(of.to_end, end);
  }
}

struct Pairs {
  StateTile b, c;
};

// C B^T of each chunk and group.
__global__ __launch_bounds__(kThreads) void pairs_kernel(const HopperScan in) {
  extern __shared__ __align__(16) unsigned char bytes[];
  Pairs& shared = *reinterpret_cast<Pairs*>(bytes);
  const MambaShape& s = in.s;
  const Chunk k = in.chunk(blockIdx.x / s.groups);
  const std::int64_t group = blockIdx.x % s.groups;
  const bf16* const row = in.mixed + k.token(0, s) * s.mixed() + group * s.state_dim;
  load_tile<kStates>(shared.b, row + s.b_of_mixed(), s.mixed(), static_cast<int>(k.size));
  load_tile<kStates>(shared.c, row + s.c_of_mixed(), s.mixed(), static_cast<int>(k.size));
  copies_commit();
  copies_wait();
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t c[kStates / 16][4];
  load_rows<kOfStates, kStates>(c, shared.c[warp * 16]);
  for (int tile = 0; tile <= warp; ++tile) {
    float sums[8] = {};
    multiply_tile<kOfStates, kStates>(sums, c, shared.b[tile * 16]);
    for_elements<16>(warp * 16, tile * 16, [&](int i, int row_of, int column) {
      if (i % 2 == 0)
        *reinterpret_cast<float2*>(in.pair_row(k, group, row_of) + column) =
            make_float2(sums[i], sums[i + 1]);
    });
  }
}

struct States {
  ChannelTile x;
  StateTile b;
  float factor[kRows];
};

// What a chunk adds to the state behind it, or to the gradient of the one before it.
__global__ __launch_bounds__(kThreads, 2) void states_kernel(const HopperScan in,
                                                             const StateSums of) {
  extern __shared__ __align__(16) unsigned char bytes[];
  States& shared = *reinterpret_cast<States*>(bytes);
  const MambaShape& s = in.s;
  const Chunk k = in.chunk(blockIdx.x / s.heads);
  const std::int64_t head = blockIdx.x % s.heads, token = k.token(0, s);
  load_tile<kChannels>(shared.x, of.rows + token * of.row + head * kChannels, of.row,
                       static_cast<int>(k.size));
  load_tile<kStates>(shared.b, in.mixed + token * s.mixed() + of.column + in.group(head) * kStates,
                     s.mixed(), static_cast<int>(k.size));
  copies_commit();
  const HeadTokens& tokens = in.of(k, head);
  for (int j = static_cast<int>(threadIdx.x); j < kRows; j += kThreads)
    shared.factor[j] = of.backward ? tokens.from_before[j] : tokens.to_end[j] * tokens.dt[j];
  copies_wait();
  __syncthreads();
  // A warp has 16 channels and half of the elements.
  const int warp = static_cast<int>(threadIdx.x) / 32, channel = warp % 4 * 16,
            element = warp / 4 * 64;
  float sums[32] = {};
  const bf16* const x = &shared.x[lane() / 16 * 8 + lane() % 8][channel + lane() / 8 % 2 * 8];
  const bf16* const b = &shared.b[lane() % 16][element + lane() / 16 * 8];
#pragma unroll 2
  for (int j = 0; j < kRows; j += 16) {
    std::uint32_t pairs[4], high[4], low[4];
    load_transposed(pairs, x + j * kOfChannels);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const float2 factor =
          *reinterpret_cast<const float2*>(&shared.factor[j + m / 2 * 8 + lane() % 4 * 2]);
      const float scaled[2] = {__uint_as_float(pairs[m] << 16) * factor.x,
                               __uint_as_float(pairs[m] & 0xffff0000u) * factor.y};
      const Residue<2> rest(scaled);
      high[m] = pack_pair<bf16>(scaled[0], scaled[1]);
      low[m] = pack_pair<bf16>(rest.left[0], rest.left[1]);
    }
#pragma unroll
    for (int n = 0; n < 64; n += 16) {
      std::uint32_t right[4];
      load_transposed(right, b + j * kOfStates + n);
      mma<bf16>(sums + n / 2, high, right[0], right[1]);
      mma<bf16>(sums + n / 2 + 4, high, right[2], right[3]);
      mma<bf16>(sums + n / 2, low, right[0], right[1]);
      mma<bf16>(sums + n / 2 + 4, low, right[2], right[3]);
    }
  }
  float* const to = of.sums + (k.number * s.heads + head) * s.state();
  for_elements<64>(channel, element, [&](int i, int p, int n) {
    if (i % 2 == 0)
      *reinterpret_cast<float2*>(to + p * kStates + n) = make_float2(sums[i], sums[i + 1]);
  });
}

// A thread for each four elements of each sequence's states.
__global__ __launch_bounds__(kThreads) void pass_kernel(const HopperScan in,
                                                        const ScanEnds<float> ends) {
  const MambaShape& s = in.s;
  const std::int64_t of_sequence = s.heads * s.state() / 4, at = thread_number() % of_sequence,
                     sequence = thread_number() / of_sequence, head = at * 4 / s.state();
  if (sequence >= s.sequences) return;
  const bool had = ends.before && !ends.slots.begins(sequence, s.length);
  const std::int64_t slot = ends.slots.of(sequence) * of_sequence + at;
  float4 state = had ? reinterpret_cast<const float4*>(ends.before)[slot] : float4{};
  state =
      pass(reinterpret_cast<float4*>(in.states), state, in, of_sequence, at, sequence, head, false);
  if (ends.after) reinterpret_cast<float4*>(ends.after)[slot] = state;
}

struct Output {
  ChannelTile x;
  StateTile c;
  SplitState state;
  OfTokens tokens;
};

constexpr int kPairsAhead = 2;  // tiles of pairs on their way

// y of a chunk and head; a warp has 16 tokens.
__global__ __launch_bounds__(kThreads, 2) void output_kernel(bf16* y, const HopperScan in) {
  extern __shared__ __align__(16) unsigned char bytes[];
  Output& shared = *reinterpret_cast<Output*>(bytes);
  const MambaShape& s = in.s;
  const Chunk k = in.chunk(blockIdx.x / s.heads);
  const std::int64_t head = blockIdx.x % s.heads, token = k.token(0, s), group = in.group(head);
  const bf16* const row = in.mixed + token * s.mixed();
  const int size = static_cast<int>(k.size);
  load_tile<kChannels>(shared.x, row + head * kChannels, s.mixed(), size);
  load_tile<kStates>(shared.c, row + s.c_of_mixed() + group * kStates, s.mixed(), size);
  shared.tokens.load(in, k, head);
  copies_commit();
  shared.tokens.load_first(k);
  const int warp = static_cast<int>(threadIdx.x) / 32, begin = warp * 16;
  float pairs[kPairsAhead][8];
  const auto fetch = [&](int tile) {
    if (tile > warp) return;
    for_elements<16>(begin, tile * 16, [&](int n, int i, int j) {
      if (n % 2 != 0) return;
      const float2 two = *reinterpret_cast<const float2*>(in.pair_row(k, group, i) + j);
      pairs[tile % kPairsAhead][n] = two.x;
      pairs[tile % kPairsAhead][n + 1] = two.y;
    });
  };
#pragma unroll
  for (int tile = 0; tile < kPairsAhead; ++tile) fetch(tile);
  load_state(shared.state, in.state(k, head));
  copies_wait();
  __syncthreads();
  const OfTokens& tokens = shared.tokens;
  float sums[kChannels / 2] = {};
  multiply_rows<kStates, kChannels>(sums, shared.c[begin], shared.state.high[0]);
  multiply_rows<kStates, kChannels>(sums, shared.c[begin], shared.state.low[0]);
  for_elements<kChannels>(begin, 0, [&](int i, int t, int) { sums[i] *= tokens.from_before[t]; });
#pragma unroll
  for (int tile = 0; tile < kWarps; ++tile) {
    if (tile > warp) break;
    float factors[8];
    for_elements<16>(begin, tile * 16, [&](int n, int i, int j) {
      factors[n] = pairs[tile % kPairsAhead][n] * (tokens.passed(i, j) * tokens.dt[j]);
    });
    fetch(tile + kPairsAhead);
    multiply_split<kOfChannels, kChannels>(sums, factors, shared.x[tile * 16]);
  }
  const float skip = to_float(in.weights.d[head]);
  for_elements<kChannels>(begin, 0, [&](int n, int i, int p) {
    if (n % 2 != 0 || i >= size) return;
    const float x0 = to_float(shared.x[i][p]), x1 = to_float(shared.x[i][p + 1]);
    *reinterpret_cast<std::uint32_t*>(y + (token + i) * s.inner() + head * kChannels + p) =
        pack_pair<bf16>(sums[n] + skip * x0, sums[n + 1] + skip * x1);
  });
}

}  // namespace

void sum_states(const HopperScan& in, const StateSums& of, cudaStream_t stream) {
  launch<States>(states_kernel, all_chunks(in.s) * in.s.heads, stream, in, of);
}

void find_states(const HopperScan& in, const ScanEnds<float>& ends, cudaStream_t stream) {
  const MambaShape& s = in.s;
  const auto blocks_of_heads = static_cast<int>(ceil_div(s.heads, kHeads));
  steps_kernel<<<static_cast<unsigned>(all_chunks(s) * blocks_of_heads), kThreads, 0, stream>>>(
      in, blocks_of_heads);
  launch<Pairs>(pairs_kernel, all_chunks(s) * s.groups, stream, in);
  sum_states(in, {.rows = in.mixed, .row = s.mixed(), .column = s.b_of_mixed(), .sums = in.states},
             stream);
  pass_kernel<<<blocks_for(s.sequences * s.heads * s.state() / 4), kThreads, 0, stream>>>(in, ends);
  check(cudaGetLastError());
}

std::size_t forward_work(const MambaShape& s) {
  if (!fit(s)) return 0;
  Tables tables(nullptr);
  HopperScan in{};
  in.s = with_chunks(s);
  take(in, tables);
  return tables.bytes();
}

void forward(bf16* y, const Scan<bf16>& of, const ScanEnds<float>& ends, void* work,
             cudaStream_t stream) {
  HopperScan in{of};
  in.s = with_chunks(of.s);
  Tables tables(work);
  take(in, tables);
  find_states(in, ends, stream);
  launch<Output>(output_kernel, all_chunks(in.s) * in.s.heads, stream, y, in);
}

}  // namespace mt::cuda::scan::hopper
