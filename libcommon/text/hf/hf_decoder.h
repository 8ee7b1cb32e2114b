// HfDecoder: how a tokenizer.json makes text of tokens.  Known are Sequence, ByteLevel, Metaspace,
// WordPiece, BPEDecoder, ByteFallback, Fuse, Strip and Replace; others are refused by
// name.  Constant once made.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

class JsonObject;

// One step of a decoder at work: tokens go in one by one, others come out.  For one thread.
class HfDecoderStage {
 public:
  using Tokens = std::vector<std::string>;
  virtual ~HfDecoderStage() = default;
  virtual void push(std::string_view token, Tokens& out) = 0;
  virtual void finish(Tokens&) {}  // what remains
};

class HfDecoder {
 public:
  HfDecoder();  // tokens with spaces between them, as where the file has no decoder
  explicit HfDecoder(const JsonObject& object);

  // Its steps in order, ready for a first token.
  std::vector<std::unique_ptr<HfDecoderStage>> start() const;

  // Are the tokens just bytes, written as in text/bpe/byte_map.h, that are put together?
  bool only_bytes() const { return only_bytes_; }

 private:
  using Make = std::function<std::unique_ptr<HfDecoderStage>()>;

  template <class Stage, class... Settings>
  void add_stage(const Settings&... settings);
  template <class Stage, class... Settings>
  void add_whole(const Settings&... settings);
  void add(const JsonObject& object);
  void add_replace(const JsonObject& object);

  std::vector<Make> stages_;
  bool fused_ = false;  // all tokens have become one, which comes in parts
  bool only_bytes_ = false;
};

}  // namespace mt
