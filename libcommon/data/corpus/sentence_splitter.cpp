#include "data/corpus/sentence_splitter.h"

#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/utext.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/command.h"
#include "base/error.h"
#include "data/corpus/punkt.h"
#include "data/corpus/punkt_words.h"

namespace mt {
namespace {

// Unicode's rules, tailored to a language by ICU.
class UnicodeSplitter final : public SentenceSplitter {
 public:
  UnicodeSplitter(const std::string& tag, bool keep_newlines)
      : tag_(tag), keep_newlines_(keep_newlines) {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Locale locale = icu::Locale::forLanguageTag(tag, status);
    const std::string language = locale.getLanguage();
    const char* const* known = icu::Locale::getISOLanguages();
    while (*known != nullptr && language != *known) ++known;
    if (U_FAILURE(status) || language.empty() || *known == nullptr)
      fail(Exit::usage, "--lang ", tag, ": expected a Punkt model's name, as english, or a ",
           "language's tag, as de");
    breaks_.reset(icu::BreakIterator::createSentenceInstance(locale, status));
    if (U_FAILURE(status)) fail(Exit::internal, "--lang ", tag, ": ICU: ", u_errorName(status));
  }

  std::string identity() const override { return concat("Unicode's rules, ", tag_); }

  void split(std::string_view text, std::vector<std::string_view>& sentences) const override {
    UErrorCode status = U_ZERO_ERROR;
    const std::unique_ptr<UText, UText* (*)(UText*)> source(
        utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status),
        utext_close);
    const std::unique_ptr<icu::BreakIterator> breaks(breaks_->clone());
    breaks->setText(source.get(), status);
    if (U_FAILURE(status)) fail(Exit::internal, "ICU: ", u_errorName(status));
    std::size_t begin = 0;
    for (int end = breaks->next(); end != icu::BreakIterator::DONE; end = breaks->next()) {
      std::string_view sentence = text.substr(begin, static_cast<std::size_t>(end) - begin);
      begin = static_cast<std::size_t>(end);
      if (!keep_newlines_) sentence = without_final_space(sentence);
      if (!sentence.empty()) sentences.push_back(sentence);
    }
  }

 private:
  static std::string_view without_final_space(std::string_view text) {
    std::int32_t end = static_cast<std::int32_t>(text.size());
    while (end > 0) {
      std::int32_t at = end;
      UChar32 point;
      U8_PREV(text.data(), 0, at, point);
      if (point < 0 || !is_python_space(static_cast<char32_t>(point))) break;
      end = at;
    }
    return text.substr(0, static_cast<std::size_t>(end));
  }

  std::string tag_;
  bool keep_newlines_;
  std::unique_ptr<icu::BreakIterator> breaks_;
};

// A language's tag begins with two or three letters; Punkt's models have whole words as names.
bool is_language_tag(const std::string& lang) {
  const std::size_t length = std::min(lang.find('-'), lang.size());
  return length == 2 || length == 3;
}

// Where nltk looks for its data.
std::vector<std::string> data_folders() {
  std::vector<std::string> folders;
  if (const char* named = std::getenv("NLTK_DATA")) {
    std::string_view rest = named;
    while (!rest.empty()) {
      folders.emplace_back(rest.substr(0, rest.find(':')));
      rest.remove_prefix(std::min(folders.back().size() + 1, rest.size()));
    }
  }
  if (const char* home = std::getenv("HOME")) folders.push_back(std::string(home) + "/nltk_data");
  for (const char* folder : {"/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib"})
    folders.push_back(std::string(folder) + "/nltk_data");
  return folders;
}

// The folder of the model of this name; empty: there is none.
std::string find_model(const std::string& lang) {
  if (lang.empty() || lang.find('/') != lang.npos)
    fail(Exit::usage, "--lang '", lang, "': expected a Punkt model's name, as english, or a ",
         "language's tag, as de");
  for (const std::string& folder : data_folders()) {
    std::string model = concat(folder, "/tokenizers/punkt_tab/", lang);
    if (std::filesystem::is_directory(model)) return model;
  }
  return {};
}

// The tag of a language with this English name, as nltk's models have; empty: there is none.
std::string tag_of_language(const std::string& name) {
  if (name == "slovene") return "sl";  // CLDR's name is Slovenian
  for (const char* const* code = icu::Locale::getISOLanguages(); *code != nullptr; ++code) {
    icu::UnicodeString english;
    std::string utf8;
    icu::Locale(*code).getDisplayLanguage(icu::Locale::getEnglish(), english);
    if (english.toLower(icu::Locale::getRoot()).toUTF8String(utf8) == name) return *code;
  }
  return {};
}

// The splitter for a model's name: Unicode's rules, and its abbreviations, stand in for a model
// that is not there.
std::unique_ptr<SentenceSplitter> splitter_named(const std::string& lang, bool keep_newlines,
                                                 const Log& log) {
  const std::string model = find_model(lang);
  if (!model.empty()) return std::make_unique<PunktSplitter>(model, keep_newlines);
  const std::string language = tag_of_language(lang);
  if (language.empty())
    fail(Exit::no_input, "--lang ", lang, ": no folder tokenizers/punkt_tab/", lang,
         " in NLTK_DATA or where nltk keeps its data, and no language of this name; name a model ",
         "with --punkt-model, or give a language's tag, as en, for Unicode's rules");
  const std::string tag = language + "-u-ss-standard";
  log.warn(concat("--lang ", lang, ": no Punkt model of this name, so sentences are split by ",
                  "Unicode's rules (--lang ", tag, "); nltk.download('punkt_tab') brings models, ",
                  "mt-preprocess punkt trains one"));
  return std::make_unique<UnicodeSplitter>(tag, keep_newlines);
}

}  // namespace

void SentenceOptions::add_to(CommandLine& cl) {
  cl.flag("--split-sentences", &split,
          "one sequence for each sentence, without the tokens that HuggingFaceTokenizer would put "
          "around it; write PREFIX_KEY_sentence instead");
  cl.flag("--keep-newlines", &keep_newlines,
          "white space behind a sentence belongs to it; else it is dropped");
  cl.option("--lang", &lang, "LANG",
            "of the sentences: a model of Punkt, as english, or a tag, as de, for Unicode's rules, "
            "which also stand in for a model that is not there");
  cl.option("--punkt-model", &punkt_model, "DIR",
            "a model of Punkt, as nltk's punkt_tab/english; else looked for where nltk does");
}

std::unique_ptr<SentenceSplitter> make_sentence_splitter(const SentenceOptions& options,
                                                         const Log& log) {
  if (!options.split) {
    const SentenceOptions defaults;
    const char* const useless = options.keep_newlines           ? "--keep-newlines"
                                : options.lang != defaults.lang ? "--lang"
                                : !options.punkt_model.empty()  ? "--punkt-model"
                                                                : nullptr;
    if (useless != nullptr) fail(Exit::usage, useless, ": is for --split-sentences");
    return nullptr;
  }
  if (!options.punkt_model.empty() && options.lang != SentenceOptions().lang)
    fail(Exit::usage, "--lang ", options.lang, ": --punkt-model names the model already");
  if (!options.punkt_model.empty())
    return std::make_unique<PunktSplitter>(options.punkt_model, options.keep_newlines);
  if (is_language_tag(options.lang))
    return std::make_unique<UnicodeSplitter>(options.lang, options.keep_newlines);
  return splitter_named(options.lang, options.keep_newlines, log);
}

}  // namespace mt
