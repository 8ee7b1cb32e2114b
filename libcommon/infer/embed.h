// embed: the embeddings of texts by a trained BERT (text_embedder.h), as `mt-generate embed` makes
// them: a line of JSON for each,
//   {"schema":"mt-embed/1","item":0,"tokens":7,"embedding":[0.25,…]}
// `tokens` with both, or a matrix of NumPy's, .npy: float32, [texts, hidden_size].
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/command.h"
#include "tensor/device_options.h"
#include "text/tokenizer.h"

namespace mt {

struct EmbedOptions {
  std::string load, output = "-", key = "text";
  std::string pooling = {};      // "": as the model's folder says, else words
  std::string prompt_name = {};  // of those of the model's folder
  std::vector<std::string> inputs;
  bool pooled = false, normalize = false, force = false;
  std::int64_t micro_batch_size = 4;
  int threads = 0;                     // of the CPU; 0: one a core
  DeviceOptions compute{.dtype = ""};  // completed
  TokenizerOptions tokenizer;
  std::function<void(const std::string&)> warn = {};  // takes what is to be told of the model

  void add_to(CommandLine& cl);
};

// print: takes what goes to stdout.  done: is told of each text.
void embed(const EmbedOptions& options, const std::function<void(std::string_view)>& print,
           const std::function<void()>& done);

}  // namespace mt
