// The backward on matrix units.  Of a chunk, a group and some of its heads one block has what
// tokens read, their rows being i of chunk_scan.h, and one what they wrote, j: sums over heads stay
// in registers, and what blocks of the same group have is added up in order.
#include "kernels/chunk_scan_hopper.cuh"

namespace mt::cuda::scan::hopper {
namespace {

constexpr int kOfSlice = 8;  // heads of a block
constexpr int kOfPairs = kRows + 4;

struct Backward : ScanBackward<bf16> {
  HopperScan scan;                   // `in` with its tables
  std::int64_t slices = 0;           // of a group's heads
  float *b = nullptr, *c = nullptr;  // the gradients of B and C: [slices, tokens, states()]
};

// What a block has.
struct Part {
  std::int64_t slice, group, first_head, end_head;
  Chunk k;

  __device__ explicit Part(const Backward& g)
      : slice(blockIdx.x % g.slices),
        group(blockIdx.x / g.slices % g.in.s.groups),
        first_head(group * g.in.s.group_heads() + slice * kOfSlice),
        end_head(min(first_head + kOfSlice, (group + 1) * g.in.s.group_heads())),
        k(g.in.chunk(blockIdx.x / g.slices / g.in.s.groups)) {}
};

struct Memory {
  StateTile own;  // C of tokens that read, B of tokens that wrote
  ChannelTile x, dy;
  union {
    SplitState state;
    StateTile other;  // B, or C
  };
  OfTokens tokens;
  float pairs[kRows][kOfPairs];  // C B^T
  float of_warp[kWarps];
};

__device__ void load_states(StateTile& to, const Backward& g, const Part& part,
                            std::int64_t column) {
  const MambaShape& s = g.in.s;
  load_tile<kStates>(to,
                     g.in.mixed + part.k.token(0, s) * s.mixed() + column + part.group * kStates,
                     s.mixed(), static_cast<int>(part.k.size));
  copies_commit();
}

// What all heads of the block have in common.
__device__ void load_group(Memory& shared, const Backward& g, const Part& part,
                           std::int64_t column) {
  load_states(shared.own, g, part, column);
  shared.tokens.load_first(part.k);
  const float* const pairs = g.scan.pair_row(part.k, part.group, 0);
  for (int i = static_cast<int>(threadIdx.x) * 4; i < kRows * kRows; i += kThreads * 4)
    copy_16_bytes(&shared.pairs[i / kRows][i % kRows], pairs + i);
}

// All that a head has, once what the head before had has been read; as load_state().
__device__ float load_head(Memory& shared, const Backward& g, const Part& part, std::int64_t head,
                           const float* state, const float* beside = nullptr) {
  const MambaShape& s = g.in.s;
  const std::int64_t token = part.k.token(0, s);
  __syncthreads();
  load_tile<kChannels>(shared.x, g.in.mixed + token * s.mixed() + head * kChannels, s.mixed(),
                       static_cast<int>(part.k.size));
  load_tile<kChannels>(shared.dy, g.dy + token * s.inner() + head * kChannels, s.inner(),
                       static_cast<int>(part.k.size));
  shared.tokens.load(g.scan, part.k, head);
  copies_commit();
  const float product = load_state(shared.state, state, beside);
  copies_wait();
  __syncthreads();
  return product;
}

// Adds what pairs of tokens give, and writes the gradients of the block's tokens.
template <bool kReads>
__device__ void finish(float* to, float (&sums)[kStates / 2], const float (&products)[kWarps][8],
                       Memory& shared, const Backward& g, const Part& part) {
  const MambaShape& s = g.in.s;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  __syncthreads();
  load_states(shared.other, g, part, kReads ? s.b_of_mixed() : s.c_of_mixed());
  copies_wait();
  __syncthreads();
#pragma unroll
  for (int tile = 0; tile < kWarps; ++tile)
    if (kReads ? tile <= warp : tile >= warp)
      multiply_split<kOfStates, kStates>(sums, products[tile], shared.other[tile * 16]);
  to += (part.slice * s.tokens() + part.k.token(0, s)) * s.states() + part.group * kStates;
  for_elements<kStates>(warp * 16, 0, [&](int n, int i, int column) {
    if (n % 2 == 0 && i < part.k.size)
      *reinterpret_cast<float2*>(to + i * s.states() + column) = make_float2(sums[n], sums[n + 1]);
  });
}

// dC, dy V of each token and head, and what states carry on.
__global__ __launch_bounds__(kThreads, 1) void readers_kernel(const Backward g) {
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  const MambaShape& s = g.in.s;
  const Part part(g);
  const int warp = static_cast<int>(threadIdx.x) / 32, begin = warp * 16;
  const OfTokens& tokens = shared.tokens;
  load_group(shared, g, part, s.c_of_mixed());
  float dc[kStates / 2] = {}, products[kWarps][8] = {};
  for (std::int64_t head = part.first_head; head < part.end_head; ++head) {
    float carried =
        load_head(shared, g, part, head, g.scan.state(part.k, head), g.d_state(part.k, head));
    carried = over_block(carried, shared.of_warp);
    if (threadIdx.x == 0)
      g.carried[part.k.number * s.heads + head] = tokens.from_before[part.k.size - 1] * carried;
    std::uint32_t dy[kChannels / 16][4];
    load_rows<kOfChannels, kChannels>(dy, shared.dy[begin]);
    float dy_v[2] = {};
#pragma unroll
    for (int n = 0; n < kStates; n += 16) {
      float read[8] = {};
      multiply_columns<kOfStates, kChannels>(read, dy, &shared.state.high[0][n]);
      multiply_columns<kOfStates, kChannels>(read, dy, &shared.state.low[0][n]);
      for_elements<16>(begin, n, [&](int e, int i, int column) {
        const float sum = tokens.from_before[i] * read[e];
        dc[n / 2 + e] += sum;
        dy_v[e / 2 % 2] += sum * to_float(shared.own[i][column]);
      });
    }
#pragma unroll
    for (int tile = 0; tile < kWarps; ++tile) {
      if (tile > warp) break;
      float dy_x[8] = {};
      multiply_tile<kOfChannels, kChannels>(dy_x, dy, shared.x[tile * 16]);
      for_elements<16>(begin, tile * 16, [&](int e, int i, int j) {
        const float passed = dy_x[e] * (tokens.passed(i, j) * tokens.dt[j]);
        products[tile][e] += passed;
        dy_v[e / 2 % 2] += passed * shared.pairs[i][j];
      });
    }
    for (int r = 0; r < 2; ++r) {
      const float sum = over_row(dy_v[r]);
      const int i = begin + lane() / 4 + r * 8;
      if (lane() % 4 == 0 && i < part.k.size) g.da[part.k.token(i, s) * s.heads + head] = sum;
    }
  }
  finish<true>(g.c, dc, products, shared, g, part);
}

// dx and dB, and x G, its part of what goes out, and dy x of each token and head.
__global__ __launch_bounds__(kThreads, 1) void writers_kernel(const Backward g) {
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  const MambaShape& s = g.in.s;
  const Part part(g);
  const int warp = static_cast<int>(threadIdx.x) / 32, begin = warp * 16;
  const OfTokens& tokens = shared.tokens;
  load_group(shared, g, part, s.b_of_mixed());
  float db[kStates / 2] = {}, products[kWarps][8] = {};
  for (std::int64_t head = part.first_head; head < part.end_head; ++head) {
    load_head(shared, g, part, head, g.d_state(part.k, head));
    std::uint32_t x[kChannels / 16][4];
    load_rows<kOfChannels, kChannels>(x, shared.x[begin]);
    // G, first what comes of the state that goes out.
    float sums[kChannels / 2] = {}, x_out[2] = {}, x_g[2] = {}, dy_x[2] = {};
    multiply_rows<kStates, kChannels>(sums, shared.own[begin], shared.state.high[0]);
    multiply_rows<kStates, kChannels>(sums, shared.own[begin], shared.state.low[0]);
    for_elements<kChannels>(begin, 0, [&](int e, int j, int p) {
      sums[e] *= tokens.to_end[j];
      x_out[e / 2 % 2] += sums[e] * to_float(shared.x[j][p]);
    });
#pragma unroll
    for (int n = 0; n < kStates; n += 16) {
      float written[8] = {};
      multiply_columns<kOfStates, kChannels>(written, x, &shared.state.high[0][n]);
      multiply_columns<kOfStates, kChannels>(written, x, &shared.state.low[0][n]);
      for_elements<16>(begin, n, [&](int e, int j, int) {
        db[n / 2 + e] += tokens.to_end[j] * tokens.dt[j] * written[e];
      });
    }
#pragma unroll
    for (int tile = 0; tile < kWarps; ++tile) {
      if (tile < warp) continue;
      float of_pairs[8] = {}, factors[8];
      multiply_tile<kOfChannels, kChannels>(of_pairs, x, shared.dy[tile * 16]);
      for_elements<16>(begin, tile * 16, [&](int e, int j, int i) {
        const float passed = tokens.passed(i, j);
        products[tile][e] += of_pairs[e] * passed * tokens.dt[j];
        factors[e] = passed * shared.pairs[i][j];
        x_g[e / 2 % 2] +=
            factors[e] * of_pairs[e];  // what dy V has, to f32, as they are subtracted
      });
      multiply_split<kOfChannels, kChannels>(sums, factors, shared.dy[tile * 16]);
    }
    const float skip = to_float(g.in.weights.d[head]);
    bf16* const dx = g.d_mixed + part.k.token(0, s) * s.mixed() + head * kChannels;
    for_elements<kChannels>(begin, 0, [&](int e, int j, int p) {
      const float of_x = to_float(shared.x[j][p]), of_dy = to_float(shared.dy[j][p]);
      dy_x[e / 2 % 2] += of_dy * of_x;
      sums[e] = tokens.dt[j] * sums[e] + skip * of_dy;
      if (e % 2 == 1 && j < part.k.size)
        *reinterpret_cast<std::uint32_t*>(dx + j * s.mixed() + p - 1) =
            pack_pair<bf16>(sums[e - 1], sums[e]);
    });
    for (int r = 0; r < 2; ++r) {
      const int j = begin + lane() / 4 + r * 8;
      const float of_out = over_row(x_out[r]), of_g = of_out + over_row(x_g[r]),
                  of_skip = over_row(dy_x[r]);
      if (lane() % 4 != 0 || j >= part.k.size) continue;
      const std::int64_t at = part.k.token(j, s) * s.heads + head;
      g.out[at] = tokens.dt[j] * of_out;
      g.by_step[at] = of_g;
      g.skip[at] = of_skip;
    }
  }
  finish<false>(g.b, db, products, shared, g, part);
}

// As pass_kernel, from the last chunk on.
__global__ __launch_bounds__(kThreads) void pass_backward_kernel(const Backward g) {
  const MambaShape& s = g.in.s;
  const std::int64_t of_sequence = s.heads * s.state() / 4, at = thread_number() % of_sequence,
                     sequence = thread_number() / of_sequence;
  if (sequence < s.sequences)
    pass(reinterpret_cast<float4*>(g.d_states), {}, g.scan, of_sequence, at, sequence,
         at * 4 / s.state(), true);
}

// As steps_backward_kernel; the blocks are steps_kernel's.
__global__ __launch_bounds__(kThreads) void steps_backward_kernel(const Backward g,
                                                                  int blocks_of_heads) {
  __shared__ WarpSums shared[3];
  const MambaShape& s = g.in.s;
  const Chunk k = g.in.chunk(blockIdx.x / blocks_of_heads);
  const std::int64_t head = blockIdx.x % blocks_of_heads * kHeads + lane();
  const bool there = head < s.heads;
  const int warp = static_cast<int>(threadIdx.x) / 32, begin = warp * kOfWarp;
  const auto place = [&](int i) { return k.token(begin + i, s) * s.heads + head; };
  const float* const dt = there ? &g.scan.of(k, head).dt[begin] : nullptr;
  float da[kOfWarp], out = 0, sum = 0, all_out, all_da;
#pragma unroll
  for (int i = 0; i < kOfWarp; ++i) {
    da[i] = 0;
    if (!there || begin + i >= k.size) continue;
    da[i] = g.da[place(i)] - dt[i] * g.by_step[place(i)];
    out += g.out[place(i)];
    sum += da[i];
  }
  shared[0].before(out, all_out);
  float behind = shared[1].before(sum, all_da, true) + all_out;
  if (there) behind += g.carried[k.number * s.heads + head];
  const float decay = there ? g.in.decay(head) : 0;
  float bias = 0, a_log = 0, d = 0;
#pragma unroll
  for (int i = kOfWarp - 1; i >= 0; --i) {
    if (!there || begin + i >= k.size) continue;
    behind += da[i];
    const std::int64_t token = k.token(begin + i, s);
    const float raw = (decay * behind + g.by_step[place(i)]) / (1 + expf(-g.in.raw(token, head)));
    g.d_projected[token * s.projected() + s.dt_of_projected() + head] = static_cast<bf16>(raw);
    bias += raw;
    a_log += decay * dt[i] * behind;
    d += g.skip[place(i)];
  }
  __syncthreads();
  shared[0].of[warp][lane()] = bias;
  shared[1].of[warp][lane()] = a_log;
  shared[2].of[warp][lane()] = d;
  __syncthreads();
  if (warp >= 3 || !there) return;
  float all = 0;
  for (const auto& of_warp : shared[warp].of) all += of_warp[lane()];
  float* const to = warp == 0 ? g.sum_bias : warp == 1 ? g.sum_a_log : g.sum_d;
  to[k.number * s.heads + head] = all;
}

// A thread for two elements of a token's B and C.
__global__ void slices_kernel(const Backward g) {
  const MambaShape& s = g.in.s;
  const std::int64_t of_slice = s.tokens() * s.states(), at = thread_number() * 2;
  if (at >= of_slice) return;
  float2 b = {}, c = {};
  for (std::int64_t slice = 0; slice < g.slices; ++slice) {
    const float2 of_b = *reinterpret_cast<const float2*>(g.b + slice * of_slice + at),
                 of_c = *reinterpret_cast<const float2*>(g.c + slice * of_slice + at);
    b = make_float2(b.x + of_b.x, b.y + of_b.y);
    c = make_float2(c.x + of_c.x, c.y + of_c.y);
  }
  bf16* const row = g.d_mixed + at / s.states() * s.mixed() + at % s.states();
  *reinterpret_cast<std::uint32_t*>(row + s.b_of_mixed()) = pack_pair<bf16>(b.x, b.y);
  *reinterpret_cast<std::uint32_t*>(row + s.c_of_mixed()) = pack_pair<bf16>(c.x, c.y);
}

void take_all(Backward& g, Tables& tables) {
  const MambaShape& s = g.in.s = with_chunks(g.in.s);
  static_cast<Scan<bf16>&>(g.scan) = g.in;
  take(g.scan, tables);
  take_gradients(g, tables);
  g.slices = ceil_div(s.group_heads(), kOfSlice);
  g.b = tables.take(g.slices * s.tokens() * s.states());
  g.c = tables.take(g.slices * s.tokens() * s.states());
}

}  // namespace

std::size_t backward_work(const MambaShape& s) {
  if (!fit(s)) return 0;
  Tables tables(nullptr);
  Backward g{};
  g.in.s = s;
  take_all(g, tables);
  return tables.bytes();
}

template <class G>
void backward(const ScanBackward<bf16>& of, const ScanGradients<G>& gradients, void* work,
              cudaStream_t stream) {
  Tables tables(work);
  Backward g{};
  static_cast<ScanBackward<bf16>&>(g) = of;
  take_all(g, tables);
  const MambaShape& s = g.in.s;
  find_states(g.scan, {}, stream);
  sum_states(g.scan,
             {.rows = g.dy,
              .row = s.inner(),
              .column = s.c_of_mixed(),
              .sums = g.d_states,
              .backward = true},
             stream);
  pass_backward_kernel<<<blocks_for(s.sequences * s.heads * s.state() / 4), kThreads, 0, stream>>>(
      g);
  const std::int64_t parts = all_chunks(s) * s.groups * g.slices;
  launch<Memory>(readers_kernel, parts, stream, g);
  launch<Memory>(writers_kernel, parts, stream, g);
  const auto blocks_of_heads = static_cast<int>(ceil_div(s.heads, kHeads));
  steps_backward_kernel<<<static_cast<unsigned>(all_chunks(s) * blocks_of_heads), kThreads, 0,
                          stream>>>(g, blocks_of_heads);
  slices_kernel<<<blocks_for(s.tokens() * s.states() / 2), kThreads, 0, stream>>>(g);
  check(cudaGetLastError());
  add_gradients(gradients, g, stream);
}

template void backward(const ScanBackward<bf16>&, const ScanGradients<float>&, void*, cudaStream_t);
template void backward(const ScanBackward<bf16>&, const ScanGradients<bf16>&, void*, cudaStream_t);

}  // namespace mt::cuda::scan::hopper
