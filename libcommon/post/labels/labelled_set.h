// LabelledSet: texts with labels, as the files of a task have them: what samples are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/run/label_kind.h"

namespace mt {

struct LabelledSet {
  // What a sequence is made of: numbers of texts; -1: there is no second one.
  struct Pair {
    std::int64_t a = 0, b = -1;
  };
  std::string name;  // of the file or folder, for errors and results
  std::vector<std::string> texts = {};
  std::vector<Pair> pairs = {};  // `choices` a sample, one after the other
  std::int64_t choices = 1;
  LabelKind kind = LabelKind::one;
  std::vector<std::int32_t> labels = {};  // of each sample, where they are one of several
  std::vector<float> numbers = {};        // else: of each sample as many as there are
  std::vector<std::int64_t> uids = {};    // of each sample
  bool has_labels = true;                 // else they stand for nothing, as in a benchmark's tests

  std::int64_t samples() const { return static_cast<std::int64_t>(uids.size()); }
  std::int64_t add_text(std::string text) {
    texts.push_back(std::move(text));
    return static_cast<std::int64_t>(texts.size()) - 1;
  }
};

// One set of all, under a name.
LabelledSet joined(std::vector<LabelledSet> sets, const std::string& name);

// Takes about such a share of the samples, each of one sequence, out of a set: those whose texts
// have a hash that is small enough, so that equal texts stay together.
LabelledSet held_out(LabelledSet& set, double share);

// Megatron's clean_text: white space of any length becomes one space, and full stops between spaces
// lose the first, three times over.
std::string clean_text(std::string_view text);

// What Python's strip() leaves.
std::string_view strip(std::string_view text);

}  // namespace mt
