#include "train/run/foreign_model.h"

#include <cstring>
#include <filesystem>

#include "ckpt/megatron_checkpoint.h"
#include "ckpt/torch_file.h"
#include "formats/finite_weights.h"
#include "formats/gguf/gguf_source.h"
#include "formats/megatron/run_config.h"
#include "formats/peft/peft_folder.h"
#include "model/config/model_config.h"
#include "nn/packed_weight.h"

namespace mt {

namespace fs = std::filesystem;

// The folder of an iteration that Megatron Bridge saved, whose settings are no args; else empty.
static std::string bridge_checkpoint(const std::string& path, std::optional<std::int64_t> step) {
  const auto place = find_checkpoint(path, step);
  std::error_code none;
  return place && fs::exists(concat(place->folder, "/", kRunConfig), none) ? place->folder : "";
}

std::string find_foreign_model(const std::string& path, std::optional<std::int64_t> step) {
  std::error_code none;
  if (path.empty() || !fs::exists(path, none)) return {};
  refuse_unread(path);
  bool found = true;
  if (!fs::is_directory(path, none)) {
    if (!find_gguf(path)) fail_without_model(path);
  } else {
    const auto has = [&](const char* name) { return fs::exists(concat(path, "/", name), none); };
    if (has(kTracker) || has(kTrainState) || is_one_checkpoint(path))
      return bridge_checkpoint(path, step);
    found = has("config.json") || has("params.json") || has(kAdapterConfig) ||
            find_gguf(path).has_value();
  }
  if (found && step)
    fail(Exit::usage, "--ckpt-step ", *step, ": ", path, " is a model, which has no iterations");
  return found ? path : "";
}

static void read_whole(const ModelSource& source, const Param& row, std::int64_t words,
                       Tensor out) {
  const std::int64_t known = source.config().vocab_size;
  if (!row.is_vocabulary() || words <= known) return source.read(row, "", out);
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * sizeof(float));
  const Tensor all = buffer.tensor(DType::f32, row.shape);
  source.read(row, "", all);
  auto* const numbers = static_cast<float*>(all.data());
  const std::int64_t width = row.shape.numel() / row.shape[0];
  for (std::int64_t column = 0; column < width; ++column) {
    double sum = 0;
    for (std::int64_t r = 0; r < known; ++r) sum += double{numbers[r * width + column]};
    for (std::int64_t r = known; r < words; ++r)
      numbers[r * width + column] = static_cast<float>(sum / static_cast<double>(known));
  }
  dense(DType::f32, row.shape, {static_cast<const std::byte*>(all.data()), all.bytes()})
      .copy_to(origin_of(row.shape.rank()), out);
}

// The row as one rank alone has it, which is what a source reads.
static Param uncut(const Param& row) {
  Param whole = row;
  whole.local = row.shape;
  whole.cuts = {{.extent = row.shape[row.dimension]}};
  return whole;
}

void read_part(const ModelSource& source, const Param& row, std::int64_t words, Tensor out) {
  if (row.packed_as != PackedAs::none) {
    const Buffer buffer(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * sizeof(float));
    const Tensor whole = buffer.tensor(DType::f32, row.shape);
    source.read(uncut(row), "", whole);
    check_finite(source.path(), row, whole);
    return pack(row, whole, out);
  }
  if (!row.is_cut()) return read_whole(source, row, words, out);
  const Buffer buffer(Device::cpu,
                      static_cast<std::size_t>(row.shape.numel()) * size_of(out.dtype()));
  const Tensor whole = buffer.tensor(out.dtype(), row.shape);
  read_whole(source, uncut(row), words, whole);
  copy_part(row, whole, out);
}

void copy_part(const Param& row, ConstTensor whole, Tensor out) {
  if (!row.is_cut()) {
    std::memcpy(out.data(), whole.data(), whole.bytes());
    return;
  }
  const std::size_t size = size_of(out.dtype());
  for (const Cut& cut : row.cuts) {
    if (row.dimension == 0) {
      const ConstTensor from = whole.rows(cut.global, cut.global + cut.extent);
      std::memcpy(out.rows(cut.local, cut.local + cut.extent).data(), from.data(), from.bytes());
      continue;
    }
    const auto bytes = static_cast<std::size_t>(cut.extent) * size;
    for (std::int64_t i = 0; i < row.shape[0]; ++i)
      std::memcpy(static_cast<std::byte*>(out.rows(i, i + 1).data()) +
                      static_cast<std::size_t>(cut.local) * size,
                  static_cast<const std::byte*>(whole.rows(i, i + 1).data()) +
                      static_cast<std::size_t>(cut.global) * size,
                  bytes);
  }
}

}  // namespace mt
