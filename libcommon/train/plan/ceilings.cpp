#include "base/threads.h"
#include "ops/ops.h"
#include "train/plan/machine.h"

namespace mt {
namespace {

// The rate of products that the runs of machine.h gave, by that of products alone on that GPU.
constexpr double kProductsInSteps = 690.0 / 656;
// What steps reach on a CPU: products the rate of large ones, attention that part of it, and all
// else that part of a copy's rate, by the profiles of six steps of models with 128 to 768 channels
// (attention 0.27 to 0.73, the optimizer 0.32 to 0.85, norms 0.34 to 1.27).
constexpr double kCpuAttention = 0.5, kCpuCopy = 0.5;

// How long one call of body takes, called for a while after a first call that does not count.
template <class Body>
double seconds_of(Stream& stream, const Body& body) {
  const double long_enough = stream.device() == Device::cuda ? 0.2 : 0.1;
  body();
  for (int calls = 1;; calls *= 2) {
    Profile profile(stream.handle());
    for (int i = 0; i < calls; ++i) body();
    const double seconds = profile.stop().total();
    if (seconds > long_enough) return seconds / calls;
  }
}

double product_rate(DType dtype, Stream& stream) {
  const std::int64_t n = stream.device() == Device::cuda ? 4096 : 1024;
  const Shape shape{n, n};
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  const Buffer out(stream.device(), bytes), a(stream.device(), bytes), b(stream.device(), bytes);
  const std::array runs{ElementRun{.local = 0, .global = 0, .count = shape.numel()}};
  for (const Buffer* input : {&a, &b})  // zeros would be faster
    fill_uniform(input->tensor(dtype, shape), 1, RandomKey::make(1, 1), runs, stream);
  search_products(stream);
  return 2.0 * static_cast<double>(n * n * n) / seconds_of(stream, [&] {
           matmul({.out = out.tensor(dtype, shape),
                   .a = a.tensor(dtype, shape),
                   .b = b.tensor(dtype, shape),
                   .transpose_b = true},
                  stream);
         });
}

// A GPU copies by itself, the CPU with all threads.
double copy_rate(Stream& stream) {
  const std::int64_t count = stream.device() == Device::cuda ? 1 << 26 : 1 << 24;
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  const Buffer from(stream.device(), bytes), to(stream.device(), bytes);
  const Tensor x = from.tensor(DType::f32, {count}), y = to.tensor(DType::f32, {count});
  set_zero(x, stream);
  return 2.0 * static_cast<double>(bytes) / seconds_of(stream, [&] {
           if (stream.device() == Device::cuda)
             copy(y, x, stream);
           else
             scale(y, x, 1, stream);
         });
}

}  // namespace

Ceilings measure_ceilings(DType dtype, Stream& stream) {
  return {.flops = product_rate(dtype, stream), .bytes = copy_rate(stream)};
}

Machine measure_cpu(const MachineOptions& options, DType dtype, int ranks, int threads) {
  Machine machine;
  machine.name = "cpu";
  Workers(ranks * threads).run([&] {
    Stream stream(Device::cpu);
    machine.products = options.tflops ? *options.tflops * 1e12 : product_rate(dtype, stream);
    machine.bytes =
        options.memory_bandwidth ? *options.memory_bandwidth * 1e9 : copy_rate(stream) * kCpuCopy;
  });
  machine.gpus_per_node = ranks;
  machine.node.bytes = machine.bytes;
  machine.products /= ranks;
  machine.bytes /= ranks;
  machine.peak = machine.products;
  machine.attention = machine.products * kCpuAttention;
  return machine;
}

void measure_machine(MachineOptions& options, DType dtype) {
  if (options.name != "here") return;
  if (device::count() == 0)
    fail(Exit::unavailable, "--plan-machine here: there is no GPU that CUDA can use");
  device::check_code();
  Stream stream(Device::cuda);
  const Ceilings ceilings = measure_ceilings(dtype, stream);
  if (!options.tflops) options.tflops = ceilings.flops * kProductsInSteps * 1e-12;
  if (!options.memory_bandwidth) options.memory_bandwidth = ceilings.bytes * 1e-9;
  if (!options.memory)
    options.memory = static_cast<double>(device::total_memory()) / (std::size_t{1} << 30);
}

}  // namespace mt
