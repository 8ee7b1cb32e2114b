// Generator: continues a prompt token by token.
#pragma once

#include <functional>
#include <vector>

#include "infer/runner.h"
#include "infer/sampling.h"

namespace mt {

class Generator {
 public:
  // Tokens from vocab_size on (padding) are never chosen; `eod` ends a text.
  Generator(Runner& runner, const SamplingOptions& options, std::int32_t vocab_size,
            std::int32_t eod)
      : runner_(runner), options_(options), vocab_size_(vocab_size), eod_(eod) {}

  // Up to `count` tokens that follow `prompt` (at least one token), each given to `emit` when it is
  // chosen; stops early after the token that ends a document, which is not emitted.  `text` numbers
  // the texts of a run.  Once the model's positions are used up, the later half of what it saw is
  // its new prompt.
  void generate(std::vector<std::int32_t> prompt, std::int64_t count, std::uint32_t text,
                const std::function<void(std::int32_t)>& emit);

 private:
  std::vector<double> next(std::span<const std::int32_t> ids);
  Runner& runner_;
  SamplingOptions options_;
  std::int32_t vocab_size_, eod_;
};

}  // namespace mt
