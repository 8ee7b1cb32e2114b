// What a model's scores of labelled samples come to: which labels it says, how many of them are
// right, and the predictions as JSON lines.
//
//   {"set":"dev-matched","uid":7,"label":"neutral","prediction":"neutral","scores":[0.1,0.1,0.8]}
//
// scores are probabilities, of the labels or choices in their order, and what is regressed is
// itself; of labels that each may hold, label and prediction are lists.  Without labels, as in a
// benchmark's tests, there is no "label".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "post/labels/labelled_set.h"
#include "train/run/step_report.h"

namespace mt {

class JsonWriter;

// Tally: what all samples of a set come to.
struct Tally {
  std::int64_t total = 0, correct = 0;
  std::vector<std::vector<std::int64_t>> confusion = {};  // [label][prediction]
  double squared = 0;                                     // sum of distances of numbers, squared
  std::int64_t numbers = 0;

  void add(const Tally& other);
  double accuracy() const;  // 0 to 1
  // The mean over labels of 2 P R / (P + R), of those that there are in samples or predictions.
  double macro_f1() const;
};

// The scores are those of the set's sequences, in their order; `labels` are the names of labels.
class LabelScores {
 public:
  LabelScores(const LabelledSet& set, std::vector<double> scores, std::vector<std::string> labels);

  Tally tally() const;
  void write_lines(const std::string& name, std::string& lines) const;

 private:
  std::span<const double> of_sample(std::int64_t i) const;
  std::vector<double> probabilities(std::int64_t i) const;
  std::int64_t predicted(std::int64_t i) const;
  void write_many(std::int64_t i, const char* name, bool of_scores, JsonWriter& json) const;

  const LabelledSet& set_;
  std::vector<double> scores_;
  std::vector<std::string> labels_;
  std::size_t each_;  // scores of a sample
};

// What Megatron-LM says of a set at the end of an epoch, or of all of them together
// (tasks/eval_utils.py).
EpochReport epoch_report(std::int64_t epoch, const std::string& set, const Tally& tally,
                         LabelKind kind, double seconds);
EpochReport overall_report(std::int64_t epoch, const Tally& tally, LabelKind kind);

}  // namespace mt
