// Calibration: what the linear layers of a GPT read of a text, by which their weights are
// quantized.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "formats/text_reader.h"
#include "nn/probe.h"

namespace mt {

// What a linear layer reads of a text.
struct LayerInputs {
  static constexpr std::int64_t kMostKept = 256;

  std::vector<double> sums, squares;  // of |x| and of x², for each channel
  std::vector<float> largest;         // |x| of each channel
  std::int64_t tokens = 0;
  std::vector<float>
      some;  // kMostKept of them or fewer, those of a channel kMostKept apart; or none
  std::int64_t kept = 0;
};

class Calibration final : public Probe {
 public:
  // To be shown what the model of a path makes of so many sequences, of which LayerInputs::some are
  // kept where `keeps`.
  Calibration(std::string path, std::int64_t sequences, bool keeps);

  // Exit::bad_data for inputs that are not finite.
  void look(const Param& module, const char* what, ConstTensor tensor, Stream& stream) override;
  // Finds the inputs of a row; null, or Exit::bad_config, where none were seen.
  const LayerInputs* find(const Param& row) const;
  const LayerInputs& of(const Param& row) const;

 private:
  std::string path_;
  std::int64_t kept_of_sequence_;
  bool keeps_;
  std::map<std::string, LayerInputs> inputs_;
};

// The model reads the text.  `keeps` as above.
Calibration calibrate(const ModelSource& source, const TextOptions& options, bool keeps,
                      const Log& log);

// Whether a row is such a parameter of a layer.
bool is_of_layer(const Param& row, std::string_view param);

}  // namespace mt
