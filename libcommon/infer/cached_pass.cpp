#include "infer/cached_pass.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

#include "infer/token_steps.h"
#include "model/config/model_config.h"
#include "ops/ops.h"

namespace mt {

// Tokens of one sequence that a GPU takes at once at most: what lies between the layers stays
// small, and the products are large enough.
static constexpr std::int64_t kPiece = 4096;
static constexpr std::int64_t kFewestTokens = 256;  // of a page

CachedPass::CachedPass(const Model& model, const Options& options)
    : stream_(model.table().device(), options.threads),
      pass_(model, stream_, options.vocab_size),
      lengths_(static_cast<std::size_t>(options.sequences)),
      read_(lengths_.size()) {
  if (stream_.device() == Device::cuda)
    steps_ = std::make_unique<TokenSteps>(pass_, std::min(options.sequences, kTogether));
}

CachedPass::~CachedPass() = default;

std::int64_t CachedPass::max_tokens() const {
  return pass_.model().config().max_position_embeddings;
}

// --- Pages --------------------------------------------------------------------------------------

bool CachedPass::has_encoder() const { return pass_.model().config().encoder_num_layers > 0; }

KvCache CachedPass::make_cache(Device device, std::int64_t pages, std::int64_t tokens,
                               std::int64_t read) const {
  const ModelConfig& c = pass_.model().config();
  return {device,
          pass_.model().table().dtype(),
          c.num_layers,
          {pages, tokens, c.kv_heads(), c.head_dim()},
          {pages, read, 2 * c.num_attention_heads * c.head_dim()}};
}

std::int64_t CachedPass::piece() const {
  return stream_.device() == Device::cpu ? page_tokens() : std::min(page_tokens(), kPiece);
}

// What the sequences have seen goes to their pages of another cache.
void CachedPass::copy_pages(const KvCache& to) {
  const auto seen = [&](const Tensor& all, std::int64_t page) {
    const Shape& shape = all.shape();
    return all.rows(page, page + 1).reshape({shape[1], shape[2], shape[3]}).rows(0, length(page));
  };
  const auto read = [&](const Tensor& all, std::int64_t page) {
    const Shape& shape = all.shape();
    return all.rows(page, page + 1)
        .reshape({shape[1], shape[2]})
        .rows(0, read_[static_cast<std::size_t>(page)]);
  };
  for (std::int64_t layer = 0; layer < pass_.model().config().num_layers; ++layer)
    for (std::int64_t page = 0; page < pages(); ++page) {
      if (length(page) == 0) continue;
      copy(seen(to.keys(layer), page), seen(cache_->keys(layer), page), stream_);
      copy(seen(to.values(layer), page), seen(cache_->values(layer), page), stream_);
      if (has_encoder())
        copy(read(to.memory(layer), page), read(cache_->memory(layer), page), stream_);
    }
  stream_.synchronize();
}

// Each growth at least doubles what grows.
void CachedPass::reserve(std::int64_t sequences, std::int64_t tokens, std::int64_t read) {
  if (sequences <= pages() && tokens <= page_tokens() && read <= page_read()) return;
  const auto rounded = [](std::int64_t count, std::int64_t most) {
    const auto power = std::bit_ceil(static_cast<std::uint64_t>(count));
    return std::min(most, static_cast<std::int64_t>(power));
  };
  const std::int64_t pages_then = std::max(pages(), rounded(sequences, this->sequences()));
  const auto grown_to = [&](std::int64_t asked, std::int64_t before) {
    return std::max(before, rounded(std::max(asked, kFewestTokens), max_tokens()));
  };
  const std::int64_t tokens_then = grown_to(tokens, page_tokens()),
                     read_then = has_encoder() ? grown_to(read, page_read()) : 0;
  stream_.synchronize();  // a step may still use the old ones
  if (std::ranges::all_of(lengths_, [](std::int64_t length) { return length == 0; }))
    cache_.reset();
  auto grown =
      std::make_unique<KvCache>(make_cache(stream_.device(), pages_then, tokens_then, read_then));
  if (cache_) copy_pages(*grown);
  cache_ = std::move(grown);
  if (steps_) steps_->forget();
  try {
    reserve_pass();
  } catch (...) {
    cache_.reset();  // the next that asks for less begins anew
    throw;
  }
}

// For the longest input of one sequence and for a token of each.
void CachedPass::reserve_pass() {
  const KvCache on_meta = make_cache(Device::meta, pages(), page_tokens(), page_read());
  const CachedPast past{.cache = &on_meta, .longest = page_tokens(), .longest_memory = page_read()};
  pass_.reserve([&](Pass& pass) {
    pass.input({.length = piece(), .read = page_read()});
    CachedPast alone = past;
    alone.slot = 0;
    pass.on_host(pass.logits(alone));
    const std::int64_t together = std::min(pages(), kTogether);
    const PassInput in = pass.input({.sequences = together, .rows = together});
    const Tensor logits = pass.logits(past);
    sample({.tokens = in.ids, .choices = in.choices, .logits = logits}, pass.stream());
    pass.on_host(logits);
  });
}

void CachedPass::make_room(std::span<const std::int64_t> sequences, std::int64_t length,
                           std::int64_t read) {
  std::int64_t longest = 0;
  for (const std::int64_t page : sequences) longest = std::max(longest, this->length(page));
  assert(length > 0 && longest + length <= max_tokens() && read <= max_tokens());
  reserve(std::ranges::max(sequences) + 1, longest + length, read);
}

// --- Passes -------------------------------------------------------------------------------------

// The input of a pass over as many more tokens of each sequence, which have been seen then.
PassInput CachedPass::put(std::span<const std::int64_t> sequences,
                          std::span<const std::int32_t> ids, std::span<const std::int32_t> read) {
  const std::int64_t count = std::ssize(sequences), length = std::ssize(ids) / count;
  if (steps_) steps_->forget();
  const PassInput in =
      pass_.input({.sequences = count, .length = length, .rows = count, .read = std::ssize(read)});
  std::ranges::copy(ids, in.ids.as<std::int32_t>());
  if (!read.empty()) {
    std::ranges::copy(read, in.read.as<std::int32_t>());
    const auto positions = in.read_positions.span<std::int32_t>();
    std::iota(positions.begin(), positions.end(), 0);
    read_[static_cast<std::size_t>(sequences.front())] = std::ssize(read);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t page = sequences[static_cast<std::size_t>(i)];
    std::int64_t& seen = lengths_[static_cast<std::size_t>(page)];
    std::int32_t* const positions = in.positions.as<std::int32_t>() + i * length;
    std::iota(positions, positions + length, static_cast<std::int32_t>(seen));
    seen += length;
    in.rows.as<std::int32_t>()[i] = static_cast<std::int32_t>((i + 1) * length - 1);
    in.slots.as<std::int32_t>()[i] = static_cast<std::int32_t>(page);
    in.lengths.as<std::int32_t>()[i] = static_cast<std::int32_t>(seen);
    in.memory_lengths.as<std::int32_t>()[i] =
        static_cast<std::int32_t>(read_[static_cast<std::size_t>(page)]);
  }
  return in;
}

// Several sequences, or one that has a single token more and nothing to read, run by their slots
// and lengths in the input, which a GPU reads.
Tensor CachedPass::run(std::span<const std::int64_t> sequences, const PassInput& in) {
  CachedPast past{.cache = cache_.get(), .longest_memory = page_read()};
  for (const std::int64_t page : sequences) past.longest = std::max(past.longest, length(page));
  if (in.size.length > 1 || in.size.read > 0) {
    past.slot = sequences.front();
    past.longest_memory = read_[static_cast<std::size_t>(*past.slot)];
  }
  return pass_.logits(past);
}

ConstTensor CachedPass::next_logits(std::int64_t sequence, std::span<const std::int32_t> ids,
                                    std::span<const std::int32_t> read) {
  const std::span<const std::int64_t> alone(&sequence, 1);
  make_room(alone, std::ssize(ids), std::ssize(read));
  for (const auto most = static_cast<std::size_t>(piece()); ids.size() > most;
       ids = ids.subspan(most)) {
    run(alone, put(alone, ids.first(most), std::exchange(read, {})));
    stream_.synchronize();  // the next input's place is that of this one
  }
  return pass_.on_host(run(alone, put(alone, ids, read)));
}

ConstTensor CachedPass::next_logits(std::span<const std::int64_t> sequences,
                                    std::span<const std::int32_t> ids) {
  assert(sequences.size() == ids.size() && std::ssize(ids) <= kTogether);
  make_room(sequences, 1);
  return pass_.on_host(run(sequences, put(sequences, ids)));
}

std::span<const std::int32_t> CachedPass::next_tokens(std::span<const std::int64_t> sequences,
                                                      std::span<const std::int32_t> ids,
                                                      std::span<const Choice> choices) {
  assert(sequences.size() == ids.size() && sequences.size() == choices.size() &&
         std::ssize(ids) <= kTogether);
  make_room(sequences, 1);
  if (steps_)
    return steps_->next({.sequences = {sequences.begin(), sequences.end()},
                         .ids = {ids.begin(), ids.end()},
                         .choices = {choices.begin(), choices.end()}},
                        *cache_, lengths_, read_);
  const PassInput in = put(sequences, ids);
  std::memcpy(in.choices.data(), choices.data(), in.choices.bytes());
  const Tensor logits = run(sequences, in);
  sample({.tokens = in.ids, .choices = in.choices, .logits = logits}, stream_);
  return in.ids.span<std::int32_t>();
}

}  // namespace mt
