#include "data/corpus/punkt_training.h"

#include <array>
#include <string_view>

#include "base/command.h"
#include "base/error.h"
#include "base/file.h"
#include "data/corpus/punkt_trainer.h"
#include "text/training/output_folder.h"

namespace mt {
namespace {

constexpr std::size_t kLineLimit = 1 << 30;

std::vector<std::string> paths_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const char* name :
       {"abbrev_types.txt", "collocations.tab", "sent_starters.txt", "ortho_context.tab"})
    paths.push_back(concat(folder, "/", name));
  return paths;
}

// The model's files, made before the training, so that what is in the way is known before it.
class ModelFiles {
 public:
  ModelFiles(const std::string& folder, bool overwrite) : folder_(folder) {
    for (const std::string& path : paths_in(folder)) files_.emplace_back(path, overwrite);
  }

  void commit(const PunktParameters& model) {
    std::array<std::string, 4> contents;
    auto& [abbreviations, collocations, starters, contexts] = contents;
    for (const std::string& type : model.abbreviations) abbreviations += type + '\n';
    for (const auto& [first, second] : model.collocations)
      collocations += concat(first, '\t', second, '\n');
    for (const std::string& type : model.starters) starters += type + '\n';
    for (const auto& [type, bits] : model.contexts) contexts += concat(type, '\t', bits, '\n');
    std::vector<AtomicFile*> files;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      files_[i].write(contents[i]);
      files.push_back(&files_[i]);
    }
    commit_together(files);
  }

 private:
  OutputFolder folder_;
  std::vector<AtomicFile> files_;
};

CollocationKinds kinds_named(const std::string& name) {
  return name == "all"             ? CollocationKinds::all
         : name == "abbreviations" ? CollocationKinds::abbreviations
                                   : CollocationKinds::numbers;
}

}  // namespace

void PunktOptions::add_to(CommandLine& cl) {
  cl.section("Input and output");
  corpus.add_to(cl);
  cl.option("--output-dir", &output_dir, "DIR",
            "write DIR/abbrev_types.txt, collocations.tab, sent_starters.txt and "
            "ortho_context.tab, as for --punkt-model");
  cl.required("--output-dir");
  cl.option("--collocations", &collocations, "KIND",
            "words before a period that may be half of a collocation: numbers (and initials), "
            "also abbreviations, or all",
            one_of({"numbers", "abbreviations", "all"}));
  corpus.add_workers_to(cl);
}

void PunktSummary::write(JsonWriter& json) const {
  json.begin_object().member("schema", "mt-punkt/1");
  json.member("input_files", input_files).member("input_bytes", input_bytes);
  json.member("lines", lines).member("bad_lines", bad_lines);
  json.member("words", words).member("abbreviations", abbreviations);
  json.member("collocations", collocations).member("sentence_starters", starters);
  json.member("contexts", contexts).end_object();
}

PunktSummary train_punkt_model(const PunktOptions& options, const RunContext& context) {
  options.corpus.check();
  CorpusReader corpus(options.corpus, context, paths_in(options.output_dir), kLineLimit, "");
  ModelFiles files(options.output_dir, options.corpus.overwrite);
  const bool by_lines = options.corpus.format == "text";
  PunktCounts all;
  corpus.read<PunktCounts>(
      [&](const auto& each_text, PunktCounts& counts) {
        counts = PunktCounts();
        each_text([&](std::string_view text) {
          if (by_lines)
            counts.add_line(text);
          else
            counts.add_text(text);
        });
      },
      [&](const PunktCounts& counts) { all.append(counts); });
  all.finish();
  if (all.words() == 0) fail(Exit::bad_data, "the input has no words to learn from");
  const PunktParameters model = train_punkt(all, kinds_named(options.collocations));
  context.checkpoint();
  files.commit(model);
  corpus.commit();
  PunktSummary summary;
  summary.input_files = corpus.input_files();
  summary.input_bytes = corpus.input_bytes();
  summary.lines = corpus.lines();
  summary.bad_lines = corpus.bad_lines();
  summary.words = all.words();
  summary.abbreviations = static_cast<std::int64_t>(model.abbreviations.size());
  summary.collocations = static_cast<std::int64_t>(model.collocations.size());
  summary.starters = static_cast<std::int64_t>(model.starters.size());
  summary.contexts = static_cast<std::int64_t>(model.contexts.size());
  return summary;
}

}  // namespace mt
