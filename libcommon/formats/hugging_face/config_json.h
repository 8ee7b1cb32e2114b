// ConfigJson: a config.json as the readers of families ask for its members.  What a member that is
// absent or null stands for is the reader's to say; one that is something else than a model of ours
// can have is Exit::bad_data, by name.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_object.h"

namespace mt {

// The most that a size may be; as many positions has a model that knows none.
inline constexpr std::int64_t kMostSize = std::numeric_limits<int>::max();

class ConfigJson : public JsonObject {
 public:
  explicit ConfigJson(const JsonObject& object) : JsonObject(object), type_(text("model_type")) {}
  // Reads the object of a part of a model, say of its tower; without a "model_type" it has
  // `usual_type`.
  ConfigJson(const JsonObject& object, std::string_view usual_type)
      : JsonObject(object), type_(text_or("model_type", usual_type)) {}

  // Reads it as one of `type`, whatever it says.
  static ConfigJson as(const JsonObject& object, std::string_view type);

  std::string_view model_type() const { return type_; }
  bool is(std::string_view type) const { return type_ == type; }
  bool is_null(std::string_view name) const;  // it is there, as null
  // Python takes null, too, for no.
  bool flag_or(std::string_view name, bool other) const;

  std::int64_t size(const char* name) const { return number(name, kMostSize); }
  std::int64_t size_or(const char* name, std::int64_t other) const;
  std::int64_t count_or(const char* name, std::int64_t other) const;  // at least 1
  double real_or(const char* name, double other) const;
  double positive_or(const char* name, double other) const;  // above 0 and finite

  void expect_text(const char* name, std::string_view expected) const;
  void expect_flag(const char* name, bool expected) const;
  void expect_number(const char* name, std::int64_t expected) const;

  // A token attends to none behind it; transformers 5 has it so unless is_causal says otherwise.
  void expect_causal() const;
  // What sliding_window, by default 4096, is to --window-size.
  std::string window_size() const;
  // Says for each layer whether layer_types has it with a window; nothing where there is none.
  std::optional<std::vector<bool>> sliding_layers(std::int64_t layers) const;
  // Says for each layer whether mlp_layer_types has it sparse, with experts, and not dense.
  std::optional<std::vector<bool>> sparse_layers(std::int64_t layers) const;

 private:
  // A member that has one of two words for each layer: whether it is the first.
  std::optional<std::vector<bool>> layers_that_are(const char* name, std::string_view word,
                                                   std::string_view other,
                                                   std::int64_t layers) const;

  std::string_view type_;
};

// The names that transformers has for what are three activations.
bool is_erf_gelu(std::string_view name);
bool is_tanh_gelu(std::string_view name);
bool is_silu(std::string_view name);

}  // namespace mt
