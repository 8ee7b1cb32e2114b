#include "text/training/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/bpe/byte_map.h"
#include "text/bpe/gpt2_bpe.h"
#include "text/bpe/gpt2_split.h"

namespace mt {

void BpeTrainer::add(std::string_view text) {
  std::string valid;
  if (!is_valid_utf8(text)) text = valid = replace_invalid_utf8(text);
  std::array<std::size_t, 256> ends;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = gpt2_split(text, at, ends);
    for (std::size_t i = 0; i < count; at = ends[i], ++i)
      pieces_.add(text.substr(at, ends[i] - at));
  }
}

TrainedBpe BpeTrainer::train(std::int32_t vocab_size,
                             const std::function<void()>& checkpoint) const {
  if (vocab_size < kMinimumVocabSize)
    fail(Exit::usage, "vocabulary of ", vocab_size, " tokens, expected at least ",
         kMinimumVocabSize);
  TrainedBpe result;
  std::array<int, 256> bytes;
  std::iota(bytes.begin(), bytes.end(), 0);
  std::sort(bytes.begin(), bytes.end(), [](int a, int b) { return kByteChars[a] < kByteChars[b]; });
  std::array<PairMerger::Token, 256> byte_tokens;
  for (const int byte : bytes) {
    byte_tokens[byte] = static_cast<PairMerger::Token>(result.tokens.size());
    result.tokens.emplace_back(1, static_cast<char>(byte));
  }
  PairMerger merger(result.tokens.size());
  std::vector<PairMerger::Token> tokens;
  for (const auto& [piece, count] : pieces_) {
    tokens.resize(piece.size());
    std::ranges::transform(piece, tokens.begin(),
                           [&](unsigned char byte) { return byte_tokens[byte]; });
    merger.add(tokens, count);
  }
  if (!merger.merge(static_cast<std::size_t>(vocab_size - kMinimumVocabSize), checkpoint))
    fail(Exit::bad_data, "vocabulary of ", vocab_size, " tokens: the texts give at most ",
         kMinimumVocabSize + merger.merges().size());
  result.merges = merger.merges();
  for (const auto& [left, right] : result.merges)
    result.tokens.push_back(result.tokens[left] + result.tokens[right]);
  result.tokens.emplace_back(Gpt2Bpe::kEndOfText);
  return result;
}

std::vector<std::string> BpeFiles::paths(const std::string& directory) {
  return {directory + "/vocab.json", directory + "/merges.txt"};
}

BpeFiles::BpeFiles(const std::string& directory, bool overwrite)
    : folder_(directory),
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
