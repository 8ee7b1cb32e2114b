#include "ckpt/tensor_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "tensor/buffer.h"

namespace mt {

constexpr std::int64_t kBlock = 1 << 20;  // elements that are read at a time

void for_each_block(const Shape& whole, std::int64_t most,
                    const std::function<void(const Shape& offset, const Shape& shape)>& body) {
  if (whole.numel() == 0) return;
  // Axes behind `axis` are whole in every block, those before it are one element.
  int axis = whole.rank();
  std::int64_t inner = 1;
  while (axis > 0 && inner * whole[axis - 1] <= most) inner *= whole[--axis];
  std::vector<std::int64_t> offset(static_cast<std::size_t>(whole.rank()), 0);
  std::vector<std::int64_t> shape(whole.extents().begin(), whole.extents().end());
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  const auto visit = [&] {
    body(Shape(std::span<const std::int64_t>(offset)), Shape(std::span<const std::int64_t>(shape)));
  };
  if (axis == 0) return visit();
  const int cut = axis - 1;
  const std::int64_t rows = std::max<std::int64_t>(most / inner, 1);
  std::fill(shape.begin(), shape.begin() + cut, 1);
  for (;;) {
    for (offset[at(cut)] = 0; offset[at(cut)] < whole[cut]; offset[at(cut)] += rows) {
      shape[at(cut)] = std::min(rows, whole[cut] - offset[at(cut)]);
      visit();
    }
    int outer = cut;
    while (outer > 0 && ++offset[at(outer - 1)] == whole[outer - 1]) offset[at(--outer)] = 0;
    if (outer == 0) return;
  }
}

template <class T>
static void append(ConstTensor tensor, std::vector<double>& numbers) {
  const auto* bytes = static_cast<const std::byte*>(tensor.data());
  for (std::int64_t i = 0; i < tensor.numel(); ++i, bytes += sizeof(T)) {
    T element;
    std::memcpy(&element, bytes, sizeof element);
    if constexpr (!std::is_arithmetic_v<T>)
      numbers.push_back(static_cast<double>(static_cast<float>(element)));
    else
      numbers.push_back(static_cast<double>(element));
  }
}

void to_doubles(ConstTensor tensor, std::vector<double>& numbers) {
  numbers.clear();
  numbers.reserve(static_cast<std::size_t>(tensor.numel()));
  switch (tensor.dtype()) {
    case DType::f32:
      return append<float>(tensor, numbers);
    case DType::f64:
      return append<double>(tensor, numbers);
    case DType::f16:
      return append<Fp16>(tensor, numbers);
    case DType::bf16:
      return append<Bf16>(tensor, numbers);
    case DType::f8:
      return append<Fp8>(tensor, numbers);
    case DType::i64:
      return append<std::int64_t>(tensor, numbers);
    case DType::i32:
      return append<std::int32_t>(tensor, numbers);
    case DType::i16:
      return append<std::int16_t>(tensor, numbers);
    case DType::i8:
      return append<std::int8_t>(tensor, numbers);
    case DType::u8:
    case DType::boolean:
      return append<std::uint8_t>(tensor, numbers);
  }
}

// --- One tensor ---------------------------------------------------------------------------------

void TensorNumbers::add(double number) {
  ++count;
  if (std::isnan(number)) {
    ++nans;
  } else if (std::isinf(number)) {
    ++infinities;
  } else {
    zeros += number == 0;
    least = std::min(least, number);
    most = std::max(most, number);
    sum += number;
    sum_of_squares += number * number;
  }
}

double TensorNumbers::rms() const {
  return std::sqrt(sum_of_squares / static_cast<double>(finite()));
}

void TensorNumbers::write(JsonWriter& json) const {
  json.member("count", count).member("nans", nans).member("infinities", infinities);
  json.member("zeros", zeros).member("least", least).member("most", most);
  json.member("mean", mean()).member("rms", rms());
}

template <class Body>
static void for_each_number(const TensorSource& source, const std::string& key, const Body& body) {
  const DistTensor& tensor = source.at(key);
  const auto size = static_cast<std::size_t>(std::min(kBlock, tensor.own_shape().numel()));
  const Buffer buffer(Device::cpu, size * size_of(*tensor.dtype));
  std::vector<double> numbers;
  for_each_block(tensor.own_shape(), kBlock, [&](const Shape& offset, const Shape& shape) {
    const Tensor block = buffer.tensor(*tensor.dtype, shape);
    source.read_original(key, offset, block);
    to_doubles(block, numbers);
    for (const double number : numbers) body(number);
  });
}

TensorNumbers numbers_of(const TensorSource& source, const std::string& key) {
  TensorNumbers numbers;
  for_each_number(source, key, [&](double number) { numbers.add(number); });
  return numbers;
}

TensorNumbers numbers_of(ConstTensor tensor) {
  TensorNumbers numbers;
  const ConstTensor all = tensor.reshape({tensor.numel()});
  std::vector<double> block;
  for (std::int64_t at = 0; at < all.numel(); at += kBlock) {
    to_doubles(all.rows(at, std::min(at + kBlock, all.numel())), block);
    for (const double number : block) numbers.add(number);
  }
  return numbers;
}

// Whether the exponents of all elements, which may begin at any byte, have a bit that is 0.
template <class Bits>
static bool has_finite(ConstTensor tensor, Bits exponent) {
  constexpr std::size_t kCopied = 1024;
  std::array<Bits, kCopied> bits = {};
  const auto* at = static_cast<const std::byte*>(tensor.data());
  for (std::size_t left = tensor.bytes(); left > 0;) {
    const std::size_t bytes = std::min(left, sizeof bits);
    if (bytes < sizeof bits) bits = {};
    std::memcpy(bits.data(), at, bytes);
    Bits found = 0;
    for (const Bits element : bits)
      found |= static_cast<Bits>((element & exponent) == exponent ? 1 : 0);
    if (found != 0) return false;
    at += bytes;
    left -= bytes;
  }
  return true;
}

bool is_finite(ConstTensor tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return has_finite<std::uint32_t>(tensor, 0x7F800000);
    case DType::f64:
      return has_finite<std::uint64_t>(tensor, 0x7FF0000000000000);
    case DType::f16:
      return has_finite<std::uint16_t>(tensor, 0x7C00);
    case DType::bf16:
      return has_finite<std::uint16_t>(tensor, 0x7F80);
    default: {
      const TensorNumbers numbers = numbers_of(tensor);
      return numbers.finite() == numbers.count;
    }
  }
}

std::vector<std::int64_t> histogram_of(const TensorSource& source, const std::string& key,
                                       const TensorNumbers& numbers, std::size_t bins) {
  std::vector<std::int64_t> counts(bins, 0);
  const double width = numbers.most - numbers.least;
  for_each_number(source, key, [&](double number) {
    if (!std::isfinite(number)) return;
    const double place =
        width > 0 ? (number - numbers.least) / width * static_cast<double>(bins) : 0;
    ++counts[std::min(static_cast<std::size_t>(place), bins - 1)];
  });
  return counts;
}

// --- Two tensors --------------------------------------------------------------------------------

void TensorDifference::add(double a, double b) {
  ++count;
  aa += a * a;
  bb += b * b;
  ab += a * b;
  if (a == b || (std::isnan(a) && std::isnan(b))) return;
  ++differing;
  const double difference = std::abs(a - b);
  largest = std::isnan(difference) || difference > largest ? difference : largest;
  sum_of_squares += difference * difference;
}

double TensorDifference::rms() const {
  return count == 0 ? 0 : std::sqrt(sum_of_squares / static_cast<double>(count));
}

double TensorDifference::cosine() const { return differing == 0 ? 1 : ab / std::sqrt(aa * bb); }

void TensorDifference::write(JsonWriter& json) const {
  json.member("count", count).member("differing", differing).member("largest", largest);
  json.member("rms", rms()).member("cosine", cosine());
}

}  // namespace mt
