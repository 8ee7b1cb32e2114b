#include "infer/retro_engine.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "model/config/model_config.h"
#include "model/neighbor_input.h"

namespace mt {

PassSize RetroEngine::size_of(std::int64_t length) const {
  return {.sequences = 1,
          .length = length,
          .rows = 1,
          .read = retrieves_ ? model_.config().neighbor_tokens(length) : 0};
}

RetroEngine::RetroEngine(const Model& model, const CompletionModel& about, int threads,
                         NeighborSource* source, bool retrieves)
    : model_(model),
      about_(about),
      stream_(model.table().device(), threads),
      pass_(model, stream_, about.vocab_size),
      source_(source),
      retrieves_(retrieves) {
  pass_.reserve([&](Pass& pass) {
    pass.input(size_of(max_tokens()));
    pass.on_host(pass.logits());
  });
}

std::int64_t RetroEngine::max_tokens() const { return model_.config().max_position_embeddings; }

void RetroEngine::start(Completion& completion, std::span<const std::string> neighbors,
                        Retrieved& retrieved) {
  const bool looks = neighbors.empty() && source_ != nullptr;
  if (!retrieves_ && !neighbors.empty())
    fail(Exit::bad_data, "\"neighbors\": the retriever is off, --retro-attention-gate 0");
  if (retrieves_ && !looks && neighbors.empty())
    fail(Exit::bad_data,
         "no neighbours: a Retro continues a text beside its \"neighbors\" in JSON, those that "
         "--retro-project-dir has, or none, with --retro-attention-gate 0");
  if (retrieves_ && !looks)
    neighbors_ = neighbor_input(model_.config(), about_.tokenizer, about_.vocab_size, neighbors);
  retrieved_ = retrieves_ && looks ? &retrieved : nullptr;
  first_ = 0;
  if (completion.finish() == Completion::Finish::none) completion_ = &completion;
}

void RetroEngine::look_up() {
  const ModelConfig& config = model_.config();
  const std::span<const std::int32_t> ids = completion_->ids();
  const auto length = static_cast<std::size_t>(config.retro_chunk_length);
  const auto each = static_cast<std::size_t>(config.retrieved_length());
  retrieved_->push_back(
      source_->find(ids.last(std::min(ids.size(), length)), config.retro_num_neighbors));
  const std::vector<std::int64_t>& chunks = retrieved_->back();
  neighbors_.resize(chunks.size() * each);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    source_->read(chunks[i], std::span(neighbors_).subspan(i * each, each));
}

void RetroEngine::step() {
  if (retrieved_ != nullptr &&
      std::ssize(completion_->made()) % model_.config().retro_chunk_length == 0)
    look_up();
  const std::vector<std::int32_t>& ids = completion_->ids();
  if (std::ssize(ids) - first_ > max_tokens())
    first_ = std::ssize(ids) - std::max<std::int64_t>(1, max_tokens() / 2);
  const auto seen = std::span(ids).subspan(static_cast<std::size_t>(first_));
  const std::int64_t length = std::ssize(seen);
  const PassInput in = pass_.input(size_of(length));
  std::ranges::fill(in.block.span<std::int32_t>(), 0);
  std::ranges::copy(seen, in.ids.as<std::int32_t>());
  std::iota(in.positions.as<std::int32_t>(), in.positions.as<std::int32_t>() + length, 0);
  in.rows.as<std::int32_t>()[0] = static_cast<std::int32_t>(length - 1);
  const std::int64_t each = model_.config().retrieved_length();
  for (std::int64_t i = 0; i < in.size.read; ++i) {
    in.read.as<std::int32_t>()[i] = neighbors_[static_cast<std::size_t>(i) % neighbors_.size()];
    in.read_positions.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % each);
  }
  to_f64(logits_, pass_.on_host(pass_.logits()));
  completion_->choose(logits_);
  if (completion_->finish() != Completion::Finish::none) completion_ = nullptr;
}

}  // namespace mt
