#include "train/run/batch_loader.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "model/config/model_config.h"
#include "train/run/objective.h"

namespace mt {

BatchLoader::BatchLoader(const BatchOptions& options, DType dtype, const Task& task,
                         const SampleSet& samples, std::int64_t first, int micro_batches,
                         const World& world)
    : objective_(task.objective()),
      samples_(samples),
      first_(first + world.data().rank() * options.micro_batch_size),
      size_(options.micro_batch_size),
      stride_(world.data().size() * options.micro_batch_size),
      micro_batches_(micro_batches),
      per_token_(options.calculate_per_token_loss),
      context_(world.context()) {
  const ModelConfig& model = task.model();
  if (model.family != ModelFamily::vit && task.tokenizer().vocab_size() > model.vocab_size) {
    words_ = model.vocab_size;
    std::ranges::copy_if(samples.samples->fields(), std::back_inserter(with_words_),
                         [](const FieldSpec& spec) {
                           return spec.field == Field::ids || spec.field == Field::labels ||
                                  spec.field == Field::encoder_ids;
                         });
  }
  if (context_.size() == 1) return;
  const FieldSpecs fields = task.fields();
  shared_ = samples.samples->fields();
  std::ranges::copy_if(fields, std::back_inserter(shared_), &FieldSpec::ahead);
  tokens_ = std::ranges::find(fields, Field::ids, &FieldSpec::field)->per_sample;
  const DType real = sum_dtype(dtype);
  const std::int64_t bytes = fields_bytes(fields, size_, real);
  storage_ = Buffer(Device::cpu, static_cast<std::size_t>(bytes));
  whole_ = fields_in(storage_.tensor(DType::u8, {bytes}), fields, size_, real);
}

// Takes this rank's two chunks of each sequence, and all of what is not of its tokens.
void BatchLoader::take_chunks(const Fields& batch) const {
  const std::int64_t chunks = 2 * context_.size(), rank = context_.rank();
  for (const FieldSpec& spec : shared_) {
    const Tensor &to = batch[spec.field], &from = whole_[spec.field];
    if (!spec.of_tokens) {
      std::memcpy(to.data(), from.data(), to.bytes());
      continue;
    }
    const std::int64_t rows = size_ * spec.per_sample / tokens_;
    const Tensor all = from.reshape({rows * chunks, from.numel() / (rows * chunks)});
    const Tensor own = to.reshape({rows * 2, all.shape()[1]});
    for (std::int64_t i = 0; i < rows * 2; ++i) {
      const std::int64_t chunk = i / 2 * chunks + (i % 2 == 0 ? rank : chunks - 1 - rank);
      std::memcpy(own.rows(i, i + 1).data(), all.rows(chunk, chunk + 1).data(),
                  own.rows(i, i + 1).bytes());
    }
  }
}

void BatchLoader::check_words(const Fields& batch, std::int64_t first) const {
  for (const FieldSpec& spec : with_words_)
    for (std::int64_t i = 0; const std::int32_t id : batch[spec.field].span<std::int32_t>()) {
      if (id >= words_)
        fail(Exit::bad_data, "sample ", first + i / spec.per_sample, ": has token ", id,
             ", and the model rows for ", words_, " words, fewer than its tokenizer has");
      ++i;
    }
}

std::int64_t BatchLoader::load(int micro_batch, const Fields& batch) {
  const std::int64_t first = first_ + micro_batch * stride_;
  const bool shared = context_.size() > 1;
  const Fields& whole = shared ? whole_ : batch;
  fill(samples_, first, size_, whole);
  check_words(whole, first);
  objective_.look_ahead(whole);
  if (shared) take_chunks(batch);
  // Another chunk may load it again.
  if (std::ssize(counts_) <= micro_batch) counts_.resize(static_cast<std::size_t>(micro_batch) + 1);
  weights_.resize(counts_.size());
  std::array<double, kMostLosses> weights = {};
  for (std::size_t i = 0; i < objective_.terms().size(); ++i) {
    const Term& term = objective_.terms()[i];
    const double counted = objective_.count(i, whole);
    counts_[static_cast<std::size_t>(micro_batch)][i] =
        term.mean == Term::Mean::of_micro_batches ? (counted > 0 ? 1.0 / context_.size() : 0)
        : shared                                  ? objective_.count(i, batch)
                                                  : counted;
    const bool divides = !per_token_ && counted > 0;
    weights[i] = term.weight * (divides ? 1 / counted / micro_batches_ : 1);
    if (i > 0) continue;
    const double all = term.mean == Term::Mean::of_micro_batches && counted > 0 ? 1 : counted;
    weights_[static_cast<std::size_t>(micro_batch)] = per_token_ ? all : 1.0 / micro_batches_;
  }
  objective_.weigh(batch, weights);
  return first;
}

double BatchLoader::count(std::size_t term) const {
  double sum = 0;
  for (const auto& counts : counts_) sum += counts[term];
  return sum;
}

void sum_losses(const World& world, Tensor sums, std::size_t terms) {
  const std::int64_t end = sums.numel();
  world.data_context().all_reduce(sums).wait();
  world.pipeline().all_reduce(sums.rows(end - 2 * static_cast<std::int64_t>(terms), end)).wait();
}

}  // namespace mt
