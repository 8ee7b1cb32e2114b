// What a retriever learns of questions, and what it is judged by (Megatron-LM core_v0.12.1,
// tasks/orqa/supervised/data.py).  Fields are those of data/samples/ict_samples.h.
#pragma once

#include <memory>
#include <vector>

#include "data/samples/samples.h"
#include "post/labels/epoch_order.h"
#include "post/retrieval/dpr_file.h"
#include "text/bert/tower_text.h"

namespace mt {

// DprSamples: each question with its own passage and so many that do not answer it, of the hard
// ones first and, where there are fewer, of the others: of both in an order that is drawn anew for
// each sample of the run, by numpy's RandomState(seed + its number); Megatron-LM draws them from
// one stream for all.  Samples come in the order of the run's epochs.  Thread-safe.
class DprSamples final : public Samples {
 public:
  struct Options {
    std::int64_t seq_length = 0, negatives = 0;
    std::uint32_t seed = 1234;
    EpochOptions order = {};
  };
  // The tokenizer must outlive it.  Each question has as many other passages as are asked for.
  DprSamples(std::string name, std::vector<DprQuestion> questions, const Tokenizer& tokenizer,
             const Options& options);

  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return order_.size(); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t n, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t n, const Tokenizer& tokenizer) const override;
  void write(std::int64_t n, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return {}; }

  std::int64_t questions() const { return std::ssize(questions_); }

 private:
  std::vector<const DprPassage*> passages(std::int64_t n, const DprQuestion& question) const;
  const DprQuestion& question(std::int64_t n) const;

  std::string name_;
  std::vector<DprQuestion> questions_;
  TowerText words_;
  Options options_;
  FieldSpecs fields_;
  EpochSamples order_;
};

// JudgedSamples: all passages that a question is judged with, its own, then the first of the others
// and of the hard ones, in samples that have the question and as many passages as there is room
// for.
class JudgedSamples final : public Samples {
 public:
  struct Options {
    std::int64_t seq_length = 0, contexts = 1;  // contexts: of a sample
    std::int64_t hard = 30, others = 30;        // passages of a question, at most
  };
  JudgedSamples(std::string name, std::vector<DprQuestion> questions, const Tokenizer& tokenizer,
                const Options& options);

  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return std::ssize(parts_); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override;
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return {}; }

  // How the questions do, by the vectors of each sample, [1 + contexts, width]: of each group of so
  // many questions that follow each other, all passages are what each question's own is found
  // among.  Exit::bad_data where a product of vectors is not finite.
  struct Ranks {
    std::int64_t questions = 0;
    double rank = 0;                // mean of how many are before its own
    std::vector<double> tops = {};  // in a hundred, whose own is among the first k
  };
  Ranks ranks(std::span<const double> vectors, std::int64_t width, std::int64_t group,
              std::span<const std::int64_t> tops) const;

 private:
  struct Part {  // of a question's passages
    std::int64_t question = 0, begin = 0, end = 0;
  };
  std::vector<const DprPassage*> passages(const DprQuestion& question) const;

  std::string name_;
  std::vector<DprQuestion> questions_;
  TowerText words_;
  Options options_;
  FieldSpecs fields_;
  std::vector<Part> parts_;
};

}  // namespace mt
