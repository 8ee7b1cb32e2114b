#include "text/bpe_trainer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/byte_map.h"
#include "text/gpt2_bpe.h"
#include "text/gpt2_split.h"
#include "text/pair_map.h"

namespace mt {

namespace {

using Token = std::int32_t;

// The pieces as tokens, the pairs of adjacent tokens with their places, and merging the most
// frequent.
class Training {
 public:
  explicit Training(const StringMap<std::int64_t>& pieces);

  bool merge_next();  // false: there is no pair left
  std::size_t merges() const { return result_.merges.size(); }
  TrainedBpe take_result() { return std::move(result_); }

 private:
  struct Place {  // of a token
    std::uint32_t piece, offset;
  };
  struct Pair {
    Token left, right;
    std::int64_t count;         // how often it occurs in the texts
    std::vector<Place> places;  // of the left token, in order; some may be out of date
  };
  struct Candidate {  // of a pair; its count may since have become smaller
    std::int64_t count;
    Token left, right;
    std::uint32_t pair;
    bool operator<(const Candidate& other) const {  // is merged later
      return std::tie(count, other.left, other.right) < std::tie(other.count, left, right);
    }
  };

  // slots_ holds a slot for each byte of each piece and kNoToken before and after each piece. The
  // first slot of a token holds the token, the last one ~token (if it is not the first), others
  // kNoToken.
  static constexpr Token kNoToken = std::numeric_limits<Token>::min();

  std::size_t length(Token token) const { return result_.tokens[token].size(); }
  void add_piece(std::string_view bytes, std::int64_t count);
  void add_occurrence(Token left, Token right, Place place, std::int64_t count);
  void merge_at(Place place, const Pair& pair, Token merged);

  std::array<Token, 256> byte_tokens_;
  std::vector<Token> slots_;
  std::vector<std::size_t> starts_;   // of each piece in slots_
  std::vector<std::int64_t> counts_;  // of each piece
  PairMap pair_numbers_;
  std::vector<Pair> pairs_;
  std::priority_queue<Candidate> queue_;
  TrainedBpe result_;
};

Training::Training(const StringMap<std::int64_t>& pieces) : slots_{kNoToken} {
  std::array<int, 256> bytes;
  std::iota(bytes.begin(), bytes.end(), 0);
  std::sort(bytes.begin(), bytes.end(), [](int a, int b) { return kByteChars[a] < kByteChars[b]; });
  for (const int byte : bytes) {
    byte_tokens_[byte] = static_cast<Token>(result_.tokens.size());
    result_.tokens.emplace_back(1, static_cast<char>(byte));
  }
  for (const auto& [piece, count] : pieces) add_piece(piece, count);
  for (std::uint32_t i = 0; i < pairs_.size(); ++i)
    queue_.push({pairs_[i].count, pairs_[i].left, pairs_[i].right, i});
}

void Training::add_piece(std::string_view bytes, std::int64_t count) {
  const auto piece = static_cast<std::uint32_t>(starts_.size());
  starts_.push_back(slots_.size());
  counts_.push_back(count);
  for (std::uint32_t i = 0; i < bytes.size(); ++i) {
    slots_.push_back(byte_tokens_[static_cast<unsigned char>(bytes[i])]);
    if (i > 0) add_occurrence(slots_.end()[-2], slots_.back(), {piece, i - 1}, count);
  }
  slots_.push_back(kNoToken);
}

void Training::add_occurrence(Token left, Token right, Place place, std::int64_t count) {
  std::uint32_t& number = pair_numbers_.at(left, right);
  if (number == PairMap::kNone) {
    number = static_cast<std::uint32_t>(pairs_.size());
    pairs_.push_back({left, right, 0, {}});
  }
  pairs_[number].count += count;
  pairs_[number].places.push_back(place);
}

bool Training::merge_next() {
  while (!queue_.empty() && queue_.top().count != pairs_[queue_.top().pair].count) {
    Candidate candidate = queue_.top();
    queue_.pop();
    candidate.count = pairs_[candidate.pair].count;
    if (candidate.count > 0) queue_.push(candidate);
  }
  if (queue_.empty()) return false;
  const Pair pair = std::move(pairs_[queue_.top().pair]);
  queue_.pop();
  // This is a new token: between its ends bytes merge as they would alone, which happens in one
  // way.
  const auto merged = static_cast<Token>(result_.tokens.size());
  result_.tokens.push_back(result_.tokens[pair.left] + result_.tokens[pair.right]);
  result_.merges.emplace_back(pair.left, pair.right);
  // All pairs with the new token arise here, so later their counts can only fall.
  const auto first_new = static_cast<std::uint32_t>(pairs_.size());
  for (const Place place : pair.places) merge_at(place, pair, merged);
  for (std::uint32_t i = first_new; i < pairs_.size(); ++i)
    if (pairs_[i].count > 0) queue_.push({pairs_[i].count, pairs_[i].left, pairs_[i].right, i});
  return true;
}

void Training::merge_at(Place place, const Pair& pair, Token merged) {
  const std::size_t first = starts_[place.piece] + place.offset;
  if (slots_[first] != pair.left) return;
  const std::size_t second = first + length(pair.left);
  if (slots_[second] != pair.right) return;
  const std::size_t next = second + length(pair.right);
  const std::int64_t count = counts_[place.piece];
  if (Token previous = slots_[first - 1]; previous != kNoToken) {
    if (previous < 0) previous = ~previous;
    pairs_[pair_numbers_.find(previous, pair.left)].count -= count;
    const auto back = static_cast<std::uint32_t>(length(previous));
    add_occurrence(previous, merged, {place.piece, place.offset - back}, count);
  }
  if (slots_[next] != kNoToken) {
    pairs_[pair_numbers_.find(pair.right, slots_[next])].count -= count;
    add_occurrence(merged, slots_[next], place, count);
  }
  slots_[second] = kNoToken;
  slots_[next - 1] = ~merged;
  slots_[first] = merged;
}

}  // namespace

void BpeTrainer::add(std::string_view text) {
  std::string valid;
  if (!is_valid_utf8(text)) text = valid = replace_invalid_utf8(text);
  std::array<std::size_t, 256> ends;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = gpt2_split(text, at, ends);
    for (std::size_t i = 0; i < count; at = ends[i], ++i) {
      const std::string_view piece = text.substr(at, ends[i] - at);
      if (piece.size() > std::numeric_limits<std::uint32_t>::max())
        fail(Exit::bad_data, "a word of ", piece.size(), " bytes, expected less than 4 GiB");
      const auto known = pieces_.find(piece);
      if (known != pieces_.end())
        ++known->second;
      else
        pieces_.emplace(piece, 1);
    }
  }
}

void BpeTrainer::merge(const BpeTrainer& other) {
  for (const auto& [piece, count] : other.pieces_) pieces_[piece] += count;
}

TrainedBpe BpeTrainer::train(std::int32_t vocab_size,
                             const std::function<void()>& checkpoint) const {
  if (vocab_size < kMinimumVocabSize)
    fail(Exit::usage, "vocabulary of ", vocab_size, " tokens, expected at least ",
         kMinimumVocabSize);
  const auto wanted = static_cast<std::size_t>(vocab_size - kMinimumVocabSize);
  Training training(pieces_);
  while (training.merges() < wanted) {
    checkpoint();
    if (!training.merge_next())
      fail(Exit::bad_data, "vocabulary of ", vocab_size, " tokens: the texts give at most ",
           kMinimumVocabSize + training.merges());
  }
  TrainedBpe result = training.take_result();
  result.tokens.emplace_back(Gpt2Bpe::kEndOfText);
  return result;
}

BpeFiles::Directory::Directory(const std::string& wanted) : path(wanted) {
  std::error_code error;
  made = std::filesystem::create_directories(path, error);
  if (error) fail(Exit::cannot_create, path, ": cannot create: ", error.message());
}

BpeFiles::Directory::~Directory() {
  if (made) ::rmdir(path.c_str());
}

BpeFiles::BpeFiles(const std::string& directory, bool overwrite)
    : directory_(directory),
      vocabulary_(directory + "/vocab.json", overwrite),
      merges_(directory + "/merges.txt", overwrite) {}

void BpeFiles::commit(const TrainedBpe& bpe) {
  JsonWriter json;
  json.begin_object();
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id)
    json.member(to_byte_chars(bpe.tokens[id]), id);
  json.end_object();
  vocabulary_.write(json.text());
  vocabulary_.write("\n");
  std::string lines = "#version: 0.2\n";
  for (const auto& [left, right] : bpe.merges)
    lines += to_byte_chars(bpe.tokens[left]) + " " + to_byte_chars(bpe.tokens[right]) + "\n";
  merges_.write(lines);
  vocabulary_.commit();
  merges_.commit();
}

}  // namespace mt
