#include "kernels/cuda_check.h"
#include "kernels/gpu.h"
#include "kernels/list_scan.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr std::int64_t kBlocksOfRow = 8;

// One block a list, a thread for each of its codes.
__global__ __launch_bounds__(kThreads) void terms_kernel(float* terms, CodeLists lists) {
  const std::int64_t list = blockIdx.x, width = lists.part_columns();
  const float* const centre = lists.centres + list * lists.columns;
  for (std::int64_t i = lists.begins[list] + threadIdx.x; i < lists.begins[list + 1];
       i += kThreads) {
    float term = 0;
    for (std::int64_t part = 0; part < lists.parts(); ++part) {
      const float* const r =
          lists.part_centres + (part * kPartCentres + lists.codes[i * lists.bytes + part]) * width;
      for (std::int64_t c = 0; c < width; ++c) term += r[c] * (r[c] + 2 * centre[part * width + c]);
    }
    terms[i] = term;
  }
}

// One block a row and part, a thread for each of the part's centres.
__global__ __launch_bounds__(kPartCentres) void tables_kernel(float* tables, CodeLists lists,
                                                              const float* x) {
  const std::int64_t row = blockIdx.y, part = blockIdx.x, width = lists.part_columns(),
                     j = part * kPartCentres + threadIdx.x;
  const float* const of = x + row * lists.columns + part * width;
  const float* const centre = lists.part_centres + j * width;
  float sum = 0;
  for (std::int64_t c = 0; c < width; ++c) sum += of[c] * centre[c];
  tables[row * lists.parts() * kPartCentres + j] = -2 * sum;
}

// Some blocks a row, each of which takes every so many of its lists; a thread for each code.
// kShared: the row's table is copied to shared memory, which then suffices.
template <bool kShared>
__global__ __launch_bounds__(kThreads) void products_kernel(float* distances, std::int32_t* numbers,
                                                            ListScan scan) {
  extern __shared__ float held[];
  __shared__ float of_warp[kWarps];
  const CodeLists& lists = scan.lists;
  const std::int64_t row = blockIdx.x, size = lists.parts() * kPartCentres;
  const float* table = scan.tables + row * size;
  const float* const x = scan.x + row * lists.columns;
  if constexpr (kShared) {
    for (std::int64_t i = threadIdx.x; i < size; i += kThreads) held[i] = table[i];
    table = held;
    __syncthreads();
  }
  for (std::int64_t v = row * scan.visited + blockIdx.y; v < (row + 1) * scan.visited;
       v += gridDim.y) {
    const std::int64_t list = scan.which[v], begin = lists.begins[list],
                       end = lists.begins[list + 1];
    if (begin == end) continue;
    const float* const centre = lists.centres + list * lists.columns;
    float far = 0;
    for (std::int64_t c = threadIdx.x; c < lists.columns; c += kThreads)
      far += (x[c] - centre[c]) * (x[c] - centre[c]);
    __syncthreads();  // of_warp is free again
    far = over_block(far, of_warp);
    for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
      const std::uint8_t* const code = lists.codes + i * lists.bytes;
      float sum = 0;
      std::int64_t part = 0;
      if (lists.bytes % 4 == 0)
        for (; part < lists.bytes; part += 4) {
          const uchar4 four = *reinterpret_cast<const uchar4*>(code + part);
          const float* const of = table + part * kPartCentres;
          sum += of[four.x];
          sum += of[kPartCentres + four.y];
          sum += of[2 * kPartCentres + four.z];
          sum += of[3 * kPartCentres + four.w];
        }
      for (; part < lists.bytes; ++part) sum += table[part * kPartCentres + code[part]];
      distances[scan.places[v] + i - begin] = far + lists.terms[i] + sum;
      numbers[scan.places[v] + i - begin] = scan.ids[i];
    }
  }
}

// One block a row and list, a warp for each code.
template <ListCodes kKind>
__global__ __launch_bounds__(kThreads) void numbers_kernel(float* distances, std::int32_t* numbers,
                                                           ListScan scan) {
  const CodeLists& lists = scan.lists;
  const std::int64_t v = blockIdx.x, row = v / scan.visited, list = scan.which[v],
                     begin = lists.begins[list];
  const float* const x = scan.x + row * lists.columns;
  const float* const centre = lists.centres ? lists.centres + list * lists.columns : nullptr;
  for (std::int64_t i = begin + threadIdx.x / 32; i < lists.begins[list + 1]; i += kWarps) {
    const std::uint8_t* const code = lists.codes + i * lists.bytes;
    float sum = 0;
    for (std::int64_t c = threadIdx.x % 32; c < lists.columns; c += 32) {
      const float number = kKind == ListCodes::numbers ? lists.numbers.number(code, c)
                                                       : reinterpret_cast<const float*>(code)[c];
      const float d = x[c] - (centre ? centre[c] : 0.0f) - number;
      sum += d * d;
    }
    sum = over_lanes(sum);
    if (threadIdx.x % 32 != 0) continue;
    distances[scan.places[v] + i - begin] = sum;
    numbers[scan.places[v] + i - begin] = scan.ids[i];
  }
}

void scan_products(float* distances, std::int32_t* numbers, const ListScan& scan,
                   cudaStream_t stream) {
  const CodeLists& lists = scan.lists;
  constexpr std::int64_t kMostRows = 65535;
  for (std::int64_t row = 0; row < scan.rows; row += kMostRows) {
    const std::int64_t rows = std::min(kMostRows, scan.rows - row);
    const dim3 blocks(static_cast<unsigned>(lists.parts()), static_cast<unsigned>(rows));
    tables_kernel<<<blocks, kPartCentres, 0, stream>>>(
        scan.tables + row * lists.parts() * kPartCentres, lists, scan.x + row * lists.columns);
    check(cudaGetLastError());
  }
  const std::size_t bytes = static_cast<std::size_t>(lists.parts() * kPartCentres) * sizeof(float);
  const dim3 blocks(static_cast<unsigned>(scan.rows),
                    static_cast<unsigned>(std::min(kBlocksOfRow, scan.visited)));
  constexpr std::size_t kStatic = kWarps * sizeof(float);
  if (bytes + kStatic <= most_shared_bytes()) {
    check(cudaFuncSetAttribute(products_kernel<true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)));
    products_kernel<true><<<blocks, kThreads, bytes, stream>>>(distances, numbers, scan);
  } else {
    products_kernel<false><<<blocks, kThreads, 0, stream>>>(distances, numbers, scan);
  }
  check(cudaGetLastError());
}

}  // namespace

void code_terms(float* terms, const CodeLists& lists, cudaStream_t stream) {
  if (lists.lists == 0) return;
  terms_kernel<<<static_cast<unsigned>(lists.lists), kThreads, 0, stream>>>(terms, lists);
  check(cudaGetLastError());
}

void scan_lists(float* distances, std::int32_t* numbers, const ListScan& scan,
                cudaStream_t stream) {
  if (scan.rows == 0 || scan.visited == 0) return;
  if (scan.lists.kind == ListCodes::products)
    return scan_products(distances, numbers, scan, stream);
  const auto blocks = static_cast<unsigned>(scan.rows * scan.visited);
  if (scan.lists.kind == ListCodes::numbers)
    numbers_kernel<ListCodes::numbers><<<blocks, kThreads, 0, stream>>>(distances, numbers, scan);
  else
    numbers_kernel<ListCodes::floats><<<blocks, kThreads, 0, stream>>>(distances, numbers, scan);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
