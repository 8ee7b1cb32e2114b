#include "text/sentencepiece/sentencepiece_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "text/string_map.h"

namespace mt {
namespace {

std::string identity_of(std::string_view type, std::string_view model) {
  Hasher hasher;
  hasher.update(type);
  hasher.update(hash_hex(as_bytes(model)));
  return hasher.hex();
}

std::string decode_with(StreamDecoder& decoder, std::span<const std::int32_t> ids) {
  std::string text;
  for (const std::int32_t id : ids) decoder.push(id, text);
  decoder.finish(text);
  return text;
}

void check_id(std::int32_t id, std::int32_t vocab_size) {
  if (id < 0 || id >= vocab_size)
    fail(Exit::bad_data, "token id ", id, ", expected 0 to ", vocab_size - 1);
}

class ModelStream : public StreamDecoder {
 public:
  explicit ModelStream(const SentencePiece& model) : size_(model.size()), decoder_(model) {}
  void push(std::int32_t id, std::string& text) override {
    check_id(id, size_);
    decoder_.push(id, text);
  }
  void finish(std::string& text) override { decoder_.finish(text); }

 private:
  std::int32_t size_;
  SentencePiece::Decoder decoder_;
};

}  // namespace

// --- GPTSentencePieceTokenizer, Llama2Tokenizer. ---

SentencePieceModelTokenizer::SentencePieceModelTokenizer(std::string_view type,
                                                         const std::string& model_path)
    : SentencePieceModelTokenizer(type, read_regular_file(model_path), model_path) {}

SentencePieceModelTokenizer::SentencePieceModelTokenizer(std::string_view type,
                                                         std::string_view content,
                                                         const std::string& where)
    : type_(type),
      identity_(identity_of(type, content)),
      model_(std::make_unique<SentencePiece>(content, where)) {
  if (type_ == kLlama2Type && model_->bos() < 0)
    fail(Exit::bad_data, where, ": no bos piece, ", kLlama2Type, " puts it before each text");
}

void SentencePieceModelTokenizer::encode(std::string_view text,
                                         std::vector<std::int32_t>& ids) const {
  if (type_ == kLlama2Type) ids.push_back(model_->bos());
  model_->encode(text, ids);
}

std::string SentencePieceModelTokenizer::decode(std::span<const std::int32_t> ids) const {
  return decode_with(*stream_decoder(), ids);
}

std::unique_ptr<StreamDecoder> SentencePieceModelTokenizer::stream_decoder() const {
  return std::make_unique<ModelStream>(*model_);
}

// --- SentencePieceTokenizer. ---

SentencePieceTokenizer::SentencePieceTokenizer(const std::string& model_path,
                                               std::int32_t extra_ids) {
  const std::string content = read_regular_file(model_path);
  model_ = std::make_unique<SentencePiece>(content, model_path);
  identity_ = identity_of(kType, content);
  StringMap<std::int32_t> pieces;
  for (std::int32_t id = 0; id < model_->size(); ++id) pieces.emplace(model_->piece(id), id);
  vocab_size_ = model_->size();
  const auto add = [&](const std::string& text) {
    const auto piece = pieces.emplace(text, vocab_size_);
    if (piece.second) ++vocab_size_;
    add_special(text, piece.first->second);
    return piece.first->second;
  };
  const auto add_piece = [&](std::int32_t id, const char* otherwise) {
    return add(id < 0 ? otherwise : model_->piece(id));
  };
  special_.cls = add("<CLS>");
  special_.sep = add("<SEP>");
  eod_ = add("<EOD>");
  special_.mask = add("<MASK>");
  special_.pad = add_piece(model_->pad(), "<PAD>");
  special_.bos = add_piece(model_->bos(), "<BOS>");
  special_.eos = add_piece(model_->eos(), "<EOS>");
  for (std::int32_t i = 0; i < extra_ids; ++i)
    special_.extra.push_back(add(concat("<extra_id_", i, ">")));
  std::vector<ByteTrie::Entry> entries;
  for (const auto& [text, id] : specials_)
    entries.emplace_back(text, static_cast<std::int32_t>(entries.size()));
  special_texts_ = ByteTrie(std::move(entries));
}

bool SentencePieceTokenizer::continues_word(std::int32_t id) const {
  check_id(id, vocab_size_);
  return id < model_->size() && std::string_view(model_->piece(id)).starts_with("##");
}

void SentencePieceTokenizer::add_special(const std::string& text, std::int32_t id) {
  if (!special_ids_.emplace(id, specials_.size()).second) return;
  specials_.emplace_back(text, id);
  begins_special_[static_cast<unsigned char>(text.front())] = true;
}

std::size_t SentencePieceTokenizer::special_at(std::string_view text) const {
  std::size_t first = specials_.size();
  ByteTrie::Node node = ByteTrie::kRoot;
  for (const char byte : text) {
    if (!special_texts_.step(node, byte)) break;
    if (const std::int32_t index = special_texts_.value(node); index != ByteTrie::kNone)
      first = std::min(first, static_cast<std::size_t>(index));
  }
  return first;
}

void SentencePieceTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::size_t begin = 0;  // of what is not encoded yet
  for (std::size_t at = 0; at < text.size();) {
    const bool may_begin = begins_special_[static_cast<unsigned char>(text[at])];
    const std::size_t index = may_begin ? special_at(text.substr(at)) : specials_.size();
    if (index == specials_.size()) {
      ++at;
      continue;
    }
    model_->encode(text.substr(begin, at - begin), ids);
    ids.push_back(specials_[index].second);
    begin = at += specials_[index].first.size();
  }
  model_->encode(text.substr(begin), ids);
}

class SentencePieceTokenizer::Stream : public StreamDecoder {
 public:
  explicit Stream(const SentencePieceTokenizer& tokenizer)
      : tokenizer_(tokenizer), decoder_(*tokenizer.model_) {}
  void push(std::int32_t id, std::string& text) override {
    check_id(id, tokenizer_.vocab_size());
    const auto special = tokenizer_.special_ids_.find(id);
    if (special == tokenizer_.special_ids_.end()) return decoder_.push(id, text);
    decoder_.finish(text);
    text += concat(" ", tokenizer_.specials_[special->second].first, " ");
  }
  void finish(std::string& text) override { decoder_.finish(text); }

 private:
  const SentencePieceTokenizer& tokenizer_;
  SentencePiece::Decoder decoder_;
};

std::string SentencePieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  return decode_with(*stream_decoder(), ids);
}

std::unique_ptr<StreamDecoder> SentencePieceTokenizer::stream_decoder() const {
  return std::make_unique<Stream>(*this);
}

}  // namespace mt
