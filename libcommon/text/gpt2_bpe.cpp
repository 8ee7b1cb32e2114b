#include "text/gpt2_bpe.h"

#include <simdjson.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "text/byte_map.h"
#include "text/gpt2_files.h"
#include "text/gpt2_split.h"
#include "text/utf8_stream.h"

namespace mt {

static std::string hash_of_files(std::string_view vocabulary, std::string_view merges) {
  Hasher hasher;
  hasher.update(Gpt2Bpe::kType);
  hasher.update(hash_hex(as_bytes(vocabulary)));
  hasher.update(hash_hex(as_bytes(merges)));
  return hasher.hex();
}

Gpt2Bpe::Gpt2Bpe(const std::string& vocab_path, const std::string& merges_path) {
  const std::string vocabulary = read_file(vocab_path), merges = read_file(merges_path);
  const TokenIds ids = parse_vocabulary(vocabulary, vocab_path);
  tokens_.resize(ids.size());
  for (const auto& [token, id] : ids) tokens_[id] = from_byte_chars(token).value_or(token);
  const auto eod = ids.find(kEndOfText);
  if (eod == ids.end()) fail(Exit::bad_data, vocab_path, ": no token ", kEndOfText);
  eod_ = eod->second;
  MergeRules rules = parse_merges(merges, merges_path, ids);
  merges_ = std::move(rules.merges);
  symbol_ids_ = std::move(rules.symbol_ids);
  identity_ = hash_of_files(vocabulary, merges);
}

void Gpt2Bpe::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (simdjson::validate_utf8(text.data(), text.size()))
    encode_valid(text, ids);
  else
    encode_valid(replace_invalid_utf8(text), ids);
}

namespace {

// Encodes pieces one after another with one thread's cache.
class PieceEncoder {
 public:
  PieceEncoder(const BpeMerges& merges, const std::vector<std::int32_t>& symbol_ids,
               PieceCache& cache)
      : merges_(merges), symbol_ids_(symbol_ids), cache_(cache) {}

  // Writes the ids of text[at, at + length) to `out`, which has room for kMaxIds of them and for
  // `length`, and returns the end of what was written.
  std::int32_t* encode(std::string_view text, std::size_t at, std::size_t length,
                       std::int32_t* out) {
    if (length > PieceCache::kMaxBytes) return merge(text.substr(at, length), out);
    const PieceCache::Key key = PieceCache::key(text, at, length);
    PieceCache::Entry& entry = cache_.entry(key);
    if (entry.key != key) {
      std::int32_t* end = merge(text.substr(at, length), out);
      if (end - out > static_cast<std::ptrdiff_t>(PieceCache::kMaxIds)) return end;
      entry.key = key;
      entry.count = static_cast<std::int32_t>(end - out);
      std::copy(out, end, entry.ids.begin());
      return end;
    }
    std::copy(entry.ids.begin(), entry.ids.end(), out);  // all of them: no loop, no branch
    return out + entry.count;
  }

 private:
  std::int32_t* merge(std::string_view piece, std::int32_t* out) {
    symbols_.clear();
    merges_.apply(piece, symbols_);
    for (const BpeMerges::Symbol symbol : symbols_) *out++ = symbol_ids_[symbol];
    return out;
  }

  const BpeMerges& merges_;
  const std::vector<std::int32_t>& symbol_ids_;
  PieceCache& cache_;
  std::vector<BpeMerges::Symbol> symbols_;
};

}  // namespace

void Gpt2Bpe::encode_valid(std::string_view text, std::vector<std::int32_t>& ids) const {
  PieceCachePool::Loan cache(caches_);
  PieceEncoder encoder(merges_, symbol_ids_, *cache);
  std::array<std::size_t, 256> ends;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = gpt2_split(text, at, ends);
    // A token is at least one byte long.
    const std::size_t used = ids.size();
    ids.resize(used + (ends[count - 1] - at) + PieceCache::kMaxIds);
    std::int32_t* out = ids.data() + used;
    for (std::size_t i = 0; i < count; ++i) {
      out = encoder.encode(text, at, ends[i] - at, out);
      at = ends[i];
    }
    ids.resize(out - ids.data());
  }
}

const std::string& Gpt2Bpe::token_bytes(std::int32_t id) const {
  if (id < 0 || id >= vocab_size())
    fail(Exit::bad_data, "token id ", id, ", expected 0 to ", vocab_size() - 1);
  return tokens_[id];
}

std::string Gpt2Bpe::decode(std::span<const std::int32_t> ids) const {
  std::string bytes;
  for (const std::int32_t id : ids) bytes += token_bytes(id);
  return bytes;
}

namespace {

class Gpt2StreamDecoder : public StreamDecoder {
 public:
  explicit Gpt2StreamDecoder(const Gpt2Bpe& tokenizer) : tokenizer_(tokenizer) {}
  void push(std::int32_t id, std::string& text) override {
    stream_.push(tokenizer_.token_bytes(id), text);
  }
  void finish(std::string& text) override { stream_.finish(text); }

 private:
  const Gpt2Bpe& tokenizer_;
  Utf8Stream stream_;
};

}  // namespace

std::unique_ptr<StreamDecoder> Gpt2Bpe::stream_decoder() const {
  return std::make_unique<Gpt2StreamDecoder>(*this);
}

}  // namespace mt
