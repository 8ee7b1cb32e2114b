#include "search/products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/threads.h"
#include "kernels/near_rows.h"
#include "ops/nearest.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace mt {
namespace {

// Bytes of memory that is not pinned, which a GPU is given through pinned halves, if they are more.
constexpr std::size_t kHalf = std::size_t{1} << 24;
constexpr std::int64_t kMostProducts = 1LL << 27;  // in a GPU's memory, but for one row's
// Sums of two codes' products, and distances in parts of vectors, between two calls of `between`.
constexpr std::int64_t kMostByCodes = 1LL << 34;
constexpr std::int64_t kMostOfParts = 1LL << 27, kMostOfPartsOnGpu = 1LL << 36;

}  // namespace

Products::Products(int threads, std::function<void()> between, Device device)
    : threads_(worker_threads(threads)),
      workers_(Device::cpu, threads),
      between_(std::move(between)) {
  if (device == Device::cuda) gpu_.emplace(device);
}

bool Products::has_room(std::size_t bytes) const {
  return device() == Device::cpu || bytes <= device::free_memory();
}

void Products::expect_room(std::size_t bytes, const std::string& what) const {
  if (device() == Device::cpu) return;
  if (const std::size_t free = device::free_memory(); bytes > free)
    fail(Exit::out_of_memory, what, " needs at least ", bytes,
         " bytes of a GPU's memory, of which ", free, " are free; see --device cpu");
}

void Products::put(Tensor to, const void* from) {
  if (to.bytes() == 0) return;
  if (device() == Device::cpu)
    std::memcpy(to.data(), from, to.bytes());
  else if (to.bytes() > kHalf && !device::is_pinned(from))
    put_by_halves(static_cast<std::byte*>(to.data()), static_cast<const std::byte*>(from),
                  to.bytes());
  else
    device::copy(to.data(), from, to.bytes(), stream().handle());
}

// All threads copy to one half, while a GPU reads the other.
void Products::put_by_halves(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kOfThread = std::size_t{1} << 20;
  for (std::size_t at = 0; at < bytes; at += kHalf) {
    Buffer& half = halves_[turn_ ^= 1];
    if (half.bytes() == 0) half = Buffer::pinned(kHalf);
    const std::size_t some = std::min(kHalf, bytes - at);
    each(static_cast<std::int64_t>((some + kOfThread - 1) / kOfThread), [&](std::int64_t i) {
      const std::size_t begin = static_cast<std::size_t>(i) * kOfThread;
      std::memcpy(static_cast<std::byte*>(half.data()) + begin, from + at + begin,
                  std::min(kOfThread, some - begin));
    });
    stream().synchronize();  // the other half was read
    device::copy(to + at, half.data(), some, stream().handle());
  }
}

void Products::get(void* to, ConstTensor from) {
  if (from.bytes() == 0) return;
  if (from.device() == Device::cpu) {
    std::memcpy(to, from.data(), from.bytes());
    return;
  }
  device::copy(to, from.data(), from.bytes(), stream().handle());
  stream().synchronize();
}

Tensor Products::scratch(Use use, DType dtype, const Shape& shape) {
  Buffer& buffer = scratch_[use];
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  if (bytes > buffer.bytes()) {
    stream().synchronize();  // what is queued may still use it
    buffer = Buffer();
    buffer = Buffer(device(), bytes);
  }
  return buffer.tensor(dtype, shape);
}

Products::Rows Products::rows(std::span<const float> numbers, std::int64_t columns) {
  const Shape shape = {std::ssize(numbers) / columns, columns};
  if (device() == Device::cpu) return {ConstTensor(numbers.data(), DType::f32, shape)};
  Buffer memory = buffer(numbers.size_bytes());
  const Tensor tensor = memory.tensor(DType::f32, shape);
  put(tensor, numbers.data());
  return {tensor, std::move(memory)};
}

ConstTensor Products::rows(Use use, std::span<const float> numbers, std::int64_t columns) {
  if (device() == Device::cpu) return rows(numbers, columns).tensor;
  const Tensor tensor = scratch(use, DType::f32, {std::ssize(numbers) / columns, columns});
  put(tensor, numbers.data());
  return tensor;
}

void Products::dot(Tensor out, ConstTensor a, ConstTensor b) {
  if (out.numel() == 0) return;
  matmul({.out = out, .a = a, .b = b, .transpose_b = true}, stream());
}

std::vector<float> Products::dot(ConstTensor a, ConstTensor b) {
  const Shape shape = {a.shape()[0], b.shape()[0]};
  if (device() != Device::cpu) {
    const Tensor out = scratch(kProducts, DType::f32, shape);
    dot(out, a, b);
    return values<float>(out);
  }
  std::vector<float> out(static_cast<std::size_t>(shape.numel()));
  dot(Tensor(out.data(), DType::f32, shape), a, b);
  return out;
}

std::vector<float> Products::sum_of_outer(ConstTensor a, ConstTensor b) {
  const Tensor out = scratch(kProducts, DType::f32, {a.shape()[1], b.shape()[1]});
  matmul({.out = out, .a = a, .b = b, .transpose_a = true}, stream());
  return values<float>(out);
}

std::vector<float> Products::dot(std::span<const float> a, std::span<const float> b,
                                 std::int64_t columns) {
  return dot(rows(a, columns).tensor, rows(b, columns).tensor);
}

// By codes of all of one part, on the CPU.
void Products::nearest_by_codes(Tensor found, ConstTensor a, ConstTensor b) {
  const std::int64_t m = a.shape()[0], n = b.shape()[0], columns = b.shape()[1];
  const std::int64_t rows = std::max<std::int64_t>(64, kMostByCodes / (n * columns));
  run([&] {
    const RowCodes codes(b.as<float>(), n, columns, false);
    for (std::int64_t row = 0; row < m; row += rows) {
      between_();
      cpu::nearest_rows(found.as<std::int32_t>() + row, {.x = a.as<float>() + row * columns,
                                                         .rows = std::min(rows, m - row),
                                                         .vectors = b.as<float>(),
                                                         .codes = &codes});
    }
  });
}

// By the products of all of one part, on a GPU.
void Products::nearest_by_products(Tensor found, ConstTensor a, ConstTensor b) {
  const std::int64_t m = a.shape()[0], n = b.shape()[0];
  const std::int64_t columns = std::min(n, kMostProducts),
                     rows = std::max<std::int64_t>(1, kMostProducts / columns);
  const Tensor half = scratch(kHalves, DType::f32, {n}), best = scratch(kBest, DType::f32, {m});
  half_squares(half, b, stream());
  fill(best, -INFINITY, stream());
  set_zero(found, stream());
  for (std::int64_t row = 0; row < m; row += rows) {
    const std::int64_t end = std::min(m, row + rows);
    for (std::int64_t begin = 0; begin < n; begin += columns) {
      between_();
      const std::int64_t some = std::min(n, begin + columns);
      const Tensor products = scratch(kProducts, DType::f32, {end - row, some - begin});
      dot(products, a.rows(row, end), b.rows(begin, some));
      nearest_of_products(found.rows(row, end), best.rows(row, end), products,
                          half.rows(begin, some), begin, stream());
      stream().synchronize();  // so that `between` is called while it works
    }
  }
}

void Products::nearest(Tensor found, ConstTensor a, ConstTensor b) {
  const std::int64_t m = a.shape()[0], parts = b.shape()[0], n = b.shape()[1], width = b.shape()[2];
  if (m == 0) return;
  if (width <= kNearestPartColumns) {
    const std::int64_t most = device() == Device::cpu ? kMostOfParts : kMostOfPartsOnGpu,
                       rows = std::max<std::int64_t>(64, most / (n * parts));
    for (std::int64_t row = 0; row < m; row += rows) {
      between_();
      nearest_parts(found, row, a.rows(row, std::min(m, row + rows)), b, stream());
      stream().synchronize();
    }
    return;
  }
  for (std::int64_t part = 0; part < parts; ++part) {
    ConstTensor of_part = a;
    if (parts > 1) {
      const Tensor narrow = scratch(kPart, DType::f32, {m, width});
      set_zero(narrow, stream());
      collect(narrow, a, {.column = part * width}, 1, stream());
      of_part = narrow;
    }
    const Tensor of_found = found.rows(part, part + 1).reshape({m});
    const ConstTensor others = b.rows(part, part + 1).reshape({n, width});
    if (device() == Device::cpu)
      nearest_by_codes(of_found, of_part, others);
    else
      nearest_by_products(of_found, of_part, others);
  }
}

void Products::each(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  run([&] { parallel_for(count, body); });
}

}  // namespace mt
