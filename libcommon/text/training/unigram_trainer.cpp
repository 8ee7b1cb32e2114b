#include "text/training/unigram_trainer.h"

#include <tbb/parallel_sort.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/threads.h"
#include "text/sentencepiece/sentencepiece.h"
#include "text/sentencepiece/unigram.h"
#include "text/string_map.h"
#include "text/training/unigram_lattice.h"
#include "text/unicode/utf8_length.h"

namespace mt {

namespace {

using Piece = Unigram<double>::Piece;
using Pieces = std::vector<Piece>;
using Words = std::vector<std::pair<std::string, std::int64_t>>;  // sorted; each with its count

constexpr std::int64_t kWordsAtOnce = 1024;  // that one thread takes
constexpr double kUnit = 1 << 20;            // of expected counts
constexpr double kLeastExpected = 0.5;       // of a piece that stays
constexpr int kStepsPerPruning = 2;
constexpr double kShrinking = 0.75, kSlack = 1.1;

int script_of(char32_t point) {
  if (point < 0x80)
    return (point | 0x20) >= 'a' && (point | 0x20) <= 'z' ? USCRIPT_LATIN : USCRIPT_COMMON;
  UErrorCode status = U_ZERO_ERROR;
  const int script = uscript_getScript(static_cast<UChar32>(point), &status);
  constexpr char32_t kProlongedSound = 0x30FC;  // of Katakana; Common to Unicode
  const bool kana = script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA;
  return kana || point == kProlongedSound ? static_cast<int>(USCRIPT_HAN) : script;
}

// Calls found(word) for each.
template <class Found>
void for_each_word(std::string_view normal, const Found& found) {
  constexpr int kNoScript = -1;
  std::size_t begin = 0;
  int script = kNoScript;
  const auto cut = [&](std::size_t end, std::size_t next) {
    if (end > begin) found(normal.substr(begin, end - begin));
    begin = next;
    script = kNoScript;
  };
  for (std::size_t at = 0; at < normal.size();) {
    const std::size_t here = at;
    const char32_t point = next_valid_code_point(normal, at);
    if (point < ' ') {
      cut(here, at);
      continue;
    }
    if (point == ' ' || at - begin > UnigramTrainer::kLongestWord) cut(here, here);
    if (point == ' ') continue;
    int next = script_of(point);
    if (next == USCRIPT_INHERITED && script != kNoScript) next = script;
    if (script != kNoScript && next != script) cut(here, here);
    script = next;
  }
  cut(normal.size(), normal.size());
}

template <class Each>
void for_each_character(std::string_view text, const Each& each) {
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at]))
    each(text.substr(at, utf8_length(text[at])));
}

using Characters = std::vector<std::pair<std::string_view, std::int64_t>>;

// The characters that are not rare, by falling count.
Characters frequent_characters(const PieceCounts& words) {
  std::map<std::string_view, std::int64_t> counts;
  std::int64_t all = 0, covered = 0;
  for (const auto& [word, count] : words)
    for_each_character(word, [&, times = count](std::string_view character) {
      counts[character] += times;
      all += times;
    });
  Characters sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), &Characters::value_type::second);
  std::size_t kept = 0;
  while (kept < sorted.size() &&
         static_cast<double>(covered) < UnigramTrainer::kCoverage * static_cast<double>(all))
    covered += sorted[kept++].second;
  sorted.resize(kept);
  return sorted;
}

Words cut_at_rare_characters(const PieceCounts& words, const Characters& frequent) {
  StringMap<bool> known;
  for (const auto& [character, count] : frequent) known.emplace(character, true);
  StringMap<std::int64_t> counts;
  for (const auto& [word, count] : words) {
    std::string part;
    const auto put = [&, times = count] {
      if (!part.empty()) counts[part] += times;
      part.clear();
    };
    for_each_character(word, [&](std::string_view character) {
      if (known.contains(character))
        part += character;
      else
        put();
    });
    put();
  }
  Words sorted(std::make_move_iterator(counts.begin()), std::make_move_iterator(counts.end()));
  tbb::parallel_sort(sorted);
  return sorted;
}

// The substrings of words that are seeds, with their scores.
class Substrings {
 public:
  explicit Substrings(const Words& words) : words_(words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string_view word = words[i].first;
      for (std::size_t at = 0; at < word.size(); at += utf8_length(word[at]))
        suffixes_.emplace_back(beginning(word.substr(at)), static_cast<std::uint32_t>(i));
    }
    tbb::parallel_sort(suffixes_);
  }

  // What all occurrences of a substring have in common is found where the sorted suffixes part.
  Pieces best(std::size_t at_most) {
    for (const Suffix& suffix : suffixes_) {
      const std::string_view text = suffix.text();
      const std::int64_t count = words_[suffix.word].second;
      close(common_prefix(text));
      if (open_.empty() || open_.back().text.size() < text.size())
        open_.push_back({text, count});
      else
        open_.back().count += count;
    }
    close(0);
    std::ranges::sort(found_, [](const Counted& a, const Counted& b) {
      return a.count != b.count ? a.count > b.count : a.text < b.text;
    });
    found_.resize(std::min(found_.size(), at_most));
    Pieces pieces;
    for (const Counted& seed : found_)
      pieces.push_back({std::string(seed.text), static_cast<double>(seed.count)});
    return pieces;
  }

 private:
  struct Counted {
    std::string_view text;
    std::int64_t count;
  };

  // The beginning of a suffix of a word.  Most are told apart by `first`, their first bytes as a
  // number, so that the sorting seldom looks at the words.
  struct Suffix {
    Suffix(std::string_view text, std::uint32_t of_word)
        : begin(text.data()), size(static_cast<std::uint32_t>(text.size())), word(of_word) {
      for (std::size_t i = 0; i < sizeof first; ++i)
        first = first << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0);
    }
    std::string_view text() const { return {begin, size}; }
    bool operator<(const Suffix& other) const {
      return first != other.first ? first < other.first : text() < other.text();
    }
    std::uint64_t first = 0;
    const char* begin;
    std::uint32_t size, word;
  };

  static std::string_view beginning(std::string_view text) {
    std::size_t end = 0;
    for (std::size_t n = 0; n < UnigramTrainer::kLongestPiece && end < text.size(); ++n)
      end += utf8_length(text[end]);
    return text.substr(0, end);
  }

  // The length of what the text and the longest open substring begin with alike, in bytes of whole
  // characters.
  std::size_t common_prefix(std::string_view text) const {
    if (open_.empty()) return 0;
    const std::string_view last = open_.back().text;
    std::size_t same = 0;
    while (same < std::min(last.size(), text.size())) {
      const std::size_t length = utf8_length(text[same]);
      if (last.substr(same, length) != text.substr(same, length)) break;
      same += length;
    }
    return same;
  }

  // Ends the open substrings that are longer than `size` bytes.
  void close(std::size_t size) {
    while (!open_.empty() && open_.back().text.size() > size) {
      const Counted done = open_.back();
      open_.pop_back();
      std::int64_t length = 0;
      for_each_character(done.text, [&](std::string_view) { ++length; });
      if (length > 1 && done.count > 1) found_.push_back({done.text, done.count * length});
      if (size > 0 && (open_.empty() || open_.back().text.size() < size))
        open_.push_back({done.text.substr(0, size), 0});
      if (!open_.empty()) open_.back().count += done.count;
    }
  }

  const Words& words_;
  std::vector<Suffix> suffixes_;
  std::vector<Counted> open_;   // each begins the next
  std::vector<Counted> found_;  // with their scores
};

Pieces seed_pieces(const Words& words, std::size_t at_most) {
  Pieces pieces = Substrings(words).best(at_most);
  std::map<std::string_view, std::int64_t> characters;
  for (const auto& [word, count] : words)
    for_each_character(word, [&, times = count](std::string_view c) { characters[c] += times; });
  for (const auto& [character, count] : characters)
    pieces.push_back({std::string(character), static_cast<double>(count)});
  double sum = 0;
  for (const Piece& piece : pieces) sum += piece.score;
  for (Piece& piece : pieces) piece.score = std::log(piece.score / sum);
  return pieces;
}

bool is_character(const Piece& piece) { return piece.text.size() == utf8_length(piece.text[0]); }

// What is asked for while the pieces stay as they are.
struct Model {
  explicit Model(const Pieces& all) : pieces(all), scores(all.size()), probabilities(all.size()) {
    std::vector<ByteTrie::Entry> entries;
    for (std::size_t id = 0; id < pieces.size(); ++id) {
      entries.emplace_back(pieces[id].text, static_cast<std::int32_t>(id));
      scores[id] = pieces[id].score;
      probabilities[id] = std::exp(scores[id]);
    }
    trie = ByteTrie(std::move(entries));
  }
  const Pieces& pieces;
  std::vector<double> scores, probabilities;
  ByteTrie trie;
};

using Counts = std::vector<std::atomic<std::int64_t>>;  // by piece

// Calls body(lattice, i) for each i in [0, count).
template <class Body>
void for_each_lattice(const Model& model, const std::vector<double>& weights, std::size_t count,
                      const Body& body) {
  const auto all = static_cast<std::int64_t>(count);
  parallel_for((all + kWordsAtOnce - 1) / kWordsAtOnce, [&](std::int64_t tile) {
    UnigramLattice lattice(model.trie, weights);
    const std::int64_t end = std::min(all, (tile + 1) * kWordsAtOnce);
    for (std::int64_t i = tile * kWordsAtOnce; i < end; ++i)
      body(lattice, static_cast<std::size_t>(i));
  });
}

// d/dx log Gamma(x) for x > 0 (Abramowitz and Stegun: 6.3.5 up to 8, then 6.3.18).
double digamma(double x) {
  double sum = 0;
  for (; x < 8; ++x) sum -= 1 / x;
  const double y = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x - y * (1. / 12 - y * (1. / 120 - y * (1. / 252 - y / 240)));
}

Pieces expectation_and_maximization(const Pieces& pieces, const Words& words) {
  const Model model(pieces);
  Counts units(pieces.size());
  for_each_lattice(
      model, model.probabilities, words.size(), [&](UnigramLattice& lattice, std::size_t i) {
        const double unit = kUnit * static_cast<double>(words[i].second);
        lattice.read(words[i].first);
        lattice.for_each_expected([&](std::int32_t id, double p) {
          units[id].fetch_add(static_cast<std::int64_t>(p * unit + 0.5), std::memory_order_relaxed);
        });
      });
  Pieces kept;
  double sum = 0;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    double expected = static_cast<double>(units[id].load()) / kUnit;
    if (expected < kLeastExpected && !is_character(pieces[id])) continue;
    expected = std::max(expected, kLeastExpected);
    kept.push_back({pieces[id].text, digamma(expected)});
    sum += expected;
  }
  for (Piece& piece : kept) piece.score -= digamma(sum);
  return kept;
}

// What the log likelihood loses without a piece that the best ways use.
class Losses {
 public:
  Losses(const Pieces& pieces, const Words& words)
      : model_(pieces), uses_(pieces.size()), losses_(pieces.size()) {
    for_each_lattice(model_, model_.scores, words.size(),
                     [&](UnigramLattice& lattice, std::size_t i) {
                       lattice.read(words[i].first);
                       for (const std::int32_t id : lattice.best())
                         uses_[id].fetch_add(words[i].second, std::memory_order_relaxed);
                     });
    for (const auto& uses : uses_) sum_ += static_cast<double>(uses.load());
    for_each_lattice(
        model_, model_.scores, pieces.size(),
        [&](UnigramLattice& lattice, std::size_t id) { losses_[id] = loss(lattice, id); });
  }
  static constexpr double kUnused = -std::numeric_limits<double>::infinity();
  static constexpr double kAlwaysKept = std::numeric_limits<double>::infinity();
  const std::vector<double>& all() const { return losses_; }

 private:
  double uses(std::int32_t id) const { return static_cast<double>(uses_[id].load()); }

  double loss(UnigramLattice& lattice, std::size_t id) const {
    if (is_character(model_.pieces[id])) return kAlwaysKept;
    const double own = uses(static_cast<std::int32_t>(id));
    lattice.read(model_.pieces[id].text);
    if (own == 0 || lattice.best().size() > 1) return kUnused;
    lattice.read(model_.pieces[id].text, true);
    const std::vector<std::int32_t>& others = lattice.best();
    const double sum = sum_ + own * static_cast<double>(others.size() - 1);
    double without = 0;
    for (const std::int32_t other : others) without += std::log((uses(other) + own) / sum);
    return own * (std::log(own / sum_) - without);
  }

  const Model model_;
  Counts uses_;
  double sum_ = 0;
  std::vector<double> losses_;
};

Pieces pruned(const Pieces& pieces, const Words& words, std::size_t at_least) {
  const std::vector<double> losses = Losses(pieces, words).all();
  std::vector<std::size_t> order;
  for (std::size_t id = 0; id < pieces.size(); ++id)
    if (losses[id] != Losses::kUnused) order.push_back(id);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t id) { return losses[id]; });
  const auto wanted = static_cast<std::size_t>(kShrinking * static_cast<double>(pieces.size()));
  Pieces kept;
  for (const std::size_t id : order)
    if (kept.size() < std::max(wanted, at_least) || losses[id] == Losses::kAlwaysKept)
      kept.push_back(pieces[id]);
  return kept;
}

// The characters and the best of the other pieces, at most `wanted`, by falling score.
Pieces final_pieces(Pieces pieces, std::size_t wanted) {
  std::ranges::sort(pieces, [](const Piece& a, const Piece& b) {
    return a.score != b.score ? a.score > b.score : a.text < b.text;
  });
  const auto others = static_cast<std::size_t>(
      std::ranges::count_if(pieces, [](const Piece& piece) { return !is_character(piece); }));
  std::size_t left = std::min(others, wanted - (pieces.size() - others));
  std::erase_if(pieces, [&](const Piece& piece) {
    if (is_character(piece)) return false;
    if (left == 0) return true;
    --left;
    return false;
  });
  return pieces;
}

void add_special_pieces(SentencePieceModel& model) {
  using Type = SentencePieceModel::Type;
  model.pieces = {
      {"<unk>", 0, Type::unknown}, {"<s>", 0, Type::control}, {"</s>", 0, Type::control}};
  std::tie(model.unk, model.bos, model.eos) = std::tuple(0, 1, 2);
  for (int byte = 0; byte < 256; ++byte) {
    model.byte_ids[byte] = static_cast<std::int32_t>(model.pieces.size());
    model.pieces.push_back({piece_of_byte(static_cast<unsigned char>(byte)), 0, Type::byte});
  }
}

std::string with_space_marks(std::string_view text) {
  std::string marked;
  for (const char byte : text)
    if (byte == ' ')
      marked += SentencePiece::kSpaceMark;
    else
      marked += byte;
  return marked;
}

SentencePieceModel model_of_lines() {
  SentencePieceModel model;
  model.byte_fallback = true;
  model.normalizer.remove_extra_whitespaces = false;
  return model;
}

}  // namespace

std::vector<std::string> SentencePieceFiles::paths(const std::string& directory) {
  return {directory + "/tokenizer.model"};
}

SentencePieceFiles::SentencePieceFiles(const std::string& directory, bool overwrite)
    : folder_(directory), model_(directory + "/tokenizer.model", overwrite) {}

void SentencePieceFiles::commit(const SentencePieceModel& model) {
  model_.write(sentencepiece_model_content(model));
  model_.commit();
}

UnigramTrainer::UnigramTrainer()
    : empty_(model_of_lines()),
      normalizer_(CharsMap(),
                  {.add_dummy_prefix = empty_.normalizer.add_dummy_prefix,
                   .remove_extra_whitespaces = empty_.normalizer.remove_extra_whitespaces,
                   .escape_whitespaces = empty_.normalizer.escape_whitespaces}) {}

void UnigramTrainer::add(std::string_view text) {
  std::string normal;
  normalizer_.normalize(text, normal);
  for_each_word(normal, [&](std::string_view word) { words_.add(word); });
}

SentencePieceModel UnigramTrainer::train(std::int32_t vocab_size,
                                         const std::function<void()>& checkpoint) const {
  if (vocab_size < kMinimumVocabSize)
    fail(Exit::usage, "vocabulary of ", vocab_size, " pieces, expected at least ",
         kMinimumVocabSize);
  const auto wanted = static_cast<std::size_t>(vocab_size - kSpecialPieces);
  const Characters required = frequent_characters(words_);
  if (required.size() > wanted)
    fail(Exit::bad_data, "vocabulary of ", vocab_size,
         " pieces: the texts' characters need at least ", kSpecialPieces + required.size());
  const Words words = cut_at_rare_characters(words_, required);
  const auto size = static_cast<std::size_t>(vocab_size);
  const auto enough = static_cast<std::size_t>(kSlack * static_cast<double>(vocab_size));
  Pieces pieces = seed_pieces(words, std::max(kSeedPieces, 10 * size));
  for (std::size_t before = 0;;) {
    for (int step = 0; step < kStepsPerPruning; ++step) {
      checkpoint();
      pieces = expectation_and_maximization(pieces, words);
    }
    if (pieces.size() <= enough || pieces.size() == before) break;
    before = pieces.size();
    checkpoint();
    pieces = pruned(pieces, words, enough);
  }
  pieces = final_pieces(std::move(pieces), wanted);
  if (pieces.size() < wanted)
    fail(Exit::bad_data, "vocabulary of ", vocab_size, " pieces: the texts give at most ",
         kSpecialPieces + pieces.size());
  SentencePieceModel model = empty_;
  add_special_pieces(model);
  for (const Piece& piece : pieces)
    model.pieces.push_back({with_space_marks(piece.text), static_cast<float>(piece.score)});
  return model;
}

}  // namespace mt
