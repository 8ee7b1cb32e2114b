#include "model/model.h"

#include <cmath>
#include <numbers>

#include "base/half.h"
#include "kernels/fill_random.h"
#include "nn/packed_weight.h"
#include "ops/ops.h"
#include "tensor/host_copy.h"

namespace mt {

// What a weight's random numbers are for: FNV-1a of its name.
static std::uint32_t purpose_of(const std::string& name) {
  std::uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

static void put(const Tensor& numbers, std::int64_t i, double x) {
  switch (numbers.dtype()) {
    case DType::bf16:
      static_cast<Bf16*>(numbers.data())[i] = Bf16(static_cast<float>(x));
      return;
    case DType::f16:
      static_cast<Fp16*>(numbers.data())[i] = Fp16(static_cast<float>(x));
      return;
    default:
      with_float_type(numbers.dtype(), [&]<class T>() { numbers.as<T>()[i] = static_cast<T>(x); });
  }
}

// Of so few numbers that the host makes them: number(u) for the u in (0, 1) of each.
template <class Number>
static void fill_few(const Tensor& value, RandomKey key, std::span<const ElementRun> runs,
                     Stream& stream, const Number& number) {
  if (value.device() == Device::meta) return;
  stream.synchronize();
  const HostCopy host = HostCopy::for_writing(value);
  for (const ElementRun& run : runs)
    for (std::int64_t i = 0; i < run.count; ++i) {
      const auto at = static_cast<std::uint64_t>(run.global + i);
      put(host.tensor(), run.local + i, number(to_unit(words_of(at / 4, key)[at % 4])));
    }
  host.upload();
}

static double decay_of(double u) { return std::log(1 + 15 * u); }
static double step_of(double u) {
  const double step = std::exp(std::log(1e-3) + u * std::log(1e2));
  return step + std::log(-std::expm1(-step));  // softplus makes the step of it
}

void initialize(const Param& row, Tensor value, std::uint64_t seed, Stream& stream) {
  if (value.dtype() != DType::u8) return initialize(row, row.runs(), value, seed, stream);
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * sizeof(float));
  const Tensor whole = buffer.tensor(DType::f32, row.shape);
  const ElementRun all{.count = row.shape.numel()};
  Stream on_host(Device::cpu);
  initialize(row, {&all, 1}, whole, seed, on_host);
  const HostCopy packed = HostCopy::for_writing(value);
  pack(row, whole, packed.tensor());
  packed.upload();
}

void initialize(const Param& row, std::span<const ElementRun> runs, Tensor value,
                std::uint64_t seed, Stream& stream) {
  const RandomKey key =
      RandomKey::make(seed, purpose_of(row.drawn_as.empty() ? row.name() : row.drawn_as));
  switch (row.init.kind) {
    case Initializer::Kind::zeros:
      return set_zero(value, stream);
    case Initializer::Kind::ones:
      return fill(value, 1, stream);
    case Initializer::Kind::constant:
      return fill(value, row.init.std, stream);
    case Initializer::Kind::normal:
      return fill_normal(value, row.init.std, key, runs, stream);
    case Initializer::Kind::uniform:
      return fill_uniform(value, row.init.std * std::numbers::sqrt3, key, runs, stream);
    case Initializer::Kind::decays:
      return fill_few(value, key, runs, stream, decay_of);
    case Initializer::Kind::steps:
      return fill_few(value, key, runs, stream, step_of);
  }
}

void Ends::take_scores(Tensor of_sequences, const Fields& batch, bool training,
                       Stream& stream) const {
  if (logits) copy(logits, of_sequences, stream);
  if (loss) criterion->judge(loss, of_sequences, batch, training ? weight : ConstTensor(), stream);
}

void Model::initialize(std::uint64_t seed, Stream& stream) {
  for (Param& row : table_.rows()) mt::initialize(row, row.value, seed, stream);
}

}  // namespace mt
