#include "text/hf/hf_decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/json_object.h"
#include "base/utf8.h"
#include "text/bpe/byte_map.h"
#include "text/hf/hf_regex.h"
#include "text/unicode/utf8_stream.h"

namespace mt {
namespace {

using Tokens = HfDecoderStage::Tokens;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  std::string_view rest = text;
  for (std::size_t at; (at = rest.find(from)) != rest.npos; rest.remove_prefix(at + from.size()))
    result.append(rest.substr(0, at)).append(to);
  text = result.append(rest);
}

// --- The stages. ---

class Spaced : public HfDecoderStage {
 public:
  void push(std::string_view token, Tokens& out) override {
    out.push_back(concat(first_ ? "" : " ", token));
    first_ = false;
  }

 private:
  bool first_ = true;
};

// Characters become the bytes they stand for, the bytes of all tokens one text; a token with a
// character that stands for none is taken as it is.
class ByteLevel : public HfDecoderStage {
 public:
  void push(std::string_view token, Tokens& out) override {
    const auto bytes = from_byte_chars(token);
    stream_.push(bytes ? *bytes : token, out.emplace_back());
  }
  void finish(Tokens& out) override { stream_.finish(out.emplace_back()); }

 private:
  Utf8Stream stream_;
};

// The mark becomes a space, but in the first token nothing, where one was put before the text.
class Metaspace : public HfDecoderStage {
 public:
  Metaspace(std::string mark, bool prepended, bool all_first)
      : mark_(std::move(mark)), prepended_(prepended), all_first_(all_first) {}
  void push(std::string_view token, Tokens& out) override {
    replace_all(out.emplace_back(token), mark_, first_ && prepended_ ? "" : " ");
    first_ = all_first_;
  }

 private:
  std::string mark_;
  bool prepended_, all_first_, first_ = true;
};

class WordPieces : public HfDecoderStage {
 public:
  WordPieces(std::string prefix, bool clean_up) : prefix_(std::move(prefix)), clean_up_(clean_up) {}
  void push(std::string_view token, Tokens& out) override {
    const bool joined = !first_ && token.starts_with(prefix_);
    if (joined) token.remove_prefix(prefix_.size());
    std::string& text = out.emplace_back(concat(first_ || joined ? "" : " ", token));
    first_ = false;
    if (!clean_up_) return;
    using Rule = std::pair<std::string_view, std::string_view>;
    for (const auto& [from, to] : {Rule{" .", "."},
                                   {" ?", "?"},
                                   {" !", "!"},
                                   {" ,", ","},
                                   {" ' ", "'"},
                                   {" n't", "n't"},
                                   {" 'm", "'m"},
                                   {" do not", " don't"},
                                   {" 's", "'s"},
                                   {" 've", "'ve"},
                                   {" 're", "'re"}})
      replace_all(text, from, to);
  }

 private:
  std::string prefix_;
  bool clean_up_, first_ = true;
};

// The end of a word becomes a space, but for the last token's.
class WordEnds : public HfDecoderStage {
 public:
  explicit WordEnds(std::string suffix) : suffix_(std::move(suffix)) {}
  void push(std::string_view token, Tokens& out) override {
    put(" ", out);
    last_ = token;
  }
  void finish(Tokens& out) override { put("", out); }

 private:
  void put(std::string_view end, Tokens& out) {
    if (last_) replace_all(out.emplace_back(*last_), suffix_, end);
    last_.reset();
  }
  std::string suffix_;
  std::optional<std::string> last_;
};

// The byte that a token such as <0x0A> stands for.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  // Rust's from_str_radix() takes a plus sign too.
  const char* begin = token.data() + (token[3] == '+' ? 4 : 3);
  const char* end = token.data() + 5;
  unsigned byte = 0;
  const auto [parsed, error] = std::from_chars(begin, end, byte, 16);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return static_cast<char>(byte);
}

// A run of such tokens becomes one with their characters; where it is not UTF-8, each of them
// becomes U+FFFD.
class ByteFallback : public HfDecoderStage {
 public:
  void push(std::string_view token, Tokens& out) override {
    if (const auto byte = byte_of(token)) {
      bytes_ += *byte;
    } else {
      finish(out);
      out.emplace_back(token);
    }
  }
  void finish(Tokens& out) override {
    if (is_valid_utf8(bytes_)) {
      if (!bytes_.empty()) out.push_back(bytes_);
    } else {
      out.insert(out.end(), bytes_.size(), "\xEF\xBF\xBD");
    }
    bytes_.clear();
  }

 private:
  std::string bytes_;
};

// Takes up to `start` of a character away at a token's beginning, and up to `stop` at its end.
std::string strip(std::string_view token, std::string_view character, std::int64_t start,
                  std::int64_t stop) {
  const std::string_view whole = token;
  for (; start > 0 && token.starts_with(character); --start) token.remove_prefix(character.size());
  // What is counted at the end may be what was taken at the beginning.
  std::string_view front = whole;
  for (; stop > 0 && front.ends_with(character); --stop) front.remove_suffix(character.size());
  const std::size_t begin = whole.size() - token.size();
  return std::string(begin < front.size() ? whole.substr(begin, front.size() - begin) : "");
}

class Strip : public HfDecoderStage {
 public:
  Strip(std::string character, std::int64_t start, std::int64_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}
  void push(std::string_view token, Tokens& out) override {
    out.push_back(strip(token, character_, start_, stop_));
  }

 private:
  std::string character_;
  std::int64_t start_, stop_;
};

// Strip for one token that comes in parts: nothing but its beginning changes.
class StripStart : public HfDecoderStage {
 public:
  StripStart(std::string character, std::int64_t start)
      : character_(std::move(character)), left_(start) {}
  void push(std::string_view part, Tokens& out) override {
    for (; left_ > 0 && part.starts_with(character_); --left_)
      part.remove_prefix(character_.size());
    if (!part.empty()) left_ = 0;
    out.emplace_back(part);
  }

 private:
  std::string character_;
  std::int64_t left_;
};

class Replace : public HfDecoderStage {
 public:
  Replace(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void push(std::string_view token, Tokens& out) override {
    replace_all(out.emplace_back(token), from_, to_);
  }

 private:
  std::string from_, to_;
};

class ReplaceMatches : public HfDecoderStage {
 public:
  ReplaceMatches(HfRegex from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void push(std::string_view token, Tokens& out) override {
    out.push_back(from_.replace(token, to_));
  }

 private:
  HfRegex from_;
  std::string to_;
};

// Gives another stage one token that comes in parts as a whole.
template <class Stage>
class Whole : public HfDecoderStage {
 public:
  template <class... Settings>
  explicit Whole(const Settings&... settings) : stage_(settings...) {}
  void push(std::string_view part, Tokens&) override { whole_ += part; }
  void finish(Tokens& out) override {
    stage_.push(whole_, out);
    stage_.finish(out);
  }

 private:
  Stage stage_;
  std::string whole_;
};

bool is_one_character(std::string_view text) {
  std::size_t end = 0;
  if (!text.empty()) next_code_point(text, end);
  return !text.empty() && end == text.size();
}

std::string one_character(const JsonObject& object, std::string_view name) {
  const std::string_view text = object.text(name);
  if (!is_one_character(text))
    object.refuse(json_quoted(name), ": ", json_quoted(text), ", expected one character");
  return std::string(text);
}

}  // namespace

// --- Making them. ---

// A stage that takes one token in parts as it takes several.
template <class Stage, class... Settings>
void HfDecoder::add_stage(const Settings&... settings) {
  stages_.emplace_back([=] { return std::make_unique<Stage>(settings...); });
}

// One that needs it whole.
template <class Stage, class... Settings>
void HfDecoder::add_whole(const Settings&... settings) {
  if (fused_) return add_stage<Whole<Stage>>(settings...);
  add_stage<Stage>(settings...);
}

HfDecoder::HfDecoder() { add_stage<Spaced>(); }

HfDecoder::HfDecoder(const JsonObject& object) {
  add(object);
  only_bytes_ = object.type() == "ByteLevel";
}

void HfDecoder::add(const JsonObject& object) {
  const std::string_view type = object.type();
  if (type == "Sequence") {
    for (const JsonObject& part : object.objects("decoders")) add(part);
  } else if (type == "ByteLevel") {
    add_whole<ByteLevel>();
    fused_ = true;
  } else if (type == "Metaspace") {
    const bool prepended = object.text_or("prepend_scheme", "always") != "never" &&
                           object.flag_or("add_prefix_space", true);
    add_stage<Metaspace>(one_character(object, "replacement"), prepended, fused_);
  } else if (type == "WordPiece") {
    add_whole<WordPieces>(std::string(object.text("prefix")), object.flag("cleanup"));
  } else if (type == "BPEDecoder") {
    add_whole<WordEnds>(std::string(object.text("suffix")));
  } else if (type == "ByteFallback") {
    add_whole<ByteFallback>();
  } else if (type == "Fuse") {
    fused_ = true;
  } else if (type == "Strip") {
    const std::string content = one_character(object, "content");
    const std::int64_t start = object.number("start", 1 << 20),
                       stop = object.number("stop", 1 << 20);
    if (fused_ && stop == 0)
      add_stage<StripStart>(content, start);
    else
      add_whole<Strip>(content, start, stop);
  } else if (type == "Replace") {
    add_replace(object);
  } else {
    object.refuse("the decoder ", json_quoted(type), " is not known");
  }
}

void HfDecoder::add_replace(const JsonObject& object) {
  const JsonObject pattern = object.object("pattern");
  const std::string to(object.text("content"));
  if (pattern.has("Regex"))
    return add_whole<ReplaceMatches>(HfRegex(pattern.text("Regex"), pattern), to);
  const std::string from(pattern.text("String"));
  if (from.empty()) pattern.refuse("\"String\": empty, expected what to look for");
  if (is_one_character(from))
    add_stage<Replace>(from, to);
  else
    add_whole<Replace>(from, to);
}

std::vector<std::unique_ptr<HfDecoderStage>> HfDecoder::start() const {
  std::vector<std::unique_ptr<HfDecoderStage>> started;
  for (const Make& make : stages_) started.push_back(make());
  return started;
}

}  // namespace mt
