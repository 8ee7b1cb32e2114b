#include "infer/embed.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/input/line_reader.h"
#include "base/input/text_lines.h"
#include "base/json.h"
#include "base/npy.h"
#include "base/threads.h"
#include "data/corpus/json_lines.h"
#include "formats/load_model.h"
#include "infer/sentence_folder.h"
#include "infer/text_embedder.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

constexpr std::size_t kAtATime = 4096;        // texts that are put together by their lengths
constexpr std::size_t kMostBytes = 16 << 20;  // of texts that wait

std::string known_prompts(const SentenceFolder& folder) {
  std::string names;
  for (const auto& [name, text] : folder.prompts)
    names += (names.empty() ? ", but: " : ", ") + name;
  return names;
}

// What --load's folder says, with what the command line says in its place.
SentenceFolder folder_of(const EmbedOptions& o) {
  if (o.pooled && !o.pooling.empty())
    fail(Exit::usage, "--pooling ", o.pooling, ": excludes --pooled");
  std::optional<SentenceFolder> said = read_sentence_folder(o.load);
  if (!o.prompt_name.empty() && (!said || !said->prompts.contains(o.prompt_name)))
    fail(Exit::usage, "--prompt-name ", o.prompt_name, ": ", o.load, " has no such prompt",
         said ? known_prompts(*said) : "");
  if (!said) said = {.pooling = TextPooling::words};
  if (!o.prompt_name.empty()) said->default_prompt = said->prompts[o.prompt_name];
  if (o.pooled || !o.pooling.empty()) said->normalize = false;
  said->normalize |= o.normalize;
  if (o.pooled) said->pooling = TextPooling::pooler;
  if (o.pooling == "words") said->pooling = TextPooling::words;
  if (o.pooling == "mean") said->pooling = TextPooling::mean;
  if (o.pooling == "cls") said->pooling = TextPooling::cls;
  return *said;
}

class Embedding {
 public:
  using Print = std::function<void(std::string_view)>;

  Embedding(const EmbedOptions& options, const SentenceFolder& folder, const LoadedModel& loaded,
            Print print, std::function<void()> done)
      : options_(options),
        folder_(folder),
        print_(std::move(print)),
        done_(std::move(done)),
        embedder_(loaded, {.pooling = folder.pooling,
                           .normalize = folder.normalize,
                           .batch = options.micro_batch_size,
                           .threads = options.threads}),
        workers_(options.threads),
        encoding_(loaded.model->table().device() == Device::cuda ? std::launch::async
                                                                 : std::launch::deferred) {
    if (options.output != "-") file_.emplace(options.output, options.force);
  }

  void add(std::string_view text, std::string place) {
    texts_.push_back({std::string(text), std::move(place)});
    bytes_ += text.size();
    if (texts_.size() == kAtATime || bytes_ >= kMostBytes) flush();
  }

  void finish() {
    flush();
    embed(next_.get());
    if (cut_ > 0 && options_.warn)
      options_.warn(concat(cut_.load(), cut_ == 1 ? " text was" : " texts were", " cut to ",
                           most_tokens(), " tokens, as its folder says"));
    if (!file_) return;
    if (is_matrix()) {
      file_->write(npy_header(items_, embedder_.columns()));
      file_->write(std::as_bytes(std::span(matrix_)));
    }
    file_->commit();
  }

 private:
  struct Text {
    std::string text, place;
  };
  // Those of texts before the first that cannot be embedded, and what is wrong with that one.
  struct Encoded {
    std::vector<std::vector<std::int32_t>> ids;
    std::exception_ptr wrong;
  };

  // Texts become ids while a GPU embeds those before them.
  void flush() {
    std::optional<Encoded> before;
    if (next_.valid()) before = next_.get();
    next_ =
        std::async(encoding_, [this, texts = std::exchange(texts_, {})] { return encoded(texts); });
    bytes_ = 0;
    if (before) embed(*before);
  }

  Encoded encoded(const std::vector<Text>& texts) {
    std::vector<std::vector<std::int32_t>> ids(texts.size());
    std::vector<std::exception_ptr> errors(texts.size() + 1);
    workers_.run([&] {
      parallel_for(std::ssize(texts), [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        try {
          ids[at] = ids_of(texts[at]);
        } catch (const Error&) {
          errors[at] = std::current_exception();
        }
      });
    });
    std::size_t right = 0;
    while (right < texts.size() && !errors[right]) ++right;
    ids.resize(right);
    return {std::move(ids), errors[right]};
  }

  void embed(const Encoded& texts) {
    const std::vector<float> found = embedder_.embed(texts.ids);
    const auto columns = static_cast<std::size_t>(embedder_.columns());
    for (std::size_t i = 0; i < texts.ids.size(); ++i) {
      put(std::span(found).subspan(i * columns, columns), texts.ids[i].size());
      done_();
    }
    if (!texts.wrong) return;
    next_ = {};  // none of the texts behind it
    std::rethrow_exception(texts.wrong);
  }

  std::vector<std::int32_t> ids_of(const Text& text) {
    std::string whole = folder_.default_prompt + text.text;
    if (folder_.is_there) whole = strip_text(whole, Side::both);
    if (folder_.lower_case) whole = lower_text(whole);
    std::vector<std::int32_t> ids = embedder_.ids(whole, text.place);
    if (std::ssize(ids) <= most_tokens()) return ids;
    if (!folder_.is_there)
      fail(Exit::bad_data, text.place, ": ", ids.size(), " tokens; the model takes at most ",
           embedder_.max_tokens());
    ++cut_;
    ids[static_cast<std::size_t>(most_tokens()) - 1] = ids.back();  // [SEP]
    ids.resize(static_cast<std::size_t>(most_tokens()));
    return ids;
  }
  std::int64_t most_tokens() const {
    return folder_.max_tokens > 0 ? std::min(folder_.max_tokens, embedder_.max_tokens())
                                  : embedder_.max_tokens();
  }
  bool is_matrix() const { return options_.output.ends_with(".npy"); }

  void put(std::span<const float> embedding, std::size_t tokens) {
    const std::int64_t item = items_++;
    if (is_matrix()) {
      matrix_.insert(matrix_.end(), embedding.begin(), embedding.end());
      return;
    }
    JsonWriter json;
    json.begin_object().member("schema", "mt-embed/1").member("item", item);
    json.member("tokens", tokens).key("embedding").begin_array();
    for (const float x : embedding) json.value(x);
    json.end_array().end_object();
    if (file_)
      file_->write(json.text() + "\n");
    else
      print_(json.text() + "\n");
  }

  const EmbedOptions& options_;
  const SentenceFolder& folder_;
  Print print_;
  std::function<void()> done_;
  TextEmbedder embedder_;
  Workers workers_;
  std::optional<AtomicFile> file_;
  std::vector<Text> texts_;  // not yet embedded
  std::size_t bytes_ = 0;    // of these
  std::vector<float> matrix_;
  std::int64_t items_ = 0;
  std::atomic<std::int64_t> cut_ = 0;
  const std::launch encoding_;
  std::future<Encoded> next_;  // the last: it uses the others
};

// The lines of an input; JSON's where its first begins with a brace.
void read(const std::string& input, const std::string& key, Embedding& embedding) {
  LineReader reader({.inputs = {input}, .are_json = true});  // rows begin with a brace
  LineBlock block;
  JsonLineParser parser({key});
  std::optional<bool> json;
  while (reader.next(block)) {
    TextLines lines(block);
    for (TextLines::Line line; lines.next(line);) {
      if (!json) json = line.line.starts_with('{');
      if (!*json) {
        std::string_view text = line.text;
        if (text.ends_with('\n')) text.remove_suffix(1);
        embedding.add(text, concat(block.file, ":", line.number));
        continue;
      }
      if (const std::string wrong = parser.parse(line.line); !wrong.empty())
        fail(Exit::bad_data, block.file, ":", line.number, ": ", wrong);
      if (parser.texts().front().size() != 1)
        fail(Exit::bad_data, block.file, ":", line.number, ": \"", key,
             "\" is a list, expected one text");
      embedding.add(parser.texts().front().front(), concat(block.file, ":", line.number));
    }
  }
}

}  // namespace

void EmbedOptions::add_to(CommandLine& cl) {
  cl.positionals("INPUT", &inputs, "lines of text, or JSON lines; - is stdin", 1);
  cl.section("Model");
  cl.option("--load", &load, "PATH", kLoadedModel);
  cl.required("--load");
  compute.add_to(cl, kDtypeAsStored);
  tokenizer.add_to(cl);
  tokenizer.add_extra_ids_to(cl);
  add_vocab_size_to(cl, tokenizer);
  cl.section("Embeddings");
  cl.flag("--pooled", &pooled, "what the pooler makes of [CLS], not the mean of the other tokens");
  cl.option("--pooling", &pooling, "OF",
            "what an embedding is of: words, the mean of all tokens but [CLS] and [SEP]; mean, of "
            "all; cls, the state of [CLS]; default: what the model's folder says to "
            "sentence-transformers, else words",
            one_of({"words", "mean", "cls"}));
  cl.flag("--normalize", &normalize, "embeddings have the length 1");
  cl.option("--prompt-name", &prompt_name, "NAME",
            "put the model's prompt of this name in front of each text; default: the one that its "
            "folder names, if it does");
  cl.option("--json-key", &key, "KEY", "member with the text, in JSON lines");
  cl.option("--output", &output, "FILE",
            "JSON lines or, if its name ends in .npy, a matrix of float32; - is stdout");
  cl.flag("--force", &force, "overwrite an existing file");
  cl.option(
      "--micro-batch-size", &micro_batch_size, "N",
      "texts of the model's length at a time, of shorter ones more; changes no result, but by "
      "rounding on a GPU",
      between(1, 65536));
  cl.option("--threads,-j", &threads, "N", "worker threads of the CPU; 0: one a core", at_least(0));
}

void embed(const EmbedOptions& o, const std::function<void(std::string_view)>& print,
           const std::function<void()>& done) {
  const SentenceFolder folder = folder_of(o);
  const LoadedModel loaded = load_model(o.load, o.tokenizer, o.compute, TextEmbedder::use());
  loaded.tell(o.warn);
  const std::vector<std::string> inputs = expand_inputs(o.inputs);
  if (o.output != "-") refuse_inputs({&o.output, 1}, inputs);
  Embedding embedding(o, folder, loaded, print, done);
  try {
    for (const std::string& input : inputs) read(input, o.key, embedding);
  } catch (const Error&) {
    if (o.output == "-") embedding.finish();  // what came before a line that is wrong
    throw;
  }
  embedding.finish();
}

}  // namespace mt
