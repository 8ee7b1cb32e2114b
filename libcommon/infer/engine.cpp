#include "infer/engine.h"

#include <algorithm>
#include <cassert>

#include "infer/image_pass.h"
#include "infer/step_runs.h"
#include "model/config/model_config.h"

namespace mt {

static constexpr std::int64_t kPiecesOfGpu = 16;  // of prompts, that a step reads

void EngineLimits::add_to(CommandLine& cl) {
  cl.option("--inference-max-requests,--max-batch-size", &max_requests, "N",
            "completions at a time; changes no result", between(1, 1024));
  cl.option(
      "--cache-tokens", &cache_tokens, "N",
      "tokens, of all completions together, that the cache has room for, and the most that one "
      "sees; 0: it grows while there is memory; changes no result but that",
      at_least(0));
  kept.add_to(cl);
  cl.option("--prefill-tokens", &prefill_tokens, "N",
            "tokens of prompts to read between two tokens of the others, in whole pieces; 0: one "
            "piece, on a GPU sixteen; changes no result",
            at_least(0));
  cl.option("--draft-tokens", &draft_tokens, "N",
            "tokens of each completion to guess, which the model then sees at once; "
            "changes no result",
            between(0, kFewRows - 1));
  cl.option("--draft-layers", &further_layers, "N",
            "the model's layers that predict further tokens guess for --draft-tokens, one each: "
            "those of a DeepSeek-V3 or GLM-4.5 of Hugging Face's, say, all that there are",
            between(0, kMostFurther));
  cl.option("--threads,-j", &threads, "N", "worker threads of the CPU; 0: one a core", at_least(0));
}

void EngineLimits::check_draft(const std::string& draft_load, bool has_adapters) const {
  const char* const guesses = further_layers > 0    ? "--draft-layers"
                              : !draft_load.empty() ? "--draft-load"
                                                    : nullptr;
  if (guesses != nullptr && draft_tokens == 0) fail(Exit::usage, guesses, ": needs --draft-tokens");
  if (further_layers > 0 && !draft_load.empty())
    fail(Exit::usage, "--draft-load: not with --draft-layers, which guess");
  if (further_layers > 0 && has_adapters)
    fail(Exit::usage, "--adapter: not with --draft-layers, to which no adapter adds");
}

// Layers that predict further tokens guess one each: more layers, or more guesses, are of no use.
static EngineOptions of_use(EngineOptions options) {
  EngineLimits& limits = options.limits;
  if (limits.further_layers > 0)
    limits.draft_tokens = limits.further_layers =
        std::min(limits.draft_tokens, limits.further_layers);
  return options;
}

Engine::Engine(const Model& model, const EngineOptions& options)
    : options_(of_use(options)),
      pass_(model, {.vocab_size = options.vocab_size,
                    .sequences = options.limits.max_requests,
                    .rows = options.limits.max_requests * kFewRows,
                    .asked = options.limits.max_requests * (1 + options_.limits.draft_tokens),
                    .threads = options.limits.threads,
                    .cache_tokens = options.limits.cache_tokens,
                    .page_tokens = options.page_tokens,
                    .guesses = options_.limits.further_layers,
                    .form = options.limits.cache,
                    .ranks = options.ranks}),
      active_(static_cast<std::size_t>(options.limits.max_requests)) {
  if (options_.limits.prefill_tokens == 0)
    options_.limits.prefill_tokens =
        pass_.page_tokens() * (model.table().device() == Device::cuda ? kPiecesOfGpu : 1);
  if (options.limits.draft_tokens == 0) return;
  if (!pass_.keeps_tokens_apart())
    fail(Exit::bad_config,
         "--draft-tokens: this model's layers pass states on, which no guess is taken out of");
  if (options.limits.further_layers > 0)
    drafts_ = further_drafts(pass_, options_.limits.further_layers);
  else
    drafts_ = options.draft == nullptr
                  ? ngram_drafts()
                  : model_drafts(*options.draft, {.vocab_size = options.vocab_size,
                                                  .sequences = options.limits.max_requests,
                                                  .threads = options.limits.threads,
                                                  .cache_tokens = options.limits.cache_tokens,
                                                  .page_tokens = options.page_tokens});
}

bool Engine::full() const {
  const auto free = std::ranges::count(active_, nullptr, &Active::completion);
  return free <= std::ssize(waiting_);
}

Engine::Counts Engine::counts() const {
  Counts counts = counts_;
  counts.pages = pass_.pages().size();
  counts.held_pages = pass_.pages().held();
  return counts;
}

Engine::Ticket Engine::submit(Completion& completion) {
  assert(!completion.prompt().empty() && std::ssize(completion.prompt()) <= max_tokens());
  const Ticket ticket = ++submitted_;
  if (completion.finish() == Completion::Finish::none)
    waiting_.push_back(
        {.ticket = ticket, .completion = &completion, .prompt = std::ssize(completion.ids())});
  return ticket;
}

void Engine::cancel(Ticket ticket) {
  std::erase_if(waiting_, [&](const Active& waiting) { return waiting.ticket == ticket; });
  const auto found = std::ranges::find(active_, ticket, &Active::ticket);
  if (found != active_.end()) end(found - active_.begin());
}

bool Engine::waits(Ticket ticket) const {
  const auto found = std::ranges::lower_bound(waiting_, ticket, {}, &Active::ticket);
  return found != waiting_.end() && found->ticket == ticket && !found->begun;
}

void Engine::end(std::int64_t sequence) {
  at(sequence) = {};
  pass_.start(sequence);
  if (drafts_) drafts_->forget(sequence);
}

// The completion has all that it gets.
void Engine::finish(std::int64_t sequence) {
  const Active& active = at(sequence);
  if (active.first == 0) active.completion->set_experts(pass_.choices(sequence));
  end(sequence);
}

// --- Room ---------------------------------------------------------------------------------------

// The tokens that a sequence sees next.
std::span<const std::int32_t> Engine::unseen(const Active& active, std::int64_t seen) {
  return std::span(active.completion->ids()).subspan(static_cast<std::size_t>(active.first + seen));
}

bool Engine::reads_prompt(std::int64_t sequence) {
  return pass_.length(sequence) < at(sequence).prompt;
}

// Begins with what the cache has of the prompt, and with pages for all that is there and for a
// token more.
bool Engine::begin(std::int64_t sequence) {
  const Active& active = at(sequence);
  const auto prompt = unseen(active, 0).first(static_cast<std::size_t>(active.prompt));
  std::int64_t shared = 0;
  if (active.completion->images() != nullptr)
    pass_.start(sequence, active.completion->adapter(), true);
  else
    shared = pass_.start(sequence, prompt, active.completion->adapter());
  const std::int64_t tokens = std::min(std::ssize(unseen(active, 0)) + 1, max_tokens()) - shared;
  if (!pass_.reserve(sequence, tokens, std::ssize(active.completion->read()))) {
    pass_.start(sequence);
    return false;
  }
  counts_.shared += shared;
  if (!active.begun) active.completion->set_shared(shared);
  return true;
}

void Engine::admit() {
  for (std::int64_t sequence = 0; sequence < std::ssize(active_) && !waiting_.empty(); ++sequence) {
    if (at(sequence).completion != nullptr) continue;
    at(sequence) = waiting_.front();
    if (!begin(sequence)) {
      at(sequence) = {};
      return;
    }
    at(sequence).begun = true;
    waiting_.pop_front();
  }
}

// The positions are used up.
void Engine::slide(std::int64_t sequence) {
  Active& active = at(sequence);
  const std::int64_t left = std::max<std::int64_t>(1, max_tokens() / 2);
  active.first = std::ssize(active.completion->ids()) - left;
  active.prompt = left;
  pass_.start(sequence);
  if (!begin(sequence)) preempt(sequence);
}

void Engine::preempt(std::int64_t sequence) {
  const auto behind = std::ranges::upper_bound(waiting_, at(sequence).ticket, {}, &Active::ticket);
  waiting_.insert(behind, at(sequence));
  end(sequence);
  ++counts_.preempted;
}

// Whoever was submitted last goes; false if that is the sequence itself.
bool Engine::make_room(std::int64_t sequence, std::int64_t tokens) {
  while (!pass_.reserve(sequence, tokens)) {
    const auto last = std::ranges::max_element(active_, {}, &Active::ticket) - active_.begin();
    preempt(last);
    if (last == sequence) return false;
  }
  return true;
}

// --- Steps --------------------------------------------------------------------------------------

void Engine::choose(std::span<const std::int64_t> sequences, ConstTensor logits) {
  to_f64(logits_, logits);
  SharedLogits shared(logits_);
  for (const std::int64_t sequence : sequences) {
    Active& active = at(sequence);
    try {
      active.completion->choose(shared);
    } catch (const Error& error) {  // such as of logits that are no numbers
      if (!options_.failed) throw;
      active.failed = true;
      options_.failed(active.ticket, error.what());
    }
  }
}

// The logits behind its last token, where the piece ends the text.
ConstTensor Engine::read_piece(std::int64_t sequence, std::int64_t tokens) {
  const Completion& completion = *at(sequence).completion;
  const std::int64_t seen = pass_.length(sequence);
  const auto left = unseen(at(sequence), seen);
  const auto ids = left.first(static_cast<std::size_t>(tokens));
  const std::span<const std::int32_t> read = seen == 0 ? completion.read() : decltype(ids)();
  CachedPass::Images images;
  if (completion.images() != nullptr)
    images = {completion.image_rows().subspan(static_cast<std::size_t>(at(sequence).first + seen),
                                              ids.size()),
              completion.images()->hidden};
  counts_.read += tokens;
  if (ids.size() == left.size()) return pass_.next_logits(sequence, ids, read, images);
  pass_.see(sequence, ids, read, images);
  return {};
}

// How many tokens of its prompt it reads next.
std::int64_t Engine::next_piece(std::int64_t sequence) const {
  const std::int64_t page = pass_.page_tokens(), seen = pass_.length(sequence);
  return std::min(page - seen % page, at(sequence).prompt - seen);
}

// Whether both are to see the same piece next, behind the same pages, and end with it or go on.
bool Engine::reads_the_same(std::int64_t sequence, std::int64_t other) const {
  const Active &a = at(sequence), &b = at(other);
  const auto is_plain = [](const Active& one) {
    return one.completion->read().empty() && one.completion->images() == nullptr;
  };
  const std::int64_t piece = next_piece(sequence);
  if (piece != next_piece(other) || !pass_.has_same_pages(sequence, other) || !is_plain(a) ||
      !is_plain(b))
    return false;
  const auto left_of_a = unseen(a, pass_.length(sequence)),
             left_of_b = unseen(b, pass_.length(other));
  const auto ids = static_cast<std::size_t>(piece);
  return (left_of_a.size() == ids) == (left_of_b.size() == ids) &&
         std::ranges::equal(left_of_a.first(ids), left_of_b.first(ids));
}

// Whether a piece's tokens are rows of a step, beside those of others, so that many short prompts
// read the weights once.  A prompt says it alone: other pieces are multiplied with other bits.
bool Engine::is_short(std::int64_t sequence, std::int64_t tokens) {
  return tokens <= kFewRows && tokens < pass_.page_tokens() && pass_.keeps_tokens_apart() &&
         at(sequence).completion->read().empty() && at(sequence).completion->images() == nullptr;
}

// In the order of their tickets.  What was begun has pages for its prompt.  Returns those whose
// next piece is short, and is not read yet.
std::vector<std::int64_t> Engine::read_prompts(std::span<const std::int64_t> sequences) {
  std::int64_t left = std::max(pass_.page_tokens(), options_.limits.prefill_tokens);
  std::vector<std::int64_t> with_short;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::int64_t sequence = sequences[i];
    while (left > 0 && reads_prompt(sequence)) {
      const std::int64_t piece = next_piece(sequence);
      left -= piece;
      if (is_short(sequence, piece)) {
        with_short.push_back(sequence);
        break;
      }
      std::vector<std::int64_t> same{sequence};
      for (const std::int64_t other : sequences.subspan(i + 1))
        if (reads_the_same(sequence, other)) same.push_back(other);
      const ConstTensor logits = read_piece(sequence, piece);
      for (const std::int64_t other : std::span(same).subspan(1)) {
        pass_.follow(other, sequence);
        counts_.shared += piece;
      }
      if (logits) choose(same, logits);
    }
  }
  return with_short;
}

// What is guessed has pages, too, where any are left.
std::vector<Engine::Turn> Engine::turns_of(std::span<const std::int64_t> sequences) {
  std::vector<Turn> turns;
  std::vector<Drafts::Text> texts;
  for (const std::int64_t sequence : sequences) {
    const std::int64_t seen = pass_.length(sequence);
    const auto left = unseen(at(sequence), seen);
    const std::int64_t piece = at(sequence).prompt - seen;  // what is left of its prompt, if any
    const std::int64_t most =
        std::min(drafts_ ? 1 + options_.limits.draft_tokens : 1, max_tokens() - seen);
    std::int64_t known = piece > 0 ? piece : std::min(most, std::ssize(left)), guesses = 0;
    if (piece > 0)
      counts_.read += piece;
    else if (known == std::ssize(left))
      guesses = std::min(most - known, at(sequence).completion->tokens_left() - 1);
    if (piece <= 0 && known + guesses > 1 && !pass_.reserve(sequence, known + guesses)) {
      known = 1;
      guesses = 0;
    }
    const auto ids = left.first(static_cast<std::size_t>(known));
    turns.push_back({sequence, {ids.begin(), ids.end()}, ids.size(), ids.size() == left.size()});
    texts.push_back({sequence, unseen(at(sequence), 0), guesses});
  }
  if (!drafts_) return turns;
  const auto guesses = drafts_->guess(texts);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    turns[i].ids.insert(turns[i].ids.end(), guesses[i].begin(), guesses[i].end());
    counts_.guessed += std::ssize(guesses[i]);
  }
  return turns;
}

// The logits after the turn's last token that is known and after each that is guessed.
void Engine::take(const Turn& turn, ConstTensor logits) {
  if (!turn.is_last) return;
  const Active& active = at(turn.sequence);
  std::size_t right = turn.known;  // of its tokens
  for (;; ++right) {
    const auto row = static_cast<std::int64_t>(right - turn.known);
    choose({&turn.sequence, 1}, logits.rows(row, row + 1));
    if (active.failed || active.completion->finish() != Completion::Finish::none) break;
    if (right == turn.ids.size() || active.completion->ids().back() != turn.ids[right]) break;
  }
  counts_.accepted += static_cast<std::int64_t>(right - turn.known);
  pass_.take_back(turn.sequence, static_cast<std::int64_t>(turn.ids.size() - right));
}

std::vector<std::vector<Engine::Turn>> Engine::runs_of(std::vector<Turn> turns) {
  std::vector<std::int64_t> rows;
  std::vector<std::optional<std::size_t>> before;
  for (const Turn& turn : turns) {
    rows.push_back(std::ssize(turn.ids));
    before.push_back(at(turn.sequence).run);
  }
  const std::vector<std::size_t> runs = step_runs(rows, before, CachedPass::kTogether);
  std::vector<std::vector<Turn>> all;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    at(turns[i].sequence).run = runs[i];
    all.resize(std::max(all.size(), runs[i] + 1));
    all[runs[i]].push_back(std::move(turns[i]));
  }
  return all;
}

// At most as many tokens as a step has rows.
void Engine::go_on(std::span<const Turn> turns, std::size_t run) {
  std::vector<std::int64_t> sequences;
  std::vector<std::int32_t> ids, asked;
  std::vector<Choice> choices, behind;
  bool on_host = false;
  for (const Turn& turn : turns) {
    const Completion& completion = *at(turn.sequence).completion;
    for (std::size_t k = turn.known - 1; k < turn.ids.size(); ++k)
      asked.push_back(static_cast<std::int32_t>(ids.size() + k));
    sequences.insert(sequences.end(), turn.ids.size(), turn.sequence);
    ids.insert(ids.end(), turn.ids.begin(), turn.ids.end());
    choices.push_back(completion.choice());
    behind.push_back(completion.choice_behind());
    on_host |= completion.wants_logits(pass_.scores_tokens()) || turn.ids.size() > 1;
  }
  if (!on_host) {
    const auto tokens =
        pass_.next_tokens(sequences, ids, choices, {.choices = behind, .turn = run});
    const std::span<const double> scores = pass_.scores(run);
    for (std::size_t i = 0; i < turns.size(); ++i)
      if (turns[i].is_last)
        at(sequences[i]).completion->take_token(tokens[i], scores.empty() ? 0 : scores[i]);
    return;
  }
  const ConstTensor logits = pass_.next_logits(sequences, ids, asked);
  std::int64_t row = 0;
  for (const Turn& turn : turns) {
    const std::int64_t end = row + std::ssize(turn.ids) - static_cast<std::int64_t>(turn.known) + 1;
    take(turn, logits.rows(row, end));
    row = end;
  }
}

bool Engine::step() {
  admit();
  std::vector<std::int64_t> there, reading, going_on;
  for (std::int64_t sequence = 0; sequence < std::ssize(active_); ++sequence)
    if (at(sequence).completion != nullptr) there.push_back(sequence);
  std::ranges::sort(there, {}, [&](std::int64_t sequence) { return at(sequence).ticket; });
  const auto is_there = [&](std::int64_t sequence) { return at(sequence).completion != nullptr; };
  for (const std::int64_t sequence : there) {
    if (is_there(sequence) && pass_.length(sequence) == max_tokens()) slide(sequence);
    if (!is_there(sequence)) continue;
    if (reads_prompt(sequence))
      reading.push_back(sequence);
    else if (make_room(sequence, 1))
      going_on.push_back(sequence);
  }
  const auto is_gone = [&](std::int64_t sequence) { return !is_there(sequence); };
  std::erase_if(reading, is_gone);
  std::erase_if(going_on, is_gone);
  const std::vector<std::int64_t> with_short = read_prompts(reading);
  going_on.insert(going_on.begin(), with_short.begin(), with_short.end());
  // Those with the same adapter beside each other.
  std::ranges::stable_sort(
      going_on, {}, [&](std::int64_t sequence) { return at(sequence).completion->adapter(); });
  const std::vector<std::vector<Turn>> runs = runs_of(turns_of(going_on));
  for (std::size_t run = 0; run < runs.size(); ++run)
    if (!runs[run].empty()) go_on(runs[run], run);
  for (const std::int64_t sequence : there)
    if (is_there(sequence) &&
        (at(sequence).failed || at(sequence).completion->finish() != Completion::Finish::none))
      finish(sequence);
  return !there.empty() || !waiting_.empty();
}

}  // namespace mt
