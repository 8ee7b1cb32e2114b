// embed_evidence: vectors of passages by the context tower of a trained model of two, as
// Megatron-LM's create_doc_index.py makes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/run_context.h"
#include "formats/load_model.h"
#include "model/config/launch_flags.h"
#include "tensor/device_options.h"
#include "text/tokenizer.h"

namespace mt {

class CommandLine;

// What both passages and questions are read and embedded by.
struct TowerUseOptions {
  std::string load;
  std::int64_t batch = 128, length = 256;
  DeviceOptions compute{.dtype = ""};  // completed
  TokenizerOptions tokenizer;
  int threads = 0;
  LaunchFlags launch;
  std::optional<std::int64_t> projection_dim;  // that the model must have
  bool shared = false;                         // whether it must have one tower
  void add_to(CommandLine& cl);
  // Exit::bad_config where the command line says otherwise of the model than it is.
  LoadedModel load_towers() const;
};

struct EmbedEvidenceOptions {
  TowerUseOptions towers;
  std::string evidence, output;
  std::int64_t log_interval = 1000;  // batches
  bool force = false;
  void add_to(CommandLine& cl);
};

// Writes a file of BlockData (block_data.h).  Exit::bad_data where two passages have one id.
void embed_evidence(const EmbedEvidenceOptions& options, const RunContext& context);

}  // namespace mt
