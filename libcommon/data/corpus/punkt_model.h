// PunktModel: what Punkt has learnt of a language, and its decision whether a sentence ends.
// Algorithm: Kiss and Strunk, "Unsupervised Multilingual Sentence Boundary Detection",
// Computational Linguistics 32 (2006), as nltk 3.9.1 implements it.  A model is a folder of UTF-8
// text files (nltk's tokenizers/punkt_tab/LANGUAGE), a row a line:
//   abbrev_types.txt    an abbreviation, lower-case, without its period
//   collocations.tab    two types that stand together across a period, TAB between
//   sent_starters.txt   a type that often begins a sentence
//   ortho_context.tab   a type, TAB, the sum of the Context bits that it was seen in
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace mt {

class PunktModel {
 public:
  // Throws Exit::no_input where a file is missing, Exit::bad_data naming file and line.
  explicit PunktModel(const std::string& folder);

  // Does a sentence end in `context`, before its last word?  `context`: the word with a period,
  // question or exclamation mark, and what stands behind it.
  bool ends_sentence(std::u32string_view context) const;

  struct Token;  // a word of a context, in punkt_model.cpp

 private:
  void read_collocations(const std::string& path);
  void read_contexts(const std::string& path);
  void mark_by_type(Token& token) const;
  void mark_by_next(Token& token, const Token& next) const;
  enum class Starter { no, yes, unknown };
  Starter starts_sentence(const Token& token) const;
  std::uint32_t context_of(const std::string& type) const;

  std::unordered_set<std::string> abbreviations_, starters_;
  std::unordered_set<std::string> collocations_;  // "first\tsecond"
  std::unordered_map<std::string, std::uint32_t> contexts_;
};

}  // namespace mt
