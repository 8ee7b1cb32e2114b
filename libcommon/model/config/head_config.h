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

struct HeadConfig {
  std::string task_head;        // one of these; "": it has the head that it is pretrained with
  std::int64_t num_labels = 0;  // scores of a sequence
  std::string label_names;      // what they are of, in their order, a line each; "": numbers

  bool has_task_head() const { return !task_head.empty(); }
  // Their names, and numbers behind those that have names.
  std::vector<std::string> labels() const;
  std::size_t named_labels() const;
};

}  // namespace mt
