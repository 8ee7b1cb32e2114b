// The verb ensemble: several models' predictions put together, as Megatron-LM core_v0.12.1's
// tasks/ensemble_classifier.py does it: of each sample of a set the mean of its scores, of which
// the largest is the prediction; or, with a threshold, label 1 where the last score reaches it,
// else 0.
#include <algorithm>
#include <cstdio>
#include <map>

#include "base/command.h"
#include "base/file.h"
#include "base/folder.h"
#include "post/labels/object_lines.h"
#include "post/verbs.h"

namespace mt {
namespace {

struct Sample {
  std::vector<double> scores;  // the sum over models, then their mean
  int models = 0;
  std::string label;  // ""; it has none
};
using Samples = std::map<std::int64_t, Sample>;  // by uid

struct EnsembleOptions {
  std::vector<std::string> files, labels;
  std::string outdir, prediction_name = "test_predictions";
  bool eval = false, calc_threshold = false, force = false;
  std::optional<double> threshold;

  void add_to(CommandLine& cl) {
    cl.option("--paths", &files, "FILE",
              "what models said of the same samples, each a file of --predictions");
    cl.option("--outdir", &outdir, "DIR",
              "where DIR/SET/NAME.tsv go: of each sample its id and label");
    cl.option("--prediction-name", &prediction_name, "NAME", "how those files are called");
    cl.option("--labels", &labels, "NAME",
              "the names of labels, in the order of scores; default: numbers");
    cl.flag("--eval", &eval, "print how many predictions of samples with labels are right");
    cl.option("--threshold", &threshold, "F",
              "label 1 where the last score is at least this, else label 0", between(0, 1));
    cl.flag("--calc-threshold", &calc_threshold,
            "take the best threshold of 0.00, 0.01 ... 0.99 for samples with labels, of all sets");
    cl.flag("--force", &force, "overwrite existing files");
    cl.required("--paths");
  }
  void check() const {
    if (calc_threshold && threshold)
      fail(Exit::usage, "--threshold and --calc-threshold exclude each other");
    if ((eval || calc_threshold) && labels.empty())
      fail(Exit::usage, "--labels: required, so that labels are known by their scores");
    if (outdir.empty() && !eval && !calc_threshold)
      fail(Exit::usage, "--outdir: required, or --eval or --calc-threshold");
    if (force && outdir.empty()) fail(Exit::usage, "--force: needs --outdir");
    if (prediction_name.empty() || prediction_name.find('/') != prediction_name.npos)
      fail(Exit::usage, "--prediction-name ", prediction_name,
           ": expected the name of a file, without its folder");
  }
};

std::vector<double> scores_of(const JsonObject& object) {
  std::vector<double> scores;
  simdjson::dom::array items;
  if (object.member("scores").get(items)) object.refuse("\"scores\": expected a list of numbers");
  for (const simdjson::dom::element item : items) {
    double score = 0;
    if (item.get(score)) object.refuse("\"scores\": expected a list of numbers");
    scores.push_back(score);
  }
  if (scores.empty()) object.refuse("\"scores\": no number in the list");
  return scores;
}

void add_sample(const JsonObject& object, int model, std::map<std::string, Samples>& sets) {
  const std::vector<double> scores = scores_of(object);
  const std::int64_t uid = object.number("uid", std::int64_t{1} << 53);
  Sample& sample = sets[std::string(object.text("set"))][uid];
  if (sample.models != model)
    object.refuse("uid ", uid, sample.models > model ? " is there twice" : " is in no file before");
  if (object.has("label")) sample.label = object.text("label");
  if (model == 0) sample.scores.resize(scores.size());
  if (sample.scores.size() != scores.size())
    object.refuse(scores.size(), " scores, expected ", sample.scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) sample.scores[i] += scores[i];
  ++sample.models;
}

std::map<std::string, Samples> read_all(const std::vector<std::string>& files) {
  std::map<std::string, Samples> sets;
  for (std::size_t model = 0; model < files.size(); ++model)
    for_each_object({files[model]}, [&](const JsonObject& object, std::int64_t) {
      add_sample(object, static_cast<int>(model), sets);
    });
  const auto models = static_cast<int>(files.size());
  for (auto& [name, samples] : sets)
    for (auto& [uid, sample] : samples) {
      if (sample.models != models)
        fail(Exit::bad_data, files[static_cast<std::size_t>(sample.models)], ": lacks uid ", uid,
             " of ", name, ", which files before it have");
      for (double& score : sample.scores) score /= models;
    }
  return sets;
}

std::size_t predicted(const Sample& sample, const std::optional<double>& threshold) {
  if (threshold) return sample.scores.back() >= *threshold ? 1 : 0;
  return static_cast<std::size_t>(std::ranges::max_element(sample.scores) - sample.scores.begin());
}

struct Count {
  std::int64_t correct = 0, total = 0;
};

Count count(const Samples& samples, const std::vector<std::string>& labels,
            const std::optional<double>& threshold) {
  Count count;
  for (const auto& [uid, sample] : samples) {
    if (sample.label.empty()) continue;
    const std::size_t said = predicted(sample, threshold);
    count.correct += said < labels.size() && labels[said] == sample.label ? 1 : 0;
    ++count.total;
  }
  return count;
}

Count count_all(const std::map<std::string, Samples>& sets, const std::vector<std::string>& labels,
                const std::optional<double>& threshold) {
  Count all;
  for (const auto& [name, samples] : sets) {
    const Count of_set = count(samples, labels, threshold);
    all.correct += of_set.correct;
    all.total += of_set.total;
  }
  return all;
}

void print(const std::string& what, const Count& count) {
  if (count.total == 0) return;
  std::printf("%s: correct / total = %lld / %lld = %.4f %%\n", what.c_str(),
              static_cast<long long>(count.correct), static_cast<long long>(count.total),
              100 * static_cast<double>(count.correct) / static_cast<double>(count.total));
}

double best_threshold(const std::map<std::string, Samples>& sets,
                      const std::vector<std::string>& labels) {
  double best = 0;
  std::int64_t most = -1;
  for (int i = 0; i < 100; ++i) {
    const double threshold = i / 100.0;
    if (const Count all = count_all(sets, labels, threshold); all.correct > most) {
      most = all.correct;
      best = threshold;
    }
  }
  std::printf("threshold: %.2f\n", best);
  return best;
}

// The folder of a set, whose name is a path as a rule; it lies in --outdir.
std::string folder_of(const std::string& set) {
  std::string folder = set;
  std::ranges::replace(folder, '/', '-');
  return folder.empty() || folder == "." || folder == ".." ? "-" + folder : folder;
}

void write(const EnsembleOptions& options, const std::string& name, const Samples& samples,
           const std::optional<double>& threshold) {
  const std::string folder = concat(options.outdir, "/", folder_of(name));
  make_folder(folder);
  std::string lines = "id\tlabel\n";
  for (const auto& [uid, sample] : samples) {
    const std::size_t said = predicted(sample, threshold);
    lines +=
        concat(uid, "\t",
               said < options.labels.size() ? options.labels[said] : std::to_string(said), "\n");
  }
  write_file_atomically(concat(folder, "/", options.prediction_name, ".tsv"), lines, options.force);
}

}  // namespace

void finetune_ensemble(CommandLine& cl) {
  EnsembleOptions options;
  cl.describe("put the predictions of several models together",
              "The models' scores of a sample are averaged.");
  options.add_to(cl);
  cl.parse();
  options.check();
  const std::map<std::string, Samples> sets = read_all(options.files);
  const std::optional<double> threshold =
      options.calc_threshold ? best_threshold(sets, options.labels) : options.threshold;
  for (const auto& [name, samples] : sets) {
    if (options.eval) print(" > " + name, count(samples, options.labels, threshold));
    if (!options.outdir.empty()) write(options, name, samples, threshold);
  }
  if (options.eval) print(" >> overall", count_all(sets, options.labels, threshold));
}

}  // namespace mt
