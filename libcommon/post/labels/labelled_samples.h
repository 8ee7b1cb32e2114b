// LabelledSamples: the sequences of a labelled set, as a model reads them.  A sample of several
// choices is as many sequences, one after the other.
//   of a BERT   [CLS] A [SEP] B [SEP], or [CLS] A [SEP], then padding; types are 0 for what stands
//               before B, else 1.  What is too long loses its end, but for the last [SEP]
//               (Megatron-LM core_v0.12.1, tasks/data_utils.py).
//               Tokens that a tokenizer puts around a text by itself are taken away.
//   of a GPT    A, and B in a line of its own, as its tokenizer has texts, with the token that
//               begins one, if it puts it there; what is too long loses its end.
//   labels      which one of several, for each sequence of the sample; or `values`, numbers
//   loss_mask   1
// with lengths and positions.  Thread-safe.
#pragma once

#include <memory>

#include "data/samples/samples.h"
#include "post/labels/labelled_set.h"
#include "text/tokenizer.h"

namespace mt {

struct SequenceOptions {
  std::int64_t seq_length = 0;
  bool is_bert = true;
  std::int64_t most_of_a = 0;  // tokens of A, where it is cut; 0: all
  std::int64_t labels = 1;     // numbers of a sample, where it has numbers
  LabelKind kind = LabelKind::one;
  std::int64_t choices = 1;

  LabelledSequences labelled() const {
    return {.seq_length = seq_length, .labels = labels, .kind = kind, .choices = choices};
  }
};

// What the sequences of such samples bring.
FieldSpecs sequence_fields(const SequenceOptions& options);

class LabelledSamples final : public Samples {
 public:
  // The tokenizer must outlive it.  Exit::bad_config where it lacks tokens that a BERT needs.
  LabelledSamples(LabelledSet set, const Tokenizer& tokenizer, const SequenceOptions& options);

  const std::string& name() const override { return set_.name; }
  std::int64_t size() const override { return std::ssize(set_.pairs); }  // sequences
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sequence) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override;
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return {}; }

  const LabelledSet& set() const { return set_; }

 private:
  struct Sequence {
    std::vector<std::int32_t> ids;
    std::size_t first_text = 0;  // tokens before B
  };
  Sequence sequence(std::int64_t k) const;
  // Appends the tokens of a text, without those around it, at most so many; 0: all.
  void add_text(std::int64_t text, std::int64_t most, std::vector<std::int32_t>& ids) const;

  LabelledSet set_;
  const Tokenizer& tokenizer_;
  SequenceOptions options_;
  SpecialTokens special_;
  std::size_t before_ = 0, behind_ = 0;  // tokens that the tokenizer puts around a text
  FieldSpecs fields_;
};

}  // namespace mt
