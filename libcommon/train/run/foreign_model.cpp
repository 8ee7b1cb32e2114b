#include "train/run/foreign_model.h"

#include <cstring>
#include <filesystem>

#include "ckpt/megatron_checkpoint.h"
#include "formats/gguf/gguf_source.h"

namespace mt {

namespace fs = std::filesystem;

bool is_foreign_model(const std::string& path) {
  std::error_code none;
  if (path.empty()) return false;
  if (!fs::exists(path, none)) return false;
  if (!fs::is_directory(path, none)) {
    if (!find_gguf(path)) fail_without_model(path);
    return true;
  }
  const auto has = [&](const char* name) { return fs::exists(concat(path, "/", name), none); };
  if (has(kTracker) || is_one_checkpoint(path)) return false;
  if (has("run_config.yaml"))
    fail(Exit::bad_config, path,
         ": is a checkpoint of NeMo's or Megatron Bridge's (run_config.yaml), which is not read; "
         "its own exporter makes a folder of Hugging Face's");
  return has("config.json") || has("params.json") || find_gguf(path).has_value();
}

void read_part(const ModelSource& source, const Param& row, Tensor out) {
  if (!row.is_cut()) return source.read(row, "", out);
  const std::size_t size = size_of(out.dtype());
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * size);
  const Tensor whole = buffer.tensor(out.dtype(), row.shape);
  source.read(row, "", whole);
  for (const Cut& cut : row.cuts) {
    if (row.dimension == 0) {
      const Tensor from = whole.rows(cut.global, cut.global + cut.extent);
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
