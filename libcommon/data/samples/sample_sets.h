// SampleSets: what a run learns from and is evaluated on: token files cut into training, validation
// and test samples of one kind, blended, in the run's order.  Shared by all ranks, read-only.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/samples/blend_index.h"
#include "data/samples/data_sources.h"
#include "data/samples/sampler.h"
#include "data/samples/samples.h"
#include "data/samples/split.h"

namespace mt {

// Samples to train on or to evaluate on, in the order of the run.
struct SampleSet {
  std::string name;  // of the token file, where validation has several sets; else ""
  std::unique_ptr<Samples> samples;
  Sampler order;
};

// Fills the fields that `batch` has of the run's samples [first, first + sequences), in host
// memory; real numbers may be f32 or f64.  Padding is a sample whose real numbers are 0.
void fill(const SampleSet& set, std::int64_t first, std::int64_t sequences, const Fields& batch);

// SamplePart: a token file's part of a set.
struct SamplePart {
  std::size_t file = 0;                      // of DataSources::prefixes(); made-up text is 0
  ItemRange items = {};                      // of those that SampleKind counts
  std::optional<std::int64_t> samples = {};  // that are asked for; absent: one epoch
};

// SampleKind: how samples of one kind are made of token files.  Thread-safe.
class SampleKind {
 public:
  virtual ~SampleKind() = default;
  virtual const char* item_name() const = 0;  // what --split divides: "sequences" or "documents"
  virtual std::int64_t items(std::size_t file) const = 0;
  virtual const std::string& file_name(std::size_t file) const = 0;
  // Bytes of the indexes that make() is to find or to make.
  virtual std::int64_t index_bytes(const SamplePart& part) const = 0;
  virtual std::unique_ptr<Samples> make(const SamplePart& part, const IndexCache& cache) const = 0;
};

// SetRequest: how the sets of a run are to be made.
struct SetRequest {
  TrainingLength length = {};
  SamplerOptions layout = {};  // how ranks read training samples
  bool multiple_validation_sets = false;
  std::string cache_path = {};  // of indexes; "": they are made in memory
  int threads = 0;              // that make them
};

class SampleSets {
 public:
  // Indexes come from the cache or are made, several at a time; what `poll` throws meanwhile, from
  // any thread, ends it.
  void build(
      const SampleKind& kind, const DataSources& sources, const SetRequest& request, const Log& log,
      const std::function<void()>& poll = [] {});

  // Puts others in the place of each set's samples.
  void replace(
      const std::function<std::unique_ptr<Samples>(Split, std::unique_ptr<Samples>)>& with);

  // The sets of a split: one of training; none, one or several of validation; none or one of test.
  std::span<const std::unique_ptr<SampleSet>> of(Split which) const {
    return sets_[static_cast<std::size_t>(which)];
  }
  const SampleSet& training() const { return *sets_.front().front(); }

 private:
  std::array<std::vector<std::unique_ptr<SampleSet>>, kSplits> sets_;
};

}  // namespace mt
