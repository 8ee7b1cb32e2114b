#include "text/training/word_piece_trainer.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/hf/hf_normalizer.h"
#include "text/hf/hf_tables.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8_length.h"

namespace mt {
namespace {

using Token = PairMerger::Token;

constexpr std::string_view kPrefix = "##";

// The tokens of characters, by code point: of those that begin a word and those that go on with
// one.
class CharacterTokens {
 public:
  // Appends the tokens to `tokens`, and the characters of all words get their numbers.
  CharacterTokens(const PieceCounts& words, std::vector<std::string>& tokens)
      : first_(kCodePoints, kNone), following_(kCodePoints, kNone) {
    for (const auto& [word, count] : words) {
      for (std::size_t at = 0; at < word.size();) {
        const bool follows = at > 0;
        const char32_t point = next_valid_code_point(word, at);
        first_[point] = 0;
        if (follows) following_[point] = 0;
      }
    }
    number(first_, "", tokens);
    number(following_, kPrefix, tokens);
  }

  void of_word(std::string_view word, std::vector<Token>& tokens) const {
    tokens.clear();
    for (std::size_t at = 0; at < word.size();)
      tokens.push_back((at == 0 ? first_ : following_)[next_valid_code_point(word, at)]);
  }

 private:
  static constexpr char32_t kCodePoints = 0x110000;
  static constexpr Token kNone = -1;

  static void number(std::vector<Token>& ids, std::string_view prefix,
                     std::vector<std::string>& tokens) {
    for (char32_t point = 0; point < kCodePoints; ++point) {
      if (ids[point] == kNone) continue;
      ids[point] = static_cast<Token>(tokens.size());
      append_utf8(tokens.emplace_back(prefix), point);
    }
  }

  std::vector<Token> first_, following_;
};

}  // namespace

void WordPieceTrainer::add(std::string_view text) {
  std::string normal = replace_invalid_utf8(text);
  const HfBertNormalizer normalizer{.strip_accents = lower_case_, .lowercase = lower_case_};
  normalizer.apply(normal);
  std::size_t begin = 0;  // of the word
  const auto put = [&](std::size_t end) {
    if (end > begin) words_.add(std::string_view(normal).substr(begin, end - begin));
    begin = end;
  };
  for (std::size_t at = 0; at < normal.size();) {
    const std::size_t before = at;
    const char32_t point = next_valid_code_point(normal, at);
    const bool space = category(point) == Category::space;
    if (!space && !hf_is(point, HfFlag::punctuation)) continue;
    put(before);
    if (space)
      begin = at;
    else
      put(at);
  }
  put(normal.size());
}

std::vector<std::string> WordPieceTrainer::train(std::int32_t vocab_size,
                                                 const std::function<void()>& checkpoint) const {
  std::vector<std::string> tokens(kSpecial.begin(), kSpecial.end());
  const CharacterTokens characters(words_, tokens);
  const auto wanted = static_cast<std::size_t>(std::max(vocab_size, 0));
  if (wanted < tokens.size())
    fail(Exit::bad_data, "vocabulary of ", vocab_size,
         " tokens: the characters of the texts need at least ", tokens.size());
  for (auto made = kSpecial.size(); made < tokens.size(); ++made) checkpoint();
  PairMerger merger(tokens.size());
  std::vector<Token> word_tokens;
  for (const auto& [word, count] : words_) {
    characters.of_word(word, word_tokens);
    merger.add(word_tokens, count);
  }
  const bool enough = merger.merge(wanted - tokens.size(), checkpoint);
  for (const auto& [left, right] : merger.merges())
    tokens.push_back(tokens[left] + tokens[right].substr(kPrefix.size()));
  if (!enough)
    fail(Exit::bad_data, "vocabulary of ", vocab_size, " tokens: the texts give at most ",
         tokens.size());
  return tokens;
}

std::vector<std::string> WordPieceFiles::paths(const std::string& directory) {
  return {directory + "/vocab.txt"};
}

WordPieceFiles::WordPieceFiles(const std::string& directory, bool overwrite)
    : folder_(directory), vocabulary_(directory + "/vocab.txt", overwrite) {}

void WordPieceFiles::commit(const std::vector<std::string>& tokens) {
  for (const std::string& token : tokens) vocabulary_.write(token + "\n");
  vocabulary_.commit();
}

}  // namespace mt
