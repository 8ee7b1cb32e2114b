#include "infer/token_steps.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "infer/sampling.h"
#include "nn/cached_past.h"
#include "nn/kv_cache.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace mt {

static constexpr auto kWordsOfChoice =
    static_cast<std::int64_t>(sizeof(Choice) / sizeof(std::int32_t));

PassSize TokenSteps::size_of_step(std::int64_t sequences, std::int64_t pages) {
  return {.sequences = sequences, .rows = sequences, .pages = pages};
}

std::size_t TokenSteps::input_bytes(std::int64_t pages) const {
  return static_cast<std::size_t>(PassInput::words(size_of_step(options_.together, pages))) *
         sizeof(std::int32_t);
}

PassInput TokenSteps::input_in(const Buffer& buffer, std::int64_t sequences) const {
  const PassSize size = size_of_step(sequences, pages_);
  return {buffer.tensor(DType::i32, {PassInput::words(size)}), size};
}

TokenSteps::TokenSteps(Pass& pass, const Options& options) : pass_(pass), options_(options) {
  for (EventHandle& done : done_) done = device::make_event();
}

void TokenSteps::reserve(std::int64_t pages) {
  running_ahead_ = false;
  if (pages == pages_) return;
  pass_.stream().synchronize();
  const std::size_t bytes = input_bytes(pages);
  const Shape choices{2, options_.together * kWordsOfChoice}, shown{options_.together, 2},
      tables{2, options_.together, pages};
  std::size_t all = bytes;
  const auto place_of = [&](const Shape& shape, DType dtype) {
    const std::size_t at = (all + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    all = at + static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    return at;
  };
  const std::size_t of_choices = place_of(choices, DType::i32),
                    of_shown = place_of(shown, DType::i32), of_scores = place_of(shown, DType::f64),
                    of_tables = place_of(tables, DType::i32);
  Buffer input(Device::cuda, bytes), host = Buffer::pinned(all);
  input_ = std::move(input);
  host_ = std::move(host);
  choices_ = host_.tensor(DType::i32, choices, of_choices);
  shown_ = host_.tensor(DType::i32, shown, of_shown);
  shown_scores_ = host_.tensor(DType::f64, shown, of_scores);
  tables_ = host_.tensor(DType::i32, tables, of_tables);
  pages_ = pages;
}

TokenSteps::~TokenSteps() {
  for (const EventHandle done : done_) device::destroy_event(done);
}

void TokenSteps::send(const Turn& turn, std::span<const Row> rows) {
  const auto count = static_cast<std::int64_t>(turn.sequences.size());
  pass_.stream().synchronize();  // the input before has left
  const PassInput host = input_in(host_, count);
  std::memcpy(host.choices.data(), turn.choices.data(), host.choices.bytes());
  std::ranges::copy(turn.ids, host.ids.as<std::int32_t>());
  for (std::int64_t i = 0; i < count; ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    const auto seen = static_cast<std::int32_t>(*row.length);
    host.positions.as<std::int32_t>()[i] = seen;
    host.rows.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
    host.slots.as<std::int32_t>()[i] =
        static_cast<std::int32_t>(turn.sequences[static_cast<std::size_t>(i)]);
    host.lengths.as<std::int32_t>()[i] = seen + 1;
    host.memory_lengths.as<std::int32_t>()[i] = static_cast<std::int32_t>(row.read);
  }
  put_pages(host.pages.as<std::int32_t>(), rows);
  device::copy(input_.data(), host.block.data(), host.block.bytes(), pass_.stream().handle());
}

void TokenSteps::put_pages(std::int32_t* table, std::span<const Row> rows) {
  pages_there_ = 0;
  for (const Row& row : rows) {
    std::ranges::copy(row.pages, table);
    table += pages_;
    pages_there_ += row.pages.size();
  }
}

// The tables of two steps ahead take turns: the step of the one before is done by now.
void TokenSteps::send_pages(std::span<const Row> rows) {
  const auto turn = static_cast<std::int64_t>(queued_ % 2);
  const Tensor table = tables_.rows(turn, turn + 1);
  put_pages(table.as<std::int32_t>(), rows);
  const Tensor to = input_in(input_, std::ssize(rows)).pages;
  device::copy(to.data(), table.data(), to.bytes(), pass_.stream().handle());
}

// The choices behind the turn's, if the GPU, which counts places alone, has others.  Their places
// in pinned memory take turns, too.
void TokenSteps::send_choices(const Turn& turn, std::span<const Choice> behind) {
  const auto follows = [](const Choice& choice, const Choice& next) {
    return following(choice) == next;
  };
  if (std::ranges::equal(turn.choices, behind, follows)) return;
  const auto half = static_cast<std::int64_t>(queued_ % 2);
  const Tensor choices = choices_.rows(half, half + 1);
  std::memcpy(choices.data(), behind.data(), behind.size_bytes());
  const PassInput in = input_in(input_, std::ssize(behind));
  device::copy(in.choices.data(), choices.data(), in.choices.bytes(), pass_.stream().handle());
}

// A step more of each row, behind what it has by now.
void TokenSteps::queue(std::span<const Row> rows, const KvCache& cache) {
  constexpr std::int64_t kFewest = 256;  // keys of a graph
  std::int64_t longest = kFewest;
  AdaptedRuns adapted;
  for (const Row& row : rows) {
    longest = std::max(longest, *row.length + 1);
    if (pass_.model().adapters() != nullptr) add_sequence(adapted, row.adapter);
  }
  const auto rounded = std::bit_ceil(static_cast<std::uint64_t>(longest));
  const std::int64_t keys =
      std::min(pages_ * options_.page_tokens, static_cast<std::int64_t>(rounded));
  PassInput in = input_in(input_, std::ssize(rows));
  in.size.adapted = adapted;
  const Shape& memory = cache.memory(cache.layers() - 1).shape();  // the last one grows last
  const CachedPast past{.cache = &cache, .longest = keys, .longest_memory = memory[1]};
  pass_.repeat(in, past, [&](const Tensor& logits) {
    sample({.tokens = in.ids,
            .choices = in.choices,
            .positions = in.positions,
            .lengths = in.lengths,
            .shown = shown_,
            .scores = shown_scores_,
            .logits = logits},
           pass_.stream());
  });
  device::record(done_[queued_++ % 2], pass_.stream().handle());
}

// Whether the token behind the next of each has a place.
bool TokenSteps::has_places(std::span<const Row> rows) const {
  return options_.runs_ahead && std::ranges::all_of(rows, [&](const Row& row) {
           return *row.length < std::ssize(row.pages) * options_.page_tokens;
         });
}

// What the step has chosen for its row.
void TokenSteps::take_shown(std::size_t row, const Choice& choice, std::size_t to) {
  const std::size_t at = 2 * row + choice.place.token % 2;
  tokens_[to] = shown_.as<std::int32_t>()[at];
  scores_[to] = shown_scores_.as<double>()[at];
}

// Takes the tokens of the turn that run ahead; returns the numbers of the others.
std::vector<std::size_t> TokenSteps::take_ahead(const Turn& turn) {
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < turn.ids.size(); ++i) {
    const auto found = std::ranges::find(ahead_.sequences, turn.sequences[i]);
    const auto row = static_cast<std::size_t>(found - ahead_.sequences.begin());
    if (running_ahead_ && row < ahead_.ids.size() && ahead_.ids[row] == turn.ids[i] &&
        ahead_.choices[row] == turn.choices[i]) {
      device::wait(done_[(queued_ - 1) % 2]);
      take_shown(row, turn.choices[i], i);
    } else {
      others.push_back(i);
    }
  }
  return others;
}

// A step of some of the turn, whose tokens it waits for.
void TokenSteps::step_of(std::span<const std::size_t> some, const Turn& turn, const KvCache& cache,
                         std::span<const Row> rows) {
  Turn part;
  std::vector<Row> part_rows;
  for (const std::size_t i : some) {
    part.sequences.push_back(turn.sequences[i]);
    part.ids.push_back(turn.ids[i]);
    part.choices.push_back(turn.choices[i]);
    part_rows.push_back(rows[i]);
  }
  send(part, part_rows);
  queue(part_rows, cache);
  device::wait(done_[(queued_ - 1) % 2]);
  for (std::size_t n = 0; n < some.size(); ++n) take_shown(n, part.choices[n], some[n]);
}

// The turn behind this one, whose tokens are known.
void TokenSteps::look_ahead(const Turn& turn, std::span<const Choice> behind) {
  if (std::ranges::find(tokens_, -1) != tokens_.end()) {
    running_ahead_ = false;
    fail(Exit::bad_data, "the model's logits are not numbers");
  }
  ahead_ = turn;
  ahead_.ids = tokens_;
  ahead_.choices.assign(behind.begin(), behind.end());
}

// The turn's step is queued; behind it goes the next, with the GPU's own tokens.
void TokenSteps::go_on(const Turn& turn, std::span<const Choice> behind, const KvCache& cache,
                       std::span<const Row> rows) {
  const EventHandle done = done_[(queued_ - 1) % 2];
  std::size_t pages = 0;
  for (const Row& row : rows) {
    ++*row.length;
    pages += row.pages.size();
  }
  running_ahead_ = has_places(rows);
  if (running_ahead_) {
    if (pages != pages_there_) send_pages(rows);
    send_choices(turn, behind);
    queue(rows, cache);
  }
  device::wait(done);
  for (std::size_t i = 0; i < tokens_.size(); ++i) take_shown(i, turn.choices[i], i);
  look_ahead(turn, behind);
}

std::span<const std::int32_t> TokenSteps::next(const Turn& turn, std::span<const Choice> behind,
                                               const KvCache& cache, std::span<const Row> rows) {
  tokens_.resize(turn.ids.size());
  scores_.resize(turn.ids.size());
  if (running_ahead_ && turn == ahead_) {
    go_on(turn, behind, cache, rows);
    return tokens_;
  }
  const std::vector<std::size_t> others = take_ahead(turn);
  running_ahead_ = false;
  if (others.size() == turn.ids.size()) {
    send(turn, rows);
    queue(rows, cache);
    go_on(turn, behind, cache, rows);
    return tokens_;
  }
  if (!others.empty()) step_of(others, turn, cache, rows);
  for (const Row& row : rows) ++*row.length;
  look_ahead(turn, behind);
  if (has_places(rows)) {
    send(ahead_, rows);
    queue(rows, cache);
    running_ahead_ = true;
  }
  return tokens_;
}

}  // namespace mt
