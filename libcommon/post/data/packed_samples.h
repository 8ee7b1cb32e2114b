// PackedSamples: samples of seq_length tokens, each of some examples one after another, which do
// not see each other.
//   ids        the tokens of the examples; then padding, a text of its own
//   labels     the token behind each, within its example
//   loss_mask  1 where the label is a token that is learnt
//   positions  start again at 0 with each example
//   first_key  where the token's example begins, so that attention stays within it
// With `wrapped` packing all of a sample is one text.  An epoch has every sample once, in an order
// of its own unless they are not shuffled.  Thread-safe.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "data/samples/samples.h"
#include "post/data/example.h"
#include "post/data/packing.h"

namespace mt {

// Examples as they share samples.  Read-only once made; sets of several epochs share one.
struct Packed {
  std::vector<Example> examples;
  std::vector<Bin> bins;
  bool joined = false;  // all of a bin is one text
  std::int64_t seq_length = 0;

  // So many examples, one behind the other, share a sample in any case.
  static Packed of(std::vector<Example> examples, Packing how, std::int64_t seq_length,
                   std::int64_t together = 1);
  double filled() const;             // which part of the samples' tokens is of examples
  std::int64_t most_learnt() const;  // labels of a sample that count, of the one that has most
};

class PackedSamples final : public Samples {
 public:
  struct Order {
    std::int64_t epochs = 1;
    bool shuffled = false;
    std::uint64_t seed = 0;
  };
  PackedSamples(std::string name, std::shared_ptr<const Packed> packed, const Order& order);

  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return order_.epochs * std::ssize(packed_->bins); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override;
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return {}; }

  const Packed& packed() const { return *packed_; }
  std::size_t bin(std::int64_t k) const;  // which of them sample k is

 private:
  struct Epoch {
    std::int64_t number = -1;
    std::vector<std::uint32_t> order;
  };
  const Bin& pieces(std::int64_t k) const { return packed_->bins[bin(k)]; }

  std::string name_;
  std::shared_ptr<const Packed> packed_;
  Order order_;
  FieldSpecs fields_;
  mutable std::mutex mutex_;
  mutable std::array<Epoch, 2> epochs_;  // ranks may be on both sides of an epoch's end
};

}  // namespace mt
