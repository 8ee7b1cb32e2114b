// What looks into checkpoints share: how they open them, and what stands in what they print.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "ckpt/tensor_source.h"
#include "formats/inspect.h"
#include "formats/model_source.h"

namespace mt::inspected {

inline constexpr const char* kSchema = "mt-convert/1";
// Hashes of large files are compared once what is wanted of them was read, if anything is.
inline const ModelSourceOptions kWhileReading = {.check_while_reading = true};

void write_extents(JsonWriter& json, const Shape& shape);

// Fails as fail_without_model() does where nothing is there.
void check_is_there(const std::string& path);
std::unique_ptr<TensorSource> tensors_in(const std::string& path);
bool is_model(const std::string& path);

// With its optimizer's state, if that can be read; if not, the user is told so.
std::unique_ptr<ModelSource> open_with_states(const InspectOptions& options,
                                              const std::string& path);

}  // namespace mt::inspected
