// run_task: asks a model of a task's documents, in groups of many, and passes on what it says of
// each, in their order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "eval/tasks/task_metrics.h"
#include "eval/tasks/task_prompt.h"
#include "text/tokenizer.h"

namespace mt {

// EvalImages: the files of a document's images, and the place that it is told by, FILE:LINE.
struct EvalImages {
  std::vector<std::string> files;
  std::string place;
};

// EvalModel: what a task needs of a model.
struct EvalModel {
  const Tokenizer& tokenizer;
  std::int64_t vocab_size = 0;    // tokens that the model knows
  std::int64_t max_length = 0;    // inputs of a sequence at most
  std::int64_t image_token = -1;  // in whose place an image stands; -1: it reads none
  // As ScorePass::score() (infer/score_pass.h).
  std::function<void(std::span<const std::span<const std::int32_t>> ids,
                     std::span<const std::span<double>> nll,
                     std::span<const std::span<std::uint8_t>> likeliest)>
      score = {};
  // The texts that continue each prompt, so many of each; with its images.
  std::function<std::vector<std::vector<std::string>>(
      std::span<const std::vector<std::int32_t>> prompts, std::span<const EvalImages> images,
      const EvalGeneration& generation, std::int64_t repeats)>
      generate = {};
  // How many tokens an image takes, by its file.
  std::function<std::int64_t(const std::string& file)> tokens_of_image = {};

  bool reads_images() const { return image_token >= 0; }
};

// ScoredTokens: the tokens of a request, the last of which are scored.
struct ScoredTokens {
  std::vector<std::int32_t> ids;
  std::size_t scored = 0;
};

// The tokens of a text and of what follows it: those of both together, of which as many are the
// text's as it has alone, where white space at its end belongs to what follows.  An empty text is
// the token that begins one (BOS, or what ends a document).  Text that begins with BOS gets none.
// Only the last `max_length` + 1 are kept.
ScoredTokens tokens_of(const Tokenizer& tokenizer, const EvalRequest& request,
                       std::int64_t max_length);
// The windows of a text, each token of which is scored once: every window but the last has only
// one token before those that it scores, and the last as many as fit.
std::vector<ScoredTokens> rolling_tokens_of(const Tokenizer& tokenizer, const std::string& text,
                                            std::int64_t max_length);

// EvalAnswer: what a model says of a document.
struct EvalAnswer {
  EvalItem item;
  std::vector<EvalResponse> responses = {};  // to its requests; empty where texts are made
  std::vector<std::string> texts = {};       // of the one request that asks for them
  std::vector<std::vector<ScoredTokens>> tokens = {};     // of each request
  std::vector<std::vector<double>> token_log_probs = {};  // of each request's scored ones
};

struct EvalDocs {
  std::vector<ChatValue> docs = {};
  std::vector<std::string> places = {};   // of each, for errors: "FILE:LINE"
  std::vector<std::string> folders = {};  // of each, where its images are; none: the current one
};

// The first `passed` documents are not asked of again: they only take their examples.
void run_task(const EvalTask& task, const EvalDocs& docs, std::size_t passed, TaskPrompts& prompts,
              const EvalModel& model, const std::function<void(const EvalItem&)>& pass,
              const std::function<void(const EvalAnswer&)>& answered);

}  // namespace mt
