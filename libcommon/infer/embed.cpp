#include "infer/embed.h"

#include <charconv>
#include <optional>

#include "base/file.h"
#include "base/input/line_reader.h"
#include "base/input/text_lines.h"
#include "base/json.h"
#include "data/corpus/json_lines.h"
#include "formats/load_model.h"
#include "infer/bert_text.h"
#include "infer/encoder_pass.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

constexpr std::size_t kAtATime = 4096;  // texts that are put together by their lengths

// The bytes of a .npy (NumPy's format 1.0) of such a matrix in front of its numbers.
std::string npy_header(std::size_t rows, std::size_t columns) {
  const std::string says =
      concat("{'descr': '<f4', 'fortran_order': False, 'shape': (", rows, ", ", columns, "), }");
  constexpr std::size_t kBegin = 10;  // magic, version and the header's length, in two bytes
  const std::size_t all = (kBegin + says.size() + 1 + 63) / 64 * 64, length = all - kBegin;
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(length % 256);
  header += static_cast<char>(length / 256);
  header += says;
  header.resize(all - 1, ' ');
  return header + "\n";
}

class Embedder {
 public:
  using Print = std::function<void(std::string_view)>;

  Embedder(const EmbedOptions& options, const LoadedModel& loaded, Print print,
           std::function<void()> done)
      : options_(options),
        vocab_size_(loaded.vocab_size()),
        words_(*loaded.tokenizer),
        columns_(static_cast<std::size_t>(loaded.model->config().hidden_size)),
        print_(std::move(print)),
        done_(std::move(done)),
        pass_(*loaded.model,
              {.wanted = options.pooled ? EncoderPass::Wanted::pooled : EncoderPass::Wanted::hidden,
               .vocab_size = vocab_size_,
               .batch = options.micro_batch_size,
               .threads = options.threads}) {
    if (options.output != "-") file_.emplace(options.output, options.force);
  }

  void add(std::string_view text, const auto&... place) {
    std::vector<std::int32_t> ids = words_.ids(text);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= vocab_size_)
        fail(Exit::bad_data, place..., ": token ", id, " is none of the model's ", vocab_size_);
    if (std::ssize(ids) > pass_.max_tokens())
      fail(Exit::bad_data, place..., ": ", ids.size(), " tokens; the model takes at most ",
           pass_.max_tokens());
    texts_.push_back(std::move(ids));
    if (texts_.size() == kAtATime) flush();
  }

  void flush() {
    std::vector<EncoderPass::Text> asked;
    for (const auto& ids : texts_) asked.push_back({.ids = ids, .asked = asked_of(ids)});
    std::vector<std::vector<float>> found(texts_.size());
    pass_.run(asked, [&](std::size_t i, ConstTensor said) { found[i] = mean(said); });
    for (std::size_t i = 0; i < found.size(); ++i) {
      put(found[i], texts_[i].size());
      done_();
    }
    texts_.clear();
  }

  void finish() {
    flush();
    if (!file_) return;
    if (is_matrix()) {
      file_->write(npy_header(static_cast<std::size_t>(items_), columns_));
      file_->write(std::as_bytes(std::span(matrix_)));
    }
    file_->commit();
  }

 private:
  bool is_matrix() const { return options_.output.ends_with(".npy"); }

  std::vector<std::int32_t> asked_of(const std::vector<std::int32_t>& ids) const {
    if (options_.pooled) return {0};
    std::vector<std::int32_t> asked;
    for (std::int32_t i = 1; i + 1 < std::ssize(ids); ++i) asked.push_back(i);
    return asked;
  }

  std::vector<float> mean(ConstTensor said) const {
    std::vector<double> sum(columns_);
    const auto rows = static_cast<std::size_t>(said.shape()[0]);
    with_float_type(said.dtype(), [&]<class T>() {
      for (std::size_t i = 0; i < rows * columns_; ++i)
        sum[i % columns_] += static_cast<double>(said.as<T>()[i]);
    });
    std::vector<float> mean;
    for (const double x : sum)
      mean.push_back(rows == 0 ? 0 : static_cast<float>(x / static_cast<double>(rows)));
    return mean;
  }

  void put(const std::vector<float>& embedding, std::size_t tokens) {
    const std::int64_t item = items_++;
    if (is_matrix()) {
      matrix_.insert(matrix_.end(), embedding.begin(), embedding.end());
      return;
    }
    JsonWriter json;
    json.begin_object().member("schema", "mt-embed/1").member("item", item);
    json.member("tokens", tokens).key("embedding").begin_array();
    for (const float x : embedding) {
      char text[32];
      json.raw({text, std::to_chars(text, text + sizeof text, x).ptr});
    }
    json.end_array().end_object();
    if (file_)
      file_->write(json.text() + "\n");
    else
      print_(json.text() + "\n");
  }

  const EmbedOptions& options_;
  std::int64_t vocab_size_;
  BertText words_;
  std::size_t columns_;
  Print print_;
  std::function<void()> done_;
  EncoderPass pass_;
  std::optional<AtomicFile> file_;
  std::vector<std::vector<std::int32_t>> texts_;  // not yet embedded
  std::vector<float> matrix_;
  std::int64_t items_ = 0;
};

// The lines of an input; JSON's where its first begins with a brace.
void read(const std::string& input, const std::string& key, Embedder& embedder) {
  LineReader reader({.inputs = {input}});
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
        embedder.add(text, block.file, ":", line.number);
        continue;
      }
      if (const std::string wrong = parser.parse(line.line); !wrong.empty())
        fail(Exit::bad_data, block.file, ":", line.number, ": ", wrong);
      if (parser.texts().front().size() != 1)
        fail(Exit::bad_data, block.file, ":", line.number, ": \"", key,
             "\" is a list, expected one text");
      embedder.add(parser.texts().front().front(), block.file, ":", line.number);
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
  cl.section("Embeddings");
  cl.flag("--pooled", &pooled, "what the pooler makes of [CLS], not the mean of the other tokens");
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
  const LoadedModel loaded = load_model(o.load, o.tokenizer, o.compute,
                                        {{ModelFamily::bert}, "of which no embeddings are made"});
  if (o.pooled && !loaded.model->config().bert_binary_head)
    fail(Exit::bad_config, "--pooled: ", loaded.path,
         " has no pooler, as it was trained with --bert-no-binary-head");
  const std::vector<std::string> inputs = expand_inputs(o.inputs);
  if (o.output != "-") refuse_inputs({&o.output, 1}, inputs);
  Embedder embedder(o, loaded, print, done);
  try {
    for (const std::string& input : inputs) read(input, o.key, embedder);
  } catch (const Error&) {
    if (o.output == "-") embedder.finish();  // what came before a line that is wrong
    throw;
  }
  embedder.finish();
}

}  // namespace mt
