// Tokenizer: text to token ids and back; what every kind of tokenizer implements.  Types carry
// Megatron's names, and so do the options.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

class CommandLine;

// Decodes token by token, for text that is shown while it is made.  A character whose bytes come
// from several tokens appears with the last of them.  What push() and finish() append is together
// decode_text() of all ids.  For one thread; must not outlive its tokenizer.
class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  virtual void push(std::int32_t id, std::string& text) = 0;  // appends what is complete by now
  virtual void finish(std::string& text) = 0;                 // appends what remains; starts anew
};

// Tokens that samples of BERT, T5 and ICT are made with; -1: there is none.
struct SpecialTokens {
  std::int32_t cls = -1, sep = -1, mask = -1, pad = -1, bos = -1, eos = -1, unk = -1;
  std::vector<std::int32_t> extra = {};  // <extra_id_0> and so on, T5's sentinels
};

// Constant once made: all functions may be called from several threads at a time.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`, as Megatron's tokenize() gives them: no special tokens, but where a
  // type's header says so.  Takes any bytes: ill-formed UTF-8 is read as
  // U+FFFD for each maximal subpart (base/utf8.h), as Python's bytes.decode(errors="replace") does;
  // by SentencePiece for each byte, as its library does.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  // encode() for text that is known to be well-formed UTF-8, and only for such: it spares a look.
  virtual void encode_utf8(std::string_view text, std::vector<std::int32_t>& ids) const {
    encode(text, ids);
  }

  // The bytes of the tokens put together, which need not be UTF-8 (a character may be split between
  // tokens).  Throws Exit::bad_data for an id outside of [0, vocab_size()).
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  // decode() with ill-formed UTF-8 replaced as above.
  std::string decode_text(std::span<const std::int32_t> ids) const;
  virtual std::unique_ptr<StreamDecoder> stream_decoder() const = 0;

  virtual std::int32_t vocab_size() const = 0;     // ids are 0 to vocab_size() - 1
  virtual std::int32_t eod() const = 0;            // the id that ends a document
  virtual std::int32_t bos() const { return -1; }  // that begins one; -1: there is none
  virtual std::string_view type() const = 0;       // "GPT2BPETokenizer"
  virtual SpecialTokens special_ids() const { return {.bos = bos(), .eos = eod()}; }
  // Is the token a mark, such as the end of a text, rather than a part of one?  transformers leaves
  // these out where skip_special_tokens is true.
  virtual bool is_special(std::int32_t id) const { return has_role(id); }
  bool has_role(std::int32_t id) const;  // whether it is one of special_ids()
  // Does the token go on with the word of the one before, as WordPiece's that begin with "##" do?
  virtual bool continues_word(std::int32_t) const { return false; }
  // A hash of the type and the content of the files that define what encode() does.
  virtual const std::string& identity() const = 0;
};

struct TokenizerOptions {
  std::string type = {}, vocab_file = {}, merge_file = {}, model = {};
  std::string tiktoken_pattern = {};
  std::int64_t tiktoken_num_special_tokens = 1000;
  std::vector<std::string> tiktoken_special_tokens = {};
  // NullTokenizer's and TikTokenizer's; whoever has a --vocab-size sets it.
  std::int64_t vocab_size = 0;
  std::int64_t transformers_version = 4;  // HuggingFaceTokenizer's: 4 or 5
  std::int64_t extra_ids = 0;             // <extra_id_N> that SentencePieceTokenizer and BERT's add
  void add_to(CommandLine& cl);           // all but --vocab-size and
  void add_extra_ids_to(CommandLine& cl);  // --vocab-extra-ids: no token file depends on it
};

// One option beside the type, for those who keep a tokenizer's options and load it again later.
// A type needs all files among its fields.
struct TokenizerField {
  std::string_view name;  // of the option, without dashes
  bool is_file;           // the value is a path
  std::string (*get)(const TokenizerOptions&);
  void (*set)(TokenizerOptions&, const std::string&);

  bool is_default(const TokenizerOptions& options) const { return get(options) == get({}); }
};
// The fields that tokenizers of this type have.
std::vector<TokenizerField> tokenizer_fields(std::string_view type);

// Where a type is not given and the tokenizer comes from elsewhere, files must not be given either:
// Exit::usage names the option, which begins with `prefix` ("--retro-gpt-"), as below.
void check_no_files_without_type(const TokenizerOptions& options, std::string_view prefix = "--");

// Loads the tokenizer of options.type.  Throws Exit::usage for an unknown type, a file option that
// the type needs and that is not given, or an option that it does not have.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                          std::string_view prefix = "--");

}  // namespace mt
