#include "data/samples/blended.h"

namespace mt {

static std::vector<BlendIndex::Dataset> sizes_of(const Blended::Datasets& datasets) {
  std::vector<BlendIndex::Dataset> sizes;
  for (const auto& dataset : datasets) sizes.push_back({dataset->name(), dataset->size()});
  return sizes;
}

Blended::Blended(Datasets datasets, const BlendPlan& plan, const IndexCache& cache)
    : datasets_(std::move(datasets)), index_(sizes_of(datasets_), plan, cache) {}

void Blended::get(std::int64_t k, const Fields& sample) const {
  const BlendIndex::Place at = index_.place(k);
  datasets_[at.dataset]->get(at.sample, sample);
}

std::vector<std::string> Blended::lines(std::int64_t k, const Tokenizer& tokenizer) const {
  const BlendIndex::Place at = index_.place(k);
  return datasets_[at.dataset]->lines(at.sample, tokenizer);
}

void Blended::write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const {
  const BlendIndex::Place at = index_.place(k);
  datasets_[at.dataset]->write(at.sample, tokenizer, json);
}

Samples::Indexes Blended::indexes() const {
  Indexes indexes;
  for (const auto& dataset : datasets_) {
    const Indexes of = dataset->indexes();
    indexes.files += of.files;
    indexes.made += of.made;
    indexes.found += of.found;
  }
  if (!index_.dataset_index().empty()) ++(index_.made() ? indexes.made : indexes.found);
  return indexes;
}

}  // namespace mt
