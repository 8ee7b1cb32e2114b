// The room that a CachedPass has: pages and slots of its cache, which grow, and the pass's own
// memory.
#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <utility>

#include "comm/group.h"
#include "infer/cached_pass.h"
#include "infer/token_steps.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "nn/cached_past.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace mt {

static constexpr std::int64_t kFewestTokens = 256;  // of the longest sequence that room is made for

static std::int64_t power_of_two(std::int64_t count) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

bool CachedPass::has_encoder() const { return pass_.model().config().encoder_num_layers > 0; }

std::vector<CacheShape> CachedPass::cache_layers(std::int64_t pages) const {
  std::vector<CacheShape> layers = cache_of(pass_.model().config(), {.pages = pages,
                                                                     .page_tokens = page_tokens_,
                                                                     .slots = room_.slots,
                                                                     .memory = room_.read,
                                                                     .ranks = ranks_.count(),
                                                                     .further = guesses_});
  for (std::size_t i = 0; i < layers.size() && form_.in_codes; ++i) {
    layers[i].in_codes = true;
    if (i < form_.scales.size()) layers[i].scales = form_.scales[i];
  }
  return layers;
}

void CachedPass::check_form() const {
  if (!form_.in_codes) return;
  const std::vector<CacheShape> layers = cache_layers(1);
  if (std::ranges::any_of(layers, [](const CacheShape& l) { return l.latents.numel() > 0; }))
    fail(Exit::bad_config,
         "--kv-cache-dtype fp8: this model keeps latents, which have no form in eight bits; "
         "leave it out");
  if (std::ranges::none_of(layers, [](const CacheShape& l) { return l.keys.numel() > 0; }))
    fail(Exit::bad_config,
         "--kv-cache-dtype fp8: this model keeps no keys and values; leave it out");
  constexpr std::int64_t kMultiple = 4;  // kernels/cached_codes.h
  for (const CacheShape& layer : layers) {
    if (layer.keys.numel() == 0 || stream_.device() != Device::cuda) continue;
    if (const std::int64_t width = layer.keys[2] * layer.keys[3]; width % kMultiple != 0)
      fail(Exit::unavailable, "--kv-cache-dtype fp8: a token's keys are ", width,
           " numbers, on a GPU expected a multiple of ", kMultiple,
           "; leave it out, or --device cpu");
  }
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
  first(to.choices, from.choices);
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
    for (const auto& steps : steps_) steps->reserve(pages_of(room.tokens));
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

}  // namespace mt
