#include "model/pass.h"

#include <algorithm>

#include "comm/group.h"
#include "model/config/model_config.h"
#include "model/image_tiles.h"
#include "model/model_table.h"
#include "nn/cached_past.h"
#include "nn/inference.h"
#include "ops/ops.h"
#include "ops/top_word.h"
#include "tensor/device.h"

namespace mt {

int PassRanks::count() const { return group == nullptr ? 1 : group->size(); }

TensorPart PassRanks::part() const {
  return {.rank = group == nullptr ? 0 : group->rank(), .ranks = count()};
}

PassInput::PassInput(const Tensor& all, const PassSize& of) : size(of), block(all) {
  std::int64_t at = 0;
  const auto take = [&](std::int64_t count) {
    const std::int64_t begin = std::exchange(at, at + count);
    return block.rows(begin, at);
  };
  const Tensor of_choices = take(size.sequences * kOfChoice);  // first: aligned to 8 bytes
  if (size.images > 0) {                                       // aligned likewise
    const DType dtype = size.sums;
    const std::int64_t width = size.image_words * 4 / static_cast<std::int64_t>(size_of(dtype));
    image_hidden = {
        take(size.images * size.image_words).data(), dtype, {size.images, width}, all.device()};
  }
  choices = {
      of_choices.data(), DType::u8, {static_cast<std::int64_t>(of_choices.bytes())}, all.device()};
  ids = take(size.tokens());
  positions = take(size.tokens());
  rows = take(size.rows);
  labels = take(size.rows);
  slots = take(size.sequences);
  lengths = take(size.sequences);
  memory_lengths = take(size.sequences);
  if (size.pages > 0)
    pages = take(size.sequences * size.pages).reshape({size.sequences, size.pages});
  if (size.read > 0) {
    read = take(size.sequences * size.read);
    read_positions = take(size.sequences * size.read);
  }
  if (size.types) {
    types = take(size.tokens());
    first_key = take(size.tokens());
  }
  if (size.images > 0) image_rows = take(size.tokens());
  if (size.pixels > 0) {
    const Tensor words = take(size.tokens() * size.pixels);
    pixels = {words.data(), DType::f32, words.shape(), all.device()};
  }
}

void Pass::reserve(const std::function<void(Pass&)>& passes) {
  Stream meta(Device::meta);
  const ModelConfig& config = model_.config();
  const auto on_meta = make_model(config, {{.end = config.all_layers()}}, ranks_.part());
  on_meta->table().allocate(Device::meta, model_.table().dtype(), false);
  if (model_.adapters() != nullptr) on_meta->set_adapters(model_.adapters()->on_meta());
  const std::unique_ptr<Group> counted =
      ranks_.group == nullptr ? nullptr
                              : make_meta_group(ranks_.group->rank(), ranks_.count(), meta);
  Pass measured(*on_meta, meta, vocab_size_, {.group = counted.get()});
  measured.measures_ = true;
  measured.probe_ = probe_;
  measured.layer_ = Arena(Buffer(Device::meta, kMeasuring));
  passes(measured);
  stream_.synchronize();
  graphs_ = {};
  layer_ = {};
  layer_ = Arena(Buffer(stream_.device(), measured.layer_.peak_bytes()));
  if (stream_.device() != Device::cuda) return;
  if (meta.work_bytes() > stream_.work_bytes()) stream_.reserve_work(meta.work_bytes());
  staging_ = Buffer::pinned(measured.input_bytes_);
  results_ = Buffer::pinned(measured.result_bytes_);
}

PassInput Pass::input(const PassSize& size) {
  const Shape words{PassInput::words(size)};
  layer_.rewind(0);
  next_.emplace(layer_.alloc(DType::i32, words), size);
  input_bytes_ = std::max(input_bytes_, next_->block.bytes());
  return stream_.device() == Device::cuda ? PassInput(staging_.tensor(DType::i32, words), size)
                                          : *next_;
}

const PassInput& Pass::send() {
  if (stream_.device() == Device::cuda)
    device::copy(next_->block.data(), staging_.data(), next_->block.bytes(), stream_.handle());
  return *next_;
}

void Pass::forward(const PassInput& input, const CachedPast& past, const Ends& ends) {
  const ArenaScope scope(layer_);
  Inference inference(stream_, layer_, model_.table().dtype(), input.size.sequences,
                      input.positions);
  Step& s = inference.step;
  s.probe = probe_;
  s.batch_invariant = model_.config().batch_invariant;
  s.tensor = ranks_.group;
  const AdaptedRun all{.adapter = 1, .sequences = input.size.sequences};
  s.adapters = model_.adapters();
  if (s.adapters != nullptr)
    s.adapted = measures_ ? std::span(&all, 1) : std::span(input.size.adapted);
  s.past = past;
  s.past.pages = input.pages;
  if (past.cache != nullptr && !past.slot) {
    s.past.slots = input.slots;
    s.past.lengths = input.lengths;
    s.past.memory_lengths = input.memory_lengths;
  }
  s.tokens.first_key = input.first_key;
  Fields batch;
  batch[Field::ids] = input.ids;
  batch[Field::labels] = input.labels;
  batch[Field::rows] = input.rows;
  batch[Field::types] = input.types;
  batch[Field::pixels] = input.pixels;
  batch[Field::image_rows] = input.image_rows;
  batch[Field::image_hidden] = input.image_hidden;
  batch[Field::encoder_ids] = input.read;
  batch[Field::encoder_positions] = input.read_positions;
  if (past.cache == nullptr) batch[Field::encoder_lengths] = input.memory_lengths;
  Wire none;
  model_.forward(s, none, {}, batch, ends, nullptr);
}

Tensor Pass::logits_of(const PassInput& input, const CachedPast& past, std::int64_t further) {
  const Tensor logits =
      layer_.alloc(sum_dtype(model_.table().dtype()), {input.size.rows, vocab_size_});
  forward(input, past,
          {.rows = input.rows, .vocab = vocab_size_, .logits = logits, .further = further});
  return logits;
}

Tensor Pass::logits() { return logits({}); }

Tensor Pass::logits(const CachedPast& past) { return logits_of(send(), past); }

Tensor Pass::guesses(const CachedPast& past, std::int64_t further) {
  const PassInput& in = send();
  const Tensor tops = layer_.alloc(sum_dtype(model_.table().dtype()), {2, in.size.rows});
  top_words(tops, logits_of(in, past, further), 0, vocab_size_, stream_);
  return tops;
}

Tensor Pass::scores(double temperature) {
  const PassInput& in = send();
  const Tensor scores = layer_.alloc(sum_dtype(model_.table().dtype()), {in.size.rows});
  forward(in, {},
          {.rows = in.rows, .vocab = vocab_size_, .scores = scores, .temperature = temperature});
  return scores;
}

Tensor Pass::hidden() { return of_rows(&Ends::hidden, {}); }

Tensor Pass::pooled() { return of_rows(&Ends::pooled, {}); }

Tensor Pass::vectors(bool of_contexts) { return of_rows(&Ends::pooled, {}, of_contexts); }

Tensor Pass::image_rows() {
  const PassInput& in = send();
  const DType dtype = model_.table().dtype();
  const ModelConfig& c = model_.config();
  const Shape shape{in.size.tokens() / c.image_tokens() * rows_of_tile(c), c.hidden_size};
  const Tensor sums = layer_.alloc(sum_dtype(dtype), shape);
  const Tensor said = dtype == sums.dtype() ? sums : layer_.alloc(dtype, shape);
  Ends ends;
  ends.hidden = said;
  forward(in, {}, ends);
  if (dtype != sums.dtype()) copy(sums, said, stream_);
  return sums;
}

void Pass::see(const CachedPast& past) { of_rows(&Ends::hidden, past); }

Tensor Pass::of_rows(Tensor Ends::*wanted, const CachedPast& past, bool of_contexts) {
  const PassInput& in = send();
  const DType dtype = model_.table().dtype();
  const Shape shape{in.size.rows, model_.config().embedding_width()};
  const Tensor sums = layer_.alloc(sum_dtype(dtype), shape);
  const Tensor said = dtype == sums.dtype() ? sums : layer_.alloc(dtype, shape);
  Ends ends{.rows = in.rows, .of_contexts = of_contexts};
  ends.*wanted = said;
  forward(in, past, ends);
  if (dtype != sums.dtype()) copy(sums, said, stream_);
  return sums;
}

ConstTensor Pass::on_host(const Tensor& result) {
  result_bytes_ = std::max(result_bytes_, result.bytes());
  if (stream_.device() != Device::cuda) return result;
  const Tensor host = results_.tensor(result.dtype(), result.shape());
  device::copy(host.data(), result.data(), result.bytes(), stream_.handle());
  stream_.synchronize();
  return host;
}

void Pass::repeat(const PassInput& input, const CachedPast& past,
                  const std::function<void(const Tensor& logits)>& then) {
  const auto body = [&] {
    layer_.rewind(0);
    then(logits_of(input, past));
  };
  if (model_.config().num_experts > 0) return body();  // the host reads their numbers of rows

  // There are many ways to have adapters.
  constexpr std::size_t kMostGraphs = 256;
  if (graphs_.size() >= kMostGraphs) {
    stream_.synchronize();
    graphs_ = {};
  }
  graphs_.run(stream_, {input.size.sequences, past.longest, input.block.data(), input.size.adapted},
              body);
}

}  // namespace mt
