// ConvertPlan: what a conversion makes of what: the model that is read, the target that its rows go
// to, and in which types; made, with what does not fit refused, before any row is written.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "formats/convert.h"
#include "formats/gguf/importance_matrix.h"
#include "formats/model_sink.h"
#include "model/config/model_config.h"
#include "tensor/param.h"

namespace mt {

class Calibration;

struct ConvertPlan {
  // Exit::bad_config for options that do not fit INPUT, or each other in the target's format.
  explicit ConvertPlan(const ConvertOptions& options);

  // What is quantized by a text: the model reads it, and is smoothed, or its importance found.
  void calibrate(const ConvertOptions& options, const Log& log);

  DType dtype_of(const Param& row, const std::string& state) const;
  // What goes along of a row: its values, and maybe states.
  std::span<const std::string> states_of(const Param& row) const;

  std::uint64_t bytes_of(const Param& row, const std::string& state) const;
  std::uint64_t bytes_of(const Param& row) const;
  std::uint64_t bytes() const;
  std::uint64_t largest_bytes() const;  // of one state of a row
  std::uint64_t written_bytes() const;  // that the target has of the rows

  std::unique_ptr<ModelSource> source;
  ModelConfig config;  // the target's
  ModelTarget target;
  ParamTable table;  // without values
  bool stored_dtype;
  bool gguf;
  bool in_order;                              // the target is written from front to back
  bool by_stages;                             // parts of the target are pipeline ranks
  std::vector<std::string> states = {""};     // the first, of all
  std::map<std::string, float> input_ranges;  // the target's
  ImportanceMatrix importance;                // its, if it has one

 private:
  [[noreturn]] void refuse_states() const;
  void check_loader(const std::string& loader) const;
  void check_layout(const ConvertOptions& options) const;
  void check_t5(const ConvertOptions& options) const;
  void check_tensor_ranks() const;
  void keep_ranges(const Calibration& calibration);
};

}  // namespace mt
