#include "infer/drafts.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

namespace {

using Ids = std::vector<std::int32_t>;

// Adds a token to the guesses of some of the texts, by their numbers, as many at a time as run
// together: say(numbers, sequences, last tokens), all as many, returns the tokens.
template <class Say>
void guess_one_more(std::span<const Drafts::Text> texts, std::span<const std::size_t> numbers,
                    std::vector<Ids>& guesses, const Say& say) {
  constexpr auto kTogether = static_cast<std::size_t>(CachedPass::kTogether);
  while (!numbers.empty()) {
    const auto some = numbers.first(std::min(kTogether, numbers.size()));
    numbers = numbers.subspan(some.size());
    std::vector<std::int64_t> sequences;
    Ids last;
    for (const std::size_t i : some) {
      sequences.push_back(texts[i].sequence);
      last.push_back(guesses[i].empty() ? texts[i].ids.back() : guesses[i].back());
    }
    const auto& tokens = say(some, sequences, last);
    for (std::size_t k = 0; k < some.size(); ++k) guesses[some[k]].push_back(tokens[k]);
  }
}

// --- What the text has said before --------------------------------------------------------------

constexpr std::size_t kLongestGram = 4;

Ids what_followed(std::span<const std::int32_t> ids, std::size_t most) {
  for (std::size_t size = std::min(kLongestGram, ids.size() - 1); size > 0; --size) {
    const auto gram = ids.last(size), before = ids.first(ids.size() - 1);
    const auto found = std::ranges::find_end(before, gram);
    if (found.empty()) continue;
    const auto next = ids.subspan(static_cast<std::size_t>(found.end() - before.begin()));
    const auto part = next.first(std::min(most, next.size()));
    return {part.begin(), part.end()};
  }
  return {};
}

class NgramDrafts : public Drafts {
 public:
  std::vector<Ids> guess(std::span<const Text> texts) override {
    std::vector<Ids> guesses;
    for (const Text& text : texts)
      guesses.push_back(text.most > 0 && !text.ids.empty()
                            ? what_followed(text.ids, static_cast<std::size_t>(text.most))
                            : Ids());
    return guesses;
  }
};

// --- What a smaller model says ------------------------------------------------------------------

class ModelDrafts : public Drafts {
 public:
  ModelDrafts(const Model& model, const CachedPass::Options& options)
      : pass_(model, options), seen_(static_cast<std::size_t>(options.sequences)) {
    if (pass_.has_encoder() || !pass_.keeps_tokens_apart())
      fail(Exit::bad_config,
           "--draft-load: guesses come from a decoder without layers that pass states on");
  }

  std::vector<Ids> guess(std::span<const Text> texts) override {
    std::vector<Ids> guesses(texts.size());
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < texts.size(); ++i)
      if (texts[i].most > 0 && catch_up(texts[i])) left.push_back(i);
    for (std::uint32_t place = 0; !left.empty(); ++place) {
      guess_one_more(texts, left, guesses,
                     [&](std::span<const std::size_t> numbers,
                         std::span<const std::int64_t> sequences, const Ids& last) {
                       for (std::size_t k = 0; k < last.size(); ++k)
                         remember(texts[numbers[k]], last[k], place == 0);
                       return pass_.next_tokens(
                           sequences, last,
                           std::vector<Choice>(last.size(), {.rule = {.temperature = 0},
                                                             .place = {.token = place}}));
                     });
      std::erase_if(left, [&](std::size_t i) { return std::ssize(guesses[i]) == texts[i].most; });
    }
    return guesses;
  }

  void forget(std::int64_t sequence) override {
    pass_.start(sequence);
    seen_[static_cast<std::size_t>(sequence)] = {};
  }

 private:
  // What the model has seen of a sequence: so many of a text, and what it guessed behind them.
  struct Seen {
    Ids ids;
    std::size_t of_text = 0;
  };
  Seen& seen(const Text& text) { return seen_[static_cast<std::size_t>(text.sequence)]; }

  // Sees the text but for its last token, and has room for what is guessed; false if there is none.
  bool catch_up(const Text& text) {
    const auto [sequence, ids, most] = text;
    auto& [there, of_text] = seen(text);
    const auto same = static_cast<std::size_t>(
        std::ranges::mismatch(there, ids.first(ids.size() - 1)).in1 - there.begin());
    if (same < of_text) {  // another text
      const auto begun = static_cast<std::size_t>(pass_.start(sequence, ids));
      there.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(begun));
    } else {
      pass_.take_back(sequence, static_cast<std::int64_t>(there.size() - same));
      there.resize(same);
    }
    of_text = there.size();
    const std::int64_t more = std::ssize(ids) - std::ssize(there) + most;
    if (std::ssize(ids) + most > pass_.max_tokens() || !pass_.reserve(sequence, more)) {
      forget(sequence);
      return false;
    }
    const auto rest = ids.subspan(of_text, ids.size() - 1 - of_text);
    if (!rest.empty()) pass_.see(sequence, rest);
    there.insert(there.end(), rest.begin(), rest.end());
    of_text = there.size();
    return true;
  }

  // The model sees a token more, the text's last or one that was guessed.
  void remember(const Text& text, std::int32_t token, bool of_text) {
    seen(text).ids.push_back(token);
    if (of_text) ++seen(text).of_text;
  }

  CachedPass pass_;
  std::vector<Seen> seen_;  // by the sequences
};

// --- What the model's own further layers say ----------------------------------------------------

class FurtherDrafts : public Drafts {
 public:
  FurtherDrafts(CachedPass& pass, std::int64_t layers) : pass_(pass), layers_(layers) {}

  std::vector<Ids> guess(std::span<const Text> texts) override {
    std::vector<Ids> guesses(texts.size());
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < texts.size(); ++i)
      if (const std::int64_t seen = pass_.length(texts[i].sequence);
          seen > 0 && seen + 1 == std::ssize(texts[i].ids))
        left.push_back(i);
    for (std::int64_t layer = 1; layer <= layers_; ++layer) {
      std::erase_if(left, [&](std::size_t i) { return texts[i].most < layer; });
      guess_one_more(
          texts, left, guesses,
          [&](std::span<const std::size_t> /*numbers*/, std::span<const std::int64_t> sequences,
              const Ids& last) { return pass_.guess(sequences, last, layer); });
    }
    return guesses;
  }

 private:
  CachedPass& pass_;
  std::int64_t layers_;
};

}  // namespace

std::unique_ptr<Drafts> further_drafts(CachedPass& pass, std::int64_t layers) {
  return std::make_unique<FurtherDrafts>(pass, layers);
}

std::unique_ptr<Drafts> ngram_drafts() { return std::make_unique<NgramDrafts>(); }

std::unique_ptr<Drafts> model_drafts(const Model& model, const CachedPass::Options& options) {
  return std::make_unique<ModelDrafts>(model, options);
}

}  // namespace mt
