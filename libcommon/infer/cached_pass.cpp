#include "infer/cached_pass.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "comm/group.h"
#include "infer/token_steps.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "nn/cached_past.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace mt {

// Tokens of a page, which are those of one sequence that are taken at once: on a GPU as many as
// make large enough products, on the CPU not so many that others wait for long.
static constexpr std::int64_t kPageOfCpu = 128, kPageOfGpu = 512;
static constexpr std::int64_t kFewestTokens = 256;  // of the longest sequence that room is made for

static std::int64_t power_of_two(std::int64_t count) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

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
                       : std::min(power_of_two(max_read()),
                                  stream_.device() == Device::cuda ? kPageOfGpu : kPageOfCpu)),
      most_pages_(std::max(options.cache_tokens > 0 ? pages_of(options.cache_tokens)
                                                    : options.sequences * pages_of(max_read()),
                           pages_of(has_encoder() ? max_read() : 1))),
      guesses_(options.guesses),
      has_states_(
          std::ranges::any_of(cache_of(model.config(), {.slots = 1, .further = guesses_}),
                              [](const CacheShape& layer) { return layer.states.numel() > 0; })),
      rows_(std::min(std::max(keeps_tokens_apart() ? options.rows : 0, options.sequences),
                     kTogether)),
      asked_(options.asked > 0 ? std::min(options.asked, rows_) : rows_),
      all_at_once_(options.cache_tokens > 0),
      sequences_(static_cast<std::size_t>(options.sequences)) {
  if (stream_.device() == Device::cuda)
    steps_ = std::make_unique<TokenSteps>(
        pass_, TokenSteps::Options{.together = std::min(options.sequences, kTogether),
                                   .page_tokens = page_tokens_,
                                   .runs_ahead = !has_states_});
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

// --- Room ---------------------------------------------------------------------------------------

bool CachedPass::has_encoder() const { return pass_.model().config().encoder_num_layers > 0; }

std::vector<CacheShape> CachedPass::cache_layers(std::int64_t pages) const {
  return cache_of(pass_.model().config(), {.pages = pages,
                                           .page_tokens = page_tokens_,
                                           .slots = room_.slots,
                                           .memory = room_.read,
                                           .ranks = ranks_.count(),
                                           .further = guesses_});
}

// What the layer has of pages, and of so many sequences, goes to the new one.
void CachedPass::copy_layer(const KvCache::Layer& to, const KvCache::Layer& from,
                            std::int64_t slots) {
  const auto first = [&](const Tensor& now, const Tensor& then) {
    const std::int64_t rows = std::min(now.shape()[0], then.shape()[0]);  // the others have nothing
    if (then.numel() > 0) copy(now.rows(0, rows), then.rows(0, rows), stream_);
  };
  first(to.keys, from.keys);
  first(to.values, from.values);
  first(to.latents, from.latents);
  first(to.before, from.before);
  first(to.convolved, from.convolved);
  first(to.states, from.states);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const auto read = [&](const Tensor& all) {
      const Shape& shape = all.shape();
      return all.rows(slot, slot + 1).reshape({shape[1], shape[2]}).rows(0, at(slot).read);
    };
    if (at(slot).read > 0) copy(read(to.memory), read(from.memory), stream_);
  }
  stream_.synchronize();
}

// What lies in the cache moves with it.
void CachedPass::make(const Room& room) {
  if (room == room_ && has_pass_) return;
  stream_.synchronize();  // a step may still use the old one
  const bool empty = pool_.held() == 0;
  if (empty) {
    pool_.forget();
    cache_.reset();
  }
  const Room before = std::exchange(room_, room);
  has_pass_ = false;
  try {
    if (!cache_)
      cache_ = std::make_unique<KvCache>(stream_.device(), dtype(), cache_layers(room.pages));
    else if (room.pages > before.pages || room.slots > before.slots || room.read > before.read)
      cache_->grow(cache_layers(room.pages),
                   [&](const KvCache::Layer& from, const KvCache::Layer& to) {
                     copy_layer(to, from, before.slots);
                   });
    reserve_pass();
    if (steps_) steps_->reserve(pages_of(room.tokens));
  } catch (...) {
    if (cache_ && !empty) {
      room_ = before;  // the cache has what it had, and so much room or more
      throw;
    }
    room_ = {};  // the next that asks for less begins anew
    pool_ = {};
    cache_.reset();
    throw;
  }
  has_pass_ = true;
  pool_.grow(room.pages);
}

// For the longest input of one sequence and for a token of each, which TokenSteps may queue with as
// many keys as a sequence's pages have.
void CachedPass::reserve_pass() {
  const KvCache on_meta(Device::meta, dtype(), cache_layers(1));
  const std::int64_t pages = pages_of(room_.tokens);
  const CachedPast all{
      .cache = &on_meta, .longest = pages * page_tokens_, .longest_memory = room_.read};
  pass_.reserve([&](Pass& pass) {
    const std::int64_t piece = std::min(page_tokens_, room_.tokens);
    const bool reads_images = pass_.model().config().family == ModelFamily::llava;
    const PassSize of_piece = with_images({.length = piece, .read = room_.read, .pages = pages},
                                          reads_images ? piece : 0);
    CachedPast alone = all;
    alone.slot = 0;
    pass.input(of_piece);
    pass.see(alone);
    pass.input(of_piece);
    pass.on_host(pass.logits(alone));
    pass.input({.sequences = rows_, .rows = asked_, .pages = pages});
    pass.on_host(pass.logits(all));
    const PassInput in = pass.input({.sequences = asked_, .rows = asked_, .pages = pages});
    const Tensor logits = pass.logits(all);
    sample({.tokens = in.ids, .choices = in.choices, .logits = logits}, pass.stream());
    pass.on_host(logits);
    if (guesses_ == 0) return;
    pass.input({.sequences = asked_, .rows = asked_, .pages = pages});
    pass.on_host(pass.guesses(all, 1));
  });
}

PassSize CachedPass::with_images(PassSize size, std::int64_t rows) const {
  size.sums = sum_dtype(dtype());
  size.images = rows;
  size.image_words =
      pass_.model().config().hidden_size * static_cast<std::int64_t>(size_of(size.sums)) / 4;
  return size;
}

static std::int64_t grown(std::int64_t before, std::int64_t asked, std::int64_t most) {
  if (asked <= before) return before;
  return std::min(most, power_of_two(asked));
}

// How many pages a cache of so many more can become on a GPU, with some memory to spare, as one
// layer moves at a time: on each of the ranks.
std::int64_t CachedPass::pages_in_memory() {
  const auto bytes = [&](std::int64_t pages) {
    return static_cast<std::int64_t>(KvCache::bytes(cache_layers(pages), dtype()));
  };
  const std::int64_t page = bytes(2) - bytes(1);
  if (stream_.device() == Device::cpu || page == 0) return std::numeric_limits<std::int64_t>::max();
  const auto free = static_cast<std::int64_t>(device::free_memory() / 16 * 15);
  const std::int64_t most =
      (free + pool_.size() * page) / (page + page / std::ssize(cache_layers(1)));
  if (ranks_.group == nullptr) return most;
  auto fewer = -static_cast<double>(most);
  ranks_.group->all_reduce({&fewer, DType::f64, {1}}, Reduction::max).wait();
  return -static_cast<std::int64_t>(fewer);
}

// As make() with more pages: with fewer than asked for where memory ends; false if it has not those
// that are needed, and those that there are will do for the longest text: more it will not have.
// Several ranks go by what all have room for, and do not try.
bool CachedPass::grow(Room room, std::int64_t needed) {
  const bool tries = !all_at_once_ && ranks_.group == nullptr;
  if (const std::int64_t most = pages_in_memory(); room.pages > most && !all_at_once_) {
    if (!tries && needed > most && pool_.size() >= pages_of(max_read())) {
      most_pages_ = pool_.size();
      return false;
    }
    room.pages = std::max(needed, most);
    room.tokens = max_tokens();  // while there is room for them
  }
  for (;; room.pages = needed) {
    try {
      make(room);
      return true;
    } catch (const Error& error) {
      if (error.code() != Exit::out_of_memory || !tries) throw;
      if (room.pages > needed) continue;
      if (pool_.size() < pages_of(max_read())) throw;
      most_pages_ = pool_.size();
      return false;
    }
  }
}

// Pages that nobody holds go first; the cache at least doubles when it grows.
bool CachedPass::reserve(std::int64_t number, std::int64_t tokens, std::int64_t read) {
  Sequence& sequence = at(number);
  const std::int64_t asked = sequence.length + tokens,
                     missing = pages_of(asked) - std::ssize(sequence.pages);
  assert(asked <= max_tokens() && read <= max_read());
  Room room = room_;
  room.tokens =
      grown(room.tokens, std::max(asked, std::min(kFewestTokens, max_tokens())), max_tokens());
  if (has_slots()) room.slots = grown(room.slots, number + 1, sequences());
  if (has_encoder())
    room.read = grown(room.read, std::max(read, std::min(kFewestTokens, max_read())), max_read());
  if (const std::int64_t needed = pool_.held() + missing; missing > 0 && needed > pool_.size()) {
    if (needed > most_pages_) return false;
    room.pages = all_at_once_
                     ? most_pages_
                     : std::min(most_pages_, std::max(2 * pool_.size(), power_of_two(needed)));
    if (!grow(room, needed)) return false;
  } else {
    make(room);
  }
  for (std::int64_t i = 0; i < missing; ++i) sequence.pages.push_back(*pool_.take());
  return true;
}

// A page for the token behind the next, where one is left, so that a step runs ahead.
void CachedPass::reserve_ahead(std::int64_t number) {
  const Sequence& sequence = at(number);
  const std::int64_t asked = sequence.length + 2;
  if (asked <= max_tokens() && pages_of(asked) > std::ssize(sequence.pages) &&
      pool_.held() < pool_.size())
    reserve(number, 2);
}

void CachedPass::make_room(std::span<const std::int64_t> sequences, std::int64_t tokens,
                           std::int64_t read) {
  for (const std::int64_t i : sequences)
    if (!reserve(i, tokens * std::ranges::count(sequences, i), read))
      fail(Exit::out_of_memory, "a cache of ", most_pages_ * page_tokens_, " tokens is full");
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
  if (steps_) steps_->forget(number);
}

void CachedPass::take_back(std::int64_t number, std::int64_t tokens) {
  if (tokens == 0) return;
  Sequence& sequence = at(number);
  assert(keeps_tokens_apart() && tokens <= sequence.length);
  sequence.length -= tokens;
  assert(!pool_.has_name(sequence.pages[static_cast<std::size_t>(sequence.length / page_tokens_)]));
  if (steps_) steps_->forget(number);
}

std::int64_t CachedPass::start(std::int64_t number, std::span<const std::int32_t> ids,
                               std::int64_t adapter) {
  start(number, adapter);
  Sequence& sequence = at(number);
  if (has_slots()) return 0;
  const auto size = static_cast<std::size_t>(page_tokens_);
  std::optional<std::int32_t> before;
  for (; ids.size() > size; ids = ids.subspan(size)) {
    const auto page = pool_.find(before, ids.first(size), adapter);
    if (!page) break;
    sequence.pages.push_back(*page);
    sequence.length += page_tokens_;
    before = page;
  }
  return sequence.length;
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
    pool_.name(sequence.pages[number], before, ids, sequence.adapter);
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
  if (steps_)
    for (const std::int64_t i : sequences) steps_->forget(i);
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
                                                      std::span<const Choice> choices) {
  assert(sequences.size() == ids.size() && sequences.size() == choices.size() &&
         std::ssize(ids) <= kTogether);
  make_room(sequences, 1);
  if (steps_) {
    for (const std::int64_t i : sequences) reserve_ahead(i);
    std::vector<TokenSteps::Row> rows;
    for (const std::int64_t i : sequences)
      rows.push_back({.length = &at(i).length,
                      .read = at(i).read,
                      .pages = at(i).pages,
                      .adapter = at(i).adapter});
    return steps_->next({.sequences = {sequences.begin(), sequences.end()},
                         .ids = {ids.begin(), ids.end()},
                         .choices = {choices.begin(), choices.end()}},
                        *cache_, rows);
  }
  const PassInput in = put(sequences, ids, last_of(std::ssize(sequences), 1));
  std::memcpy(in.choices.data(), choices.data(), in.choices.bytes());
  const Tensor logits = pass_.logits(past(sequences, in.size));
  sample({.tokens = in.ids, .choices = in.choices, .logits = logits}, stream_);
  return in.ids.span<std::int32_t>();
}

}  // namespace mt
