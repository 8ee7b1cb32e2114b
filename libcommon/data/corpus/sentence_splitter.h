// SentenceSplitter: where the sentences of a text begin and end, for `--split-sentences`.  Two
// kinds, which the language tells apart: Punkt with a trained model, as Megatron-LM uses it
// (punkt.h), for a model's name (english, german); Unicode's rules (UAX 29, by ICU) for a
// language's tag (de, ja, zh-Hant; de-u-ss-standard also knows abbreviations), and for the name of
// a language that has no model here.  Implementations are thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"

namespace mt {

class CommandLine;

class SentenceSplitter {
 public:
  virtual ~SentenceSplitter() = default;
  // Appends the sentences of `text`, which is UTF-8, and so are they; none of them is empty, and
  // they point into it.
  virtual void split(std::string_view text, std::vector<std::string_view>& sentences) const = 0;
  // What of all that it is made of the sentences depend on, but for white space.
  virtual std::string identity() const = 0;
};

struct SentenceOptions {
  bool split = false;
  bool keep_newlines = false;  // white space behind a sentence belongs to it
  std::string lang = "english";
  std::string punkt_model = {};  // a folder; empty: looked for where nltk does
  void add_to(CommandLine& cl);
};

// Null where nothing is to be split.  Warns where Unicode's rules stand in for a model that is
// missing.  Throws Exit::usage for an unknown language or an option that would do nothing,
// Exit::no_input where nothing can stand in, Exit::bad_data where a model is damaged.
std::unique_ptr<SentenceSplitter> make_sentence_splitter(const SentenceOptions& options,
                                                         const Log& log);

}  // namespace mt
