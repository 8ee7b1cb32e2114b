// The forward on matrix units: where heads fill the GPU, a block goes through a sequence with one
// of them; else each chunk has blocks of its own, which read what one block for half a head's
// states has carried from chunk to chunk.  The backward has its states by the latter way.
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

constexpr int kHalf = kStates / 2;  // elements of a block that carries states

struct CarryStage {
  ChannelTile x, b;
  HeadTokens tokens;
};
struct Carry {
  CarryStage stages[2];
};

// A block for each sequence, head and half of the elements goes from chunk to chunk, the next of
// which is on its way; a warp has 16 channels and half of the block's elements.
__global__ __launch_bounds__(kThreads, 2) void carry_kernel(const HopperScan in, const Carried of,
                                                            const ScanEnds<float> ends) {
  extern __shared__ __align__(16) unsigned char bytes[];
  Carry& shared = *reinterpret_cast<Carry*>(bytes);
  const MambaShape& s = in.s;
  const int first = static_cast<int>(blockIdx.x % 2) * kHalf, chunks = static_cast<int>(s.chunks());
  const std::int64_t head = blockIdx.x / 2 % s.heads, sequence = blockIdx.x / 2 / s.heads;
  const auto chunk = [&](int n) {
    return in.chunk(sequence * chunks + (of.backward ? chunks - 1 - n : n));
  };
  const auto fetch = [&](int n) {
    if (n < chunks) {
      CarryStage& to = shared.stages[n % 2];
      const Chunk k = chunk(n);
      const std::int64_t token = k.token(0, s);
      const int size = static_cast<int>(k.size);
      load_tile<kChannels>(to.x, of.rows + token * of.row + head * kChannels, of.row, size);
      load_tile<kHalf>(to.b,
                       in.mixed + token * s.mixed() + of.column + in.group(head) * kStates + first,
                       s.mixed(), size);
      load_tokens(to.tokens, in, k, head);
    }
    copies_commit();
  };
  fetch(0);
  fetch(1);
  const int warp = static_cast<int>(threadIdx.x) / 32, channel = warp % 4 * 16,
            element = warp / 4 * (kHalf / 2);
  float state[kHalf / 4] = {};
  const bool had = ends.before && !ends.slots.begins(sequence, s.length);
  const std::int64_t slot = ends.before || ends.after ? ends.slots.of(sequence) : 0,
                     at = (slot * s.heads + head) * s.state() + first;
  if (had) read_state<kHalf / 2>(state, ends.before + at, channel, element);
  for (int n = 0; n < chunks; ++n) {
    copies_wait<1>();
    __syncthreads();
    const CarryStage& stage = shared.stages[n % 2];
    const HeadTokens& tokens = stage.tokens;
    const Chunk k = chunk(n);
    write_state<kHalf / 2>(of.states + (k.number * s.heads + head) * s.state() + first, state,
                           channel, element);
    float sums[kHalf / 4] = {};
    add_tokens<kHalf / 2>(sums, stage.x, channel, stage.b, element, [&](int j) {
      return of.backward ? make_float2(tokens.from_before[j], tokens.from_before[j + 1])
                         : written(tokens, j);
    });
    const float kept = tokens.from_before[k.size - 1];
#pragma unroll
    for (int i = 0; i < kHalf / 4; ++i) state[i] = kept * state[i] + sums[i];
    __syncthreads();
    fetch(n + 2);
  }
  if (ends.after) write_state<kHalf / 2>(ends.after + at, state, channel, element);
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
  load_tokens(shared.tokens, in, k, head);
  copies_commit();
  shared.tokens.load_first(k);
  const int own = tile_of_warp(), begin = own * 16;
  float pairs[kPairsAhead][8];
  const auto fetch = [&](int tile) {
    if (tile > own) return;
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
    if (tile > own) break;
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

struct WholeStage {
  ChannelTile x;
  StateTile b, c;
  OfTokens tokens;
};
struct Whole {
  WholeStage stages[2];
  SplitState state;  // that comes into the chunk
};

// A block for each sequence and head makes y of one chunk after the other, the next of which is on
// its way, and holds the state, a warp 16 channels and half of the elements.
__global__ __launch_bounds__(kThreads, 1) void whole_kernel(bf16* y, const HopperScan in,
                                                            const ScanEnds<float> ends) {
  extern __shared__ __align__(16) unsigned char bytes[];
  Whole& shared = *reinterpret_cast<Whole*>(bytes);
  const MambaShape& s = in.s;
  const int chunks = static_cast<int>(s.chunks());
  const std::int64_t head = blockIdx.x % s.heads, sequence = blockIdx.x / s.heads,
                     group = in.group(head);
  const auto fetch = [&](int n) {
    if (n < chunks) {
      WholeStage& to = shared.stages[n % 2];
      const Chunk k = in.chunk(sequence * chunks + n);
      const bf16* const row = in.mixed + k.token(0, s) * s.mixed();
      const int size = static_cast<int>(k.size);
      load_tile<kChannels>(to.x, row + head * kChannels, s.mixed(), size);
      load_tile<kStates>(to.b, row + s.b_of_mixed() + group * kStates, s.mixed(), size);
      load_tile<kStates>(to.c, row + s.c_of_mixed() + group * kStates, s.mixed(), size);
      load_tokens(to.tokens, in, k, head);
      to.tokens.load_first(k);
    }
    copies_commit();
  };
  fetch(0);
  fetch(1);
  const int warp = static_cast<int>(threadIdx.x) / 32, channel = warp % 4 * 16,
            element = warp / 4 * 64, own = tile_of_warp(), begin = own * 16;
  float state[32] = {};
  const bool had = ends.before && !ends.slots.begins(sequence, s.length);
  const std::int64_t slot = ends.before || ends.after ? ends.slots.of(sequence) : 0,
                     at = (slot * s.heads + head) * s.state();
  if (had) read_state<64>(state, ends.before + at, channel, element);
  const auto put_state = [&] {
    const Residue<32> low(state);
    for_elements<64>(channel, element, [&](int i, int p, int n) {
      if (i % 2 != 0) return;
      store_pair(&shared.state.high[p][n], state[i], state[i + 1]);
      store_pair(&shared.state.low[p][n], low.left[i], low.left[i + 1]);
    });
  };
  put_state();
  const float skip = to_float(in.weights.d[head]);
  for (int n = 0; n < chunks; ++n) {
    copies_wait<1>();
    __syncthreads();
    const WholeStage& stage = shared.stages[n % 2];
    const OfTokens& tokens = stage.tokens;
    const Chunk k = in.chunk(sequence * chunks + n);
    float sums[kChannels / 2] = {};
    multiply_rows<kStates, kChannels>(sums, stage.c[begin], shared.state.high[0]);
    multiply_rows<kStates, kChannels>(sums, stage.c[begin], shared.state.low[0]);
    for_elements<kChannels>(begin, 0, [&](int i, int t, int) { sums[i] *= tokens.from_before[t]; });
#pragma unroll 1
    for (int tile = 0; tile <= own; tile += 2) {  // two at a time, as one would wait for itself
      float factors[2][8], of_two[16] = {};
      multiply_rows<kStates, 32>(of_two, stage.c[begin], stage.b[tile * 16]);
#pragma unroll
      for (int two = 0; two < 2; ++two)
        for_elements<16>(begin, (tile + two) * 16, [&](int e, int i, int j) {
          factors[two][e] = of_two[two * 8 + e] * (tokens.passed(i, j) * tokens.dt[j]);
        });
      multiply_split<kOfChannels, kChannels>(sums, factors[0], stage.x[tile * 16]);
      if (tile < own)
        multiply_split<kOfChannels, kChannels>(sums, factors[1], stage.x[tile * 16 + 16]);
    }
    bf16* const to = y + k.token(0, s) * s.inner() + head * kChannels;
    for_elements<kChannels>(begin, 0, [&](int e, int i, int p) {
      if (e % 2 != 0 || i >= k.size) return;
      store_pair(to + i * s.inner() + p, sums[e] + skip * to_float(stage.x[i][p]),
                 sums[e + 1] + skip * to_float(stage.x[i][p + 1]));
    });
    float added[32] = {};
    add_tokens<64>(added, stage.x, channel, stage.b, element,
                   [&](int j) { return written(tokens, j); });
    const float kept = tokens.from_before[k.size - 1];
#pragma unroll
    for (int i = 0; i < 32; ++i) state[i] = kept * state[i] + added[i];
    __syncthreads();
    put_state();
    fetch(n + 2);
  }
  if (ends.after) write_state<64>(ends.after + at, state, channel, element);
}

void find_steps(const HopperScan& in, cudaStream_t stream) {
  const auto blocks_of_heads = static_cast<int>(ceil_div(in.s.heads, kHeads));
  steps_kernel<<<static_cast<unsigned>(all_chunks(in.s) * blocks_of_heads), kThreads, 0, stream>>>(
      in, blocks_of_heads);
  check(cudaGetLastError());
}

}  // namespace

void carry_states(const HopperScan& in, const Carried& of, const ScanEnds<float>& ends,
                  cudaStream_t stream) {
  launch<Carry>(carry_kernel, in.s.sequences * in.s.heads * 2, stream, in, of, ends);
}

void find_states(const HopperScan& in, const ScanEnds<float>& ends, cudaStream_t stream) {
  const MambaShape& s = in.s;
  find_steps(in, stream);
  launch<Pairs>(pairs_kernel, all_chunks(s) * s.groups, stream, in);
  carry_states(in,
               {.rows = in.mixed, .row = s.mixed(), .column = s.b_of_mixed(), .states = in.states},
               ends, stream);
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
  if (in.s.sequences * in.s.heads * 2 >= multiprocessors()) {
    find_steps(in, stream);
    return launch<Whole>(whole_kernel, in.s.sequences * in.s.heads, stream, y, in, ends);
  }
  find_states(in, ends, stream);
  launch<Output>(output_kernel, all_chunks(in.s) * in.s.heads, stream, y, in);
}

}  // namespace mt::cuda::scan::hopper
