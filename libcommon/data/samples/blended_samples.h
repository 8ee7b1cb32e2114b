// BlendedSamples: a dataset, or several of its kind blended, as Samples.  A kind that is trained on
// says by fields() what its samples bring, and by Sample::of() where that goes.
#pragma once

#include <utility>
#include <vector>

#include "data/samples/blended_dataset.h"
#include "data/samples/samples.h"

namespace mt {

template <class Dataset>
class BlendedSamples : public Samples {
 public:
  explicit BlendedSamples(Blended<Dataset> data)
      : data_(std::move(data)), fields_(data_.datasets().front().fields()) {}

  const Blended<Dataset>& data() const { return data_; }

  std::int64_t size() const override { return data_.size(); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override {
    data_.get(k, Dataset::Sample::of(sample));
  }
  std::vector<Part> parts(std::int64_t k) const override {
    const auto at = data_.place(k);
    const Dataset& dataset = data_.datasets()[at.dataset];
    std::vector<Part> parts;
    for (const auto& part : dataset.parts(at.sample))
      parts.push_back({&dataset.data(), part.sequence, part.begin, part.end});
    return parts;
  }
  Indexes indexes() const override {
    Indexes indexes{.files = std::ssize(data_.datasets())};
    const auto add = [&](bool made) { ++(made ? indexes.made : indexes.found); };
    for (const Dataset& dataset : data_.datasets()) add(dataset.index().made());
    if (!data_.dataset_index().empty()) add(data_.made());
    return indexes;
  }

 private:
  Blended<Dataset> data_;
  FieldSpecs fields_;
};

}  // namespace mt
