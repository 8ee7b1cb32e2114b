#include "infer/cached_pass.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

#include "infer/sampling.h"
#include "infer/token_steps.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "nn/cached_past.h"
#include "ops/ops.h"
#include "tensor/device.h"
#include "tensor/host_copy.h"

namespace mt {

// Tokens of a page, which are those of one sequence that are taken at once: on a GPU as many as
// make large enough products, on the CPU not so many that others wait for long.
static constexpr std::int64_t kPageOfCpu = 128, kPageOfGpu = 512;

static Stream& stream_of(std::optional<Stream>& own, const Model& model,
                         const CachedPass::Options& options) {
  if (options.ranks.stream != nullptr) return *options.ranks.stream;
  return own.emplace(model.table().device(), options.threads);
}

CachedPass::CachedPass(const Model& model, const Options& options)
    : ranks_(options.ranks),
      stream_(stream_of(own_stream_, model, options)),
      pass_(model, stream_, options.vocab_size, options.ranks),
      page_tokens_(options.page_tokens > 0
                       ? options.page_tokens
                       : std::min(static_cast<std::int64_t>(
                                      std::bit_ceil(static_cast<std::uint64_t>(max_read()))),
                                  stream_.device() == Device::cuda ? kPageOfGpu : kPageOfCpu)),
      most_pages_(std::max(options.cache_tokens > 0 ? pages_of(options.cache_tokens)
                                                    : options.sequences * pages_of(max_read()),
                           pages_of(has_encoder() ? max_read() : 1))),
      guesses_(options.guesses),
      form_(options.form),
      has_states_(
          std::ranges::any_of(cache_of(model.config(), {.slots = 1, .further = guesses_}),
                              [](const CacheShape& layer) { return layer.states.numel() > 0; })),
      rows_(std::min(std::max(keeps_tokens_apart() ? options.rows : 0, options.sequences),
                     kTogether)),
      asked_(options.asked > 0 ? std::min(options.asked, rows_) : rows_),
      all_at_once_(options.cache_tokens > 0),
      sequences_(static_cast<std::size_t>(options.sequences)) {
  check_form();
  if (stream_.device() == Device::cuda)
    for (std::int64_t left = options.sequences; left > 0; left -= kTogether)
      steps_.push_back(std::make_unique<TokenSteps>(
          pass_, TokenSteps::Options{.together = std::min(options.sequences, kTogether),
                                     .page_tokens = page_tokens_,
                                     .runs_ahead = !has_states_}));
}

// A step may run ahead on a stream that outlives this.
CachedPass::~CachedPass() {
  try {
    stream_.synchronize();
  } catch (const Error&) {  // the next who asks the device hears of it
  }
}

std::int64_t CachedPass::max_read() const { return pass_.model().config().max_position_embeddings; }

std::int64_t CachedPass::max_tokens() const {
  return std::min(max_read(), most_pages_ * page_tokens_);
}

void CachedPass::forget_ahead(std::int64_t number) {
  for (const auto& steps : steps_) steps->forget(number);
}

std::span<const double> CachedPass::scores(std::size_t turn) const {
  return steps_.empty() ? std::span<const double>() : steps_[turn % steps_.size()]->scores();
}

void CachedPass::settle() {
  stream_.synchronize();
  for (std::int64_t i = 0; i < sequences(); ++i) forget_ahead(i);
  ++settled_;
}

// --- Sequences ----------------------------------------------------------------------------------

void CachedPass::start(std::int64_t number, std::int64_t adapter, bool alone) {
  Sequence& sequence = at(number);
  while (!sequence.pages.empty()) {
    pool_.drop(sequence.pages.back());
    sequence.pages.pop_back();
  }
  sequence = {};
  sequence.adapter = adapter;
  sequence.alone = alone;
  forget_ahead(number);
}

void CachedPass::take_back(std::int64_t number, std::int64_t tokens) {
  if (tokens == 0) return;
  Sequence& sequence = at(number);
  assert(keeps_tokens_apart() && tokens <= sequence.length);
  sequence.length -= tokens;
  assert(!pool_.has_name(sequence.pages[static_cast<std::size_t>(sequence.length / page_tokens_)]));
  forget_ahead(number);
}

std::int64_t CachedPass::start(std::int64_t number, std::span<const std::int32_t> ids,
                               std::int64_t adapter) {
  start(number, adapter);
  Sequence& sequence = at(number);
  if (has_slots()) return 0;
  const auto size = static_cast<std::size_t>(page_tokens_);
  std::optional<std::int32_t> before;
  for (; ids.size() > size; ids = ids.subspan(size)) {
    const auto page = pool_.find(before, ids.first(size), kind_of(adapter));
    if (!page) break;
    sequence.pages.push_back(*page);
    sequence.length += page_tokens_;
    before = page;
  }
  return sequence.length;
}

void CachedPass::follow(std::int64_t number, std::int64_t other) {
  Sequence& sequence = at(number);
  const Sequence& from = at(other);
  assert(!has_slots() && sequence.length <= from.length &&
         pages_of(from.length) <= std::ssize(sequence.pages));
  const auto whole = static_cast<std::size_t>(from.length / page_tokens_);
  for (std::size_t i = 0; i < whole; ++i)
    if (std::int32_t& page = sequence.pages[i]; page != from.pages[i]) {
      pool_.drop(std::exchange(page, from.pages[i]));
      pool_.hold(page);
    }
  const std::int64_t rest = from.length % page_tokens_;
  const auto copy_rows = [&](const Tensor& all) {
    if (all.numel() == 0 || rest == 0) return;
    const Shape& shape = all.shape();
    const auto rows = [&](std::int64_t page) {
      return all.rows(page, page + 1)
          .reshape({page_tokens_, all.numel() / shape[0] / page_tokens_})
          .rows(0, rest);
    };
    copy(rows(sequence.pages[whole]), rows(from.pages[whole]), stream_);
  };
  for (std::int64_t layer = 0; layer < cache_->layers(); ++layer) {
    copy_rows(cache_->keys(layer));
    copy_rows(cache_->values(layer));
    copy_rows(cache_->latents(layer));
    copy_rows(cache_->before(layer));
    copy_rows(cache_->choices(layer));
  }
  sequence.length = from.length;
  forget_ahead(number);
}

std::vector<std::int32_t> CachedPass::choices(std::int64_t number) const {
  const ModelConfig& config = pass_.model().config();
  if (!config.keeps_choices) return {};
  const Sequence& sequence = at(number);
  const auto chosen = static_cast<std::int64_t>(config.moe_router_topk),
             of_token = config.num_layers * chosen;
  std::vector<std::int32_t> all(static_cast<std::size_t>(sequence.length * of_token), -1);
  stream_.synchronize();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const Tensor& kept = cache_->choices(layer);
    for (std::int64_t begin = 0; kept.numel() > 0 && begin < sequence.length;
         begin += page_tokens_) {
      const std::int64_t page = sequence.pages[static_cast<std::size_t>(begin / page_tokens_)],
                         count = std::min(page_tokens_, sequence.length - begin);
      const HostCopy copy = HostCopy::of(kept.rows(page, page + 1));
      const auto experts = copy.tensor().span<std::int32_t>();
      for (std::int64_t token = 0; token < count; ++token)
        std::copy_n(experts.begin() + token * chosen, chosen,
                    all.begin() + (begin + token) * of_token + layer * chosen);
    }
  }
  return all;
}

bool CachedPass::has_same_pages(std::int64_t number, std::int64_t other) const {
  const Sequence &a = at(number), &b = at(other);
  const auto whole = a.length / page_tokens_;
  return !has_slots() && a.adapter == b.adapter && a.length == b.length &&
         a.length % page_tokens_ == 0 &&
         std::equal(a.pages.begin(), a.pages.begin() + whole, b.pages.begin());
}

// The kind (infer/page_pool.h) of pages that are filled with an adapter by the values that the
// model has by now.
std::int64_t CachedPass::kind_of(std::int64_t adapter) const {
  return settled_ * (std::int64_t{1} << 32) + adapter;
}

// The piece that filled the sequence's last page, if it began with it and every one before did.
void CachedPass::name_page(const Sequence& sequence, std::span<const std::int32_t> ids) {
  if (std::ssize(ids) != page_tokens_ || sequence.length % page_tokens_ != 0 || has_slots() ||
      sequence.alone)
    return;
  const auto number = static_cast<std::size_t>(sequence.length / page_tokens_ - 1);
  std::optional<std::int32_t> before;
  if (number > 0) before = sequence.pages[number - 1];
  if (!before || pool_.has_name(*before))
    pool_.name(sequence.pages[number], before, ids, kind_of(sequence.adapter));
}

// --- Passes -------------------------------------------------------------------------------------

// The numbers of the last of as many tokens of each sequence.
static std::vector<std::int32_t> last_of(std::int64_t sequences, std::int64_t length) {
  std::vector<std::int32_t> last;
  for (std::int64_t i = 1; i <= sequences; ++i)
    last.push_back(static_cast<std::int32_t>(i * length - 1));
  return last;
}

// Each row that some of the tokens are goes along, and the token names no word.
static void put_images(const PassInput& in, const CachedPass::Images& images) {
  std::int32_t next = 0;
  for (std::size_t i = 0; i < images.row_of.size(); ++i) {
    const std::int64_t row = images.row_of[i];
    in.image_rows.as<std::int32_t>()[i] = row < 0 ? -1 : next;
    if (row < 0) continue;
    in.ids.as<std::int32_t>()[i] = -1;
    const ConstTensor from = images.hidden.rows(row, row + 1);
    std::memcpy(in.image_hidden.rows(next, next + 1).data(), from.data(), from.bytes());
    ++next;
  }
}

// The input of a pass over as many more tokens of each sequence, which have been seen then.
PassInput CachedPass::put(std::span<const std::int64_t> sequences,
                          std::span<const std::int32_t> ids, std::span<const std::int32_t> asked,
                          std::span<const std::int32_t> read, const Images& images) {
  const std::int64_t count = std::ssize(sequences), length = std::ssize(ids) / count,
                     pages = pages_of(room_.tokens);
  const std::int64_t rows = std::ranges::count_if(images.row_of, [](auto row) { return row >= 0; });
  for (const std::int64_t i : sequences) forget_ahead(i);
  AdaptedRuns adapted;
  if (pass_.model().adapters() != nullptr)
    for (const std::int64_t i : sequences) add_sequence(adapted, at(i).adapter);
  const PassInput in = pass_.input(with_images({.sequences = count,
                                                .length = length,
                                                .rows = std::ssize(asked),
                                                .read = std::ssize(read),
                                                .pages = pages,
                                                .adapted = std::move(adapted)},
                                               rows));
  std::ranges::copy(ids, in.ids.as<std::int32_t>());
  if (rows > 0) put_images(in, images);
  std::ranges::copy(asked, in.rows.as<std::int32_t>());
  if (!read.empty()) {
    std::ranges::copy(read, in.read.as<std::int32_t>());
    const auto positions = in.read_positions.span<std::int32_t>();
    std::iota(positions.begin(), positions.end(), 0);
    at(sequences.front()).read = std::ssize(read);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    Sequence& sequence = at(sequences[static_cast<std::size_t>(i)]);
    std::int32_t* const positions = in.positions.as<std::int32_t>() + i * length;
    std::iota(positions, positions + length, static_cast<std::int32_t>(sequence.length));
    sequence.length += length;
    in.slots.as<std::int32_t>()[i] =
        static_cast<std::int32_t>(sequences[static_cast<std::size_t>(i)]);
    in.lengths.as<std::int32_t>()[i] = static_cast<std::int32_t>(sequence.length);
    in.memory_lengths.as<std::int32_t>()[i] = static_cast<std::int32_t>(sequence.read);
    std::ranges::copy(sequence.pages, in.pages.as<std::int32_t>() + i * pages);
  }
  return in;
}

// Several sequences, or one that has a single token more and nothing to read, run by their slots
// and lengths in the input, which a GPU reads.
CachedPast CachedPass::past(std::span<const std::int64_t> sequences, const PassSize& size) const {
  CachedPast past{.cache = cache_.get(), .longest_memory = room_.read};
  for (const std::int64_t i : sequences) past.longest = std::max(past.longest, length(i));
  past.repeats = std::ranges::adjacent_find(sequences) != sequences.end();
  if (size.length > 1 || size.read > 0) {
    past.slot = sequences.front();
    past.longest_memory = at(*past.slot).read;
  }
  return past;
}

// Takes pieces until one is left, or none; returns that one.
std::span<const std::int32_t> CachedPass::see_pieces(std::int64_t number,
                                                     std::span<const std::int32_t> ids,
                                                     std::span<const std::int32_t>& read,
                                                     Images& images, bool all) {
  const std::span<const std::int64_t> alone(&number, 1);
  make_room(alone, std::ssize(ids), std::ssize(read));
  const auto whole = [&] {
    return static_cast<std::size_t>(page_tokens_ - length(number) % page_tokens_);
  };
  while (ids.size() > whole() || (all && !ids.empty())) {
    const auto piece = ids.first(std::min(ids.size(), whole()));
    const Images of_piece{images.row_of.first(std::min(images.row_of.size(), piece.size())),
                          images.hidden};
    const PassInput in =
        put(alone, piece, last_of(1, std::ssize(piece)), std::exchange(read, {}), of_piece);
    pass_.see(past(alone, in.size));
    name_page(at(number), piece);
    stream_.synchronize();  // the next input's place is that of this one
    ids = ids.subspan(piece.size());
    images.row_of = images.row_of.subspan(of_piece.row_of.size());
  }
  return ids;
}

void CachedPass::see(std::int64_t sequence, std::span<const std::int32_t> ids,
                     std::span<const std::int32_t> read, const Images& images) {
  Images left = images;
  see_pieces(sequence, ids, read, left, true);
}

ConstTensor CachedPass::next_logits(std::int64_t number, std::span<const std::int32_t> ids,
                                    std::span<const std::int32_t> read, const Images& images) {
  const std::span<const std::int64_t> alone(&number, 1);
  Images left = images;
  ids = see_pieces(number, ids, read, left, false);
  const PassInput in = put(alone, ids, last_of(1, std::ssize(ids)), read, left);
  const Tensor logits = pass_.logits(past(alone, in.size));
  name_page(at(number), ids);
  return pass_.on_host(logits);
}

ConstTensor CachedPass::next_logits(std::span<const std::int64_t> sequences,
                                    std::span<const std::int32_t> ids) {
  return next_logits(sequences, ids, last_of(std::ssize(sequences), 1));
}

ConstTensor CachedPass::next_logits(std::span<const std::int64_t> sequences,
                                    std::span<const std::int32_t> ids,
                                    std::span<const std::int32_t> asked) {
  assert(sequences.size() == ids.size() && std::ssize(ids) <= rows_);
  assert(!asked.empty() && std::ssize(asked) <= asked_);
  make_room(sequences, 1);
  const PassInput in = put(sequences, ids, asked);
  return pass_.on_host(pass_.logits(past(sequences, in.size)));
}

std::vector<std::int32_t> CachedPass::guess(std::span<const std::int64_t> sequences,
                                            std::span<const std::int32_t> ids,
                                            std::int64_t further) {
  assert(further <= guesses_ && sequences.size() == ids.size() && std::ssize(ids) <= asked_);
  make_room(sequences, further);
  for (const std::int64_t i : sequences) at(i).length += further - 1;
  const PassInput in = put(sequences, ids, last_of(std::ssize(sequences), 1));
  const CachedPast seen = past(sequences, in.size);
  for (const std::int64_t i : sequences) at(i).length -= further;
  const ConstTensor words = pass_.on_host(pass_.guesses(seen, further)).rows(1, 2);
  return with_float_type(words.dtype(), [&]<class T>() {
    const auto ids_of = words.span<T>();
    return std::vector<std::int32_t>(ids_of.begin(), ids_of.end());
  });
}

std::span<const std::int32_t> CachedPass::next_tokens(std::span<const std::int64_t> sequences,
                                                      std::span<const std::int32_t> ids,
                                                      std::span<const Choice> choices,
                                                      const Ahead& ahead) {
  assert(sequences.size() == ids.size() && sequences.size() == choices.size() &&
         std::ssize(ids) <= kTogether);
  make_room(sequences, 1);
  if (!steps_.empty()) {
    for (const std::int64_t i : sequences) reserve_ahead(i);
    std::vector<TokenSteps::Row> rows;
    for (const std::int64_t i : sequences)
      rows.push_back({.length = &at(i).length,
                      .read = at(i).read,
                      .pages = at(i).pages,
                      .adapter = at(i).adapter});
    std::vector<Choice> behind(ahead.choices.begin(), ahead.choices.end());
    if (behind.empty())
      for (const Choice& choice : choices) behind.push_back(following(choice));
    return steps_[ahead.turn % steps_.size()]->next(
        {.sequences = {sequences.begin(), sequences.end()},
         .ids = {ids.begin(), ids.end()},
         .choices = {choices.begin(), choices.end()}},
        behind, *cache_, rows);
  }
  const PassInput in = put(sequences, ids, last_of(std::ssize(sequences), 1));
  std::memcpy(in.choices.data(), choices.data(), in.choices.bytes());
  const Tensor logits = pass_.logits(past(sequences, in.size));
  sample({.tokens = in.ids, .choices = in.choices, .logits = logits}, stream_);
  return in.ids.span<std::int32_t>();
}

}  // namespace mt
