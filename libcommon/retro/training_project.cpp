#include "retro/training_project.h"

#include <algorithm>

#include "base/command.h"
#include "retro/neighbors.h"
#include "retro/project.h"
#include "train/options/pretrain_options.h"

namespace mt {
namespace {

struct Taken {
  const char* key;  // behind retro_gpt_
  const char* option;
};
// What neighbours depend on.
constexpr Taken kTaken[] = {{"split", "--split"},
                            {"seq_length", "--seq-length"},
                            {"global_batch_size", "--global-batch-size"},
                            {"eval_interval", "--eval-interval"},
                            {"eval_iters", "--eval-iters"},
                            {"seed", "--seed"},
                            {"train_samples", "--train-samples"}};

std::string without_blanks(std::string text) {
  std::erase(text, ' ');
  return text;
}

class Taking {
 public:
  Taking(CommandLine& cl, const std::string& folder)
      : cl_(cl),
        project_(folder),
        file_(project_.path("config.json")),
        settings_(project_.settings()) {
    if (settings_.empty())
      fail(Exit::no_input, file_, ": has no settings; see mt-retro-index build-db");
  }

  void take(const char* key, const char* option) const {
    const std::string value = text(key);
    if (value.empty()) return;
    if (cl_.given(option)) {
      const std::vector<std::string> texts =
          std::ranges::find(cl_.table().options, option, &Option::name)->texts();
      if (texts.size() == 1 && without_blanks(texts[0]) == without_blanks(value)) return;
      fail(Exit::bad_config, option, ' ', texts.empty() ? "" : texts[0], ": ", file_,
           " has neighbours for ", value);
    }
    cl_.fallback(option, {value}, file_);
  }
  // One that may be given otherwise; files are relative to the project.
  void take_free(const char* key, const char* option, bool is_file = false) const {
    const std::string value = text(key);
    if (!value.empty()) cl_.fallback(option, {is_file ? project_.path(value) : value}, file_);
  }
  void take_files() const {
    const std::vector<std::string> words = project_.data_paths();
    if (words.empty()) return;
    cl_.fallback("--data-path", words, file_);
  }
  std::int64_t chunk_length() const {
    const std::string length = text("chunk_length");
    const std::int64_t tokens = length.empty() ? RetroConfig().retro_chunk_length
                                               : std::strtoll(length.c_str(), nullptr, 10);
    if (tokens < 1)
      fail(Exit::bad_data, file_, ": retro_gpt_chunk_length: is ", length, ", expected tokens");
    return tokens;
  }

 private:
  // As an option would be given; empty where it is unknown.
  std::string text(const char* key) const {
    const auto found = settings_.find(concat("retro_gpt_", key));
    if (found == settings_.end() || found->second == "null") return {};
    return found->second.front() == '"' ? project_.setting(found->first) : found->second;
  }

  CommandLine& cl_;
  RetroProject project_;
  std::string file_;
  RetroProject::Settings settings_;
};

}  // namespace

void take_project(CommandLine& cl, PretrainOptions& options) {
  if (options.retro.project_dir.empty()) return;
  const Taking project(cl, options.retro.project_dir);
  project.take_files();
  for (const Taken& taken : kTaken) project.take(taken.key, taken.option);
  if (cl.origin("--max-position-embeddings") == "default")  // else it is of what is loaded
    project.take_free("seq_length", "--max-position-embeddings");
  project.take_free("data_cache_path", "--data-cache-path");
  project.take_free("tokenizer_type", "--tokenizer-type");
  project.take_free("tokenizer_model", "--tokenizer-model", true);
  project.take_free("vocab_file", "--vocab-file", true);
  project.take_free("merge_file", "--merge-file", true);
  options.retro.chunk_length = project.chunk_length();
}

void open_neighbors(PretrainOptions& options) {
  if (!options.data.retro) return;
  options.data.retro->retrieved =
      std::make_shared<ProjectNeighbors>(RetroProject(options.retro.project_dir));
}

}  // namespace mt
