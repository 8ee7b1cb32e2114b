// HeadConfig: what a model that was finetuned to a task has behind its layers, in place of the head
// that it was pretrained with: scores of whole sequences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

// How heads of tasks are called, and their rows: BERT's as Megatron calls them, of a text and of a
// text that is a choice among several; and a GPT's as transformers does.
// A ViT's are of images, of which it tells the class, as Megatron's or as transformers' does, or
// paints the patches.
inline constexpr std::string_view kClassificationHead = "classification_head",
                                  kMultichoiceHead = "multichoice_head", kScoreHead = "score",
                                  kImageHead = "head", kImageClassifier = "classifier",
                                  kImageDecoder = "linear_decoder";

// What names of the rows of a value head begin with (nn/value_head.h).
inline constexpr std::string_view kValueHead = "value_head";

struct HeadConfig {
  std::string task_head;        // one of these; "": it has the head that it is pretrained with
  std::int64_t num_labels = 0;  // scores of a sequence
  std::string label_names;      // what they are of, in their order, a line each; "": numbers

  bool output_bias = false;  // of a GPT's output layer

  // Whether a value head is beside the head of words, which a policy has while it learns.
  bool value_head = false;

  bool has_task_head() const { return !task_head.empty(); }
  // Whether rows of this stack are of a head that begins anew where a model's other weights are
  // taken, and learns where these are frozen.
  bool is_new_head(std::string_view stack) const {
    return (has_task_head() && stack == task_head) || (value_head && stack == kValueHead);
  }
  // Their names, and numbers behind those that have names.
  std::vector<std::string> labels() const;
  std::size_t named_labels() const;
};

}  // namespace mt
