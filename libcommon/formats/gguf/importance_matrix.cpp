#include "formats/gguf/importance_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/gguf.h"

namespace mt {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";
constexpr float kMost = 1e20F;  // sums over a block by larger ones would not be finite

bool is_count(float count) { return count >= 0 && std::isfinite(count); }

std::vector<float> numbers_of(const GgufReader& file, const DistTensor& tensor) {
  if (tensor.dtype != DType::f32)
    fail(Exit::bad_data, file.path(), ": tensor ", tensor.key, " is ", tensor.dtype_name,
         ", expected float32");
  std::vector<float> numbers(static_cast<std::size_t>(tensor.shape.numel()));
  file.read_original(tensor.key, origin_of(tensor.shape.rank()),
                     {numbers.data(), DType::f32, tensor.shape});
  return numbers;
}

// A file of the older form, field by field.
class Dat {
 public:
  Dat(const std::string& path, std::string_view bytes) : path_(path), left_(bytes) {}
  template <class T>
  T number(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  std::size_t count(const char* what, std::size_t most) {
    const auto value = number<std::int32_t>(what);
    if (value < 1 || static_cast<std::size_t>(value) > most)
      fail(Exit::bad_data, path_, ": ", value, " ", what,
           ": is no importance matrix of llama.cpp's, or damaged");
    return static_cast<std::size_t>(value);
  }
  std::string_view take(std::size_t bytes, const char* what) {
    if (left_.size() < bytes) fail(Exit::bad_data, path_, ": ends within its ", what);
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }
  std::size_t left() const { return left_.size(); }

 private:
  const std::string& path_;
  std::string_view left_;
};

}  // namespace

ImportanceMatrix::ImportanceMatrix(const std::string& path) : path_(path) {
  if (is_gguf_file(path))
    read_gguf();
  else
    read_dat();
  if (of_tensor_.empty()) fail(Exit::bad_data, path, ": has no tensor's importance");
}

void ImportanceMatrix::read_gguf() {
  const GgufReader file(path_);
  for (const auto& [key, tensor] : file.tensors()) {
    if (!key.ends_with(kSums)) continue;
    const std::string name = key.substr(0, key.size() - kSums.size());
    std::vector<float> columns = numbers_of(file, tensor);
    const std::vector<float> counts = numbers_of(file, file.at(concat(name, kCounts)));
    const std::int64_t matrices = tensor.shape.rank() < 2 ? 1 : tensor.shape[0];
    if (std::ssize(counts) != matrices || matrices == 0)
      fail(Exit::bad_data, path_, ": tensor ", name, kCounts, ": has ", counts.size(),
           " numbers, expected one for each of ", matrices, " matrices");
    if (!std::ranges::all_of(counts, is_count))
      fail(Exit::bad_data, path_, ": tensor ", name, kCounts,
           ": has numbers that are below 0 or not finite");
    const std::size_t each = columns.size() / counts.size();
    for (std::size_t i = 0; i < columns.size(); ++i)
      columns[i] = counts[i / each] > 0 ? columns[i] / counts[i / each] : 1;
    add(name, std::move(columns));
  }
}

void ImportanceMatrix::read_dat() {
  const std::string bytes = read_file(path_);
  Dat dat(path_, bytes);
  for (std::size_t left = dat.count("tensors", 1 << 20); left > 0; --left) {
    const std::string name(dat.take(dat.count("bytes of a name", 1 << 16), "name"));
    const auto calls = dat.number<std::int32_t>("calls");
    const std::size_t count = dat.count("numbers", dat.left() / sizeof(float));
    std::vector<float> columns(count);
    std::memcpy(columns.data(), dat.take(count * sizeof(float), "numbers").data(),
                count * sizeof(float));
    if (calls > 0)
      for (float& column : columns) column /= static_cast<float>(calls);
    add(name, std::move(columns));
  }
}

void ImportanceMatrix::add(const std::string& tensor, std::vector<float> columns) {
  if (!std::ranges::all_of(columns, [](float x) { return x >= 0 && x <= kMost; }))
    fail(Exit::bad_data, path_, ": ", tensor, ": has numbers that are below 0, or above ", kMost,
         ", or none");
  of_tensor_[tensor] = std::move(columns);
}

std::span<const float> ImportanceMatrix::of(const std::string& tensor, std::int64_t part,
                                            std::int64_t parts, std::int64_t columns) const {
  const auto found = of_tensor_.find(tensor);
  if (found == of_tensor_.end()) return {};
  if (std::ssize(found->second) != parts * columns)
    fail(Exit::bad_data, path_, ": ", tensor, ": has ", found->second.size(),
         " numbers, expected one for each of ", parts * columns, " columns");
  return std::span(found->second)
      .subspan(static_cast<std::size_t>(part * columns), static_cast<std::size_t>(columns));
}

}  // namespace mt
