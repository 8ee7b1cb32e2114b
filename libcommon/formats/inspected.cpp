#include "formats/inspected.h"

#include <filesystem>

#include "ckpt/megatron_checkpoint.h"
#include "formats/megatron/core_source.h"
#include "formats/megatron/dcp_source.h"

namespace mt::inspected {

void write_extents(JsonWriter& json, const Shape& shape) {
  json.begin_array();
  for (const std::int64_t extent : shape.extents()) json.value(extent);
  json.end_array();
}

void check_is_there(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) fail_without_model(path);
}

std::unique_ptr<TensorSource> tensors_in(const std::string& path) {
  check_is_there(path);
  return open_tensors(path);
}

bool is_model(const std::string& path) {
  return std::filesystem::exists(path + "/config.json") ||
         std::filesystem::exists(path + "/params.json") || is_core_dcp_with_args(path) ||
         (std::filesystem::is_directory(path) && find_checkpoint(path));
}

std::unique_ptr<ModelSource> open_with_states(const InspectOptions& options,
                                              const std::string& path) {
  ModelSourceOptions with_states = kWhileReading;
  with_states.with_optimizer = true;
  try {
    return open_model(path, with_states);
  } catch (const Error& error) {
    std::unique_ptr<ModelSource> source = open_model(path, kWhileReading);
    options.note(concat("the optimizer's state is left out: ", error.what()));
    return source;
  }
}

}  // namespace mt::inspected
