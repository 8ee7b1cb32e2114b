// Blended: the samples of one dataset, or of several of its kind blended (blend_index.h).
#pragma once

#include <memory>
#include <vector>

#include "data/samples/blend_index.h"
#include "data/samples/samples.h"

namespace mt {

class Blended final : public Samples {
 public:
  using Datasets = std::vector<std::unique_ptr<Samples>>;

  // See BlendIndex.
  Blended(Datasets datasets, const BlendPlan& plan, const IndexCache& cache = {});

  const Datasets& datasets() const { return datasets_; }
  const BlendIndex& index() const { return index_; }

  const std::string& name() const override { return datasets_.front()->name(); }
  std::int64_t size() const override { return index_.size(); }
  const FieldSpecs& fields() const override { return datasets_.front()->fields(); }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override;
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override;

 private:
  Datasets datasets_;
  BlendIndex index_;
};

}  // namespace mt
